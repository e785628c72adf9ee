// SPDX-License-Identifier: GPL-2.0-only
//! Files of an image that were just written, and that nobody will read soon.
//!
//! Their pages would stay until the image is unmounted, in memory that has to be taken from the host page by page,
//! which costs more than writing them. So the files stay open for a while, in which the kernel writes most of them by
//! itself, and then their pages are given up: the next files get that memory.
//!
//! The kernel also remembers names, inodes and the file system's own blocks, a few kilobytes for each file. After some thousands of files it
//! is asked to forget them: it would rather grow.

use super::data::WRITE_AND_WAIT;
use outboard::Fd;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// Bytes of files that may wait.
const MOST: u64 = 16 << 20;
/// Files after which the kernel forgets the unused ones.
const FORGOTTEN: u64 = 4096;
/// What of a file is in memory is pages.
const PAGE: u64 = 4096;

struct Written {
    file: Fd,
    bytes: u64,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    files: VecDeque<Written>,
    bytes: u64,
    /// All that ever came.
    count: u64,
}

/// Files that several threads have written.
#[derive(Default)]
pub struct Behind {
    state: Mutex<State>,
}

impl Behind {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked ends the program, so the lock is never poisoned.
        self.state.lock().expect("no thread panics")
    }

    /// Which file this is.
    fn count(&self) -> u64 {
        let mut state = self.lock();
        state.count += 1;
        state.count
    }

    /// The file that has waited longest, if there are too many.
    fn oldest(&self) -> Option<Fd> {
        let mut state = self.lock();
        if state.bytes <= MOST {
            return None;
        }
        let oldest = state.files.pop_front()?;
        state.bytes -= oldest.bytes;
        Some(oldest.file)
    }

    /// Closes a file to which so many bytes were written, sooner or later. Errors of writing do not matter here: they
    /// are told when the file system is synced.
    pub fn add(&self, file: Fd, bytes: u64) {
        if self.count() % FORGOTTEN == 0 {
            // Memory comes back later if it fails.
            let _ = outboard::forget_unused();
        }
        if bytes == 0 {
            return;
        }
        let bytes = bytes.next_multiple_of(PAGE);
        let mut state = self.lock();
        state.bytes += bytes;
        state.files.push_back(Written { file, bytes });
        drop(state);
        while let Some(file) = self.oldest() {
            let _ = file.sync_range(0, 0, WRITE_AND_WAIT);
            let _ = file.advise(0, 0, libc::POSIX_FADV_DONTNEED);
        }
    }
}
