// SPDX-License-Identifier: GPL-2.0-only
//! Files of an image that were just written, and that nobody will read soon.
//!
//! Their pages would stay until the image is unmounted, in memory that has to be taken from the host page by page,
//! which costs more than writing them. So the files stay open for a while, in which the kernel writes most of them by
//! itself, and then their pages are given up: the next files get that memory.
//!
//! The kernel also remembers names, inodes and the file system's own blocks, a few kilobytes for each file. When these have become
//! some megabytes more it is asked to forget them: it would rather grow. It cannot forget what is not written yet, a journal's blocks above all.
//! When that is much, all of the file system is written.

use super::data::WRITE_AND_WAIT;
use outboard::{Fd, System};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Bytes of files that may wait.
const MOST: u64 = 16 << 20;
/// Files and directories after which memory is looked at.
const LOOK: u64 = 256;
/// Bytes that the kernel may remember more than after it was last asked to forget.
const MORE: u64 = 6 << 20;
/// Bytes that it may fail to forget before all is written, and how many more than after it was last.
const UNWRITTEN: u64 = 48 << 20;
const UNWRITTEN_MORE: u64 = 16 << 20;
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
}

/// What the kernel remembers, in bytes, without the files that wait.
#[derive(Default)]
struct Memory {
    /// At the first look, then after each time it forgot.
    least: Option<u64>,
    /// The least since all was written; 0 before that.
    written: u64,
}

impl Memory {
    fn now(system: &System) -> io::Result<u64> {
        let remembered = outboard::remembered(system)?;
        Ok(remembered.contents.saturating_sub(MOST) + remembered.other)
    }

    fn forget(&mut self, system: &System) -> io::Result<u64> {
        outboard::forget_unused(system)?;
        let left = Self::now(system)?;
        self.least = Some(left);
        Ok(left)
    }

    /// Forgets if there is much. Returns whether so much is left that all should be written now.
    fn forget_much(&mut self, system: &System) -> io::Result<bool> {
        let now = Self::now(system)?;
        if now < *self.least.get_or_insert(now) + MORE {
            return Ok(false);
        }
        let left = self.forget(system)?;
        // Of what was written some can be forgotten only later, when it is in its place and not in the journal alone.
        self.written = self.written.min(left);
        Ok(left >= UNWRITTEN.max(self.written + UNWRITTEN_MORE))
    }

    /// Keeps it small. `place` is any file or directory of the file system.
    fn look(&mut self, place: &Fd) -> io::Result<()> {
        // Where memory cannot be looked at it comes back later.
        if self.forget_much(place.system()).unwrap_or(false) {
            place.sync_file_system()?;
            self.written = self.forget(place.system()).unwrap_or(self.written);
        }
        Ok(())
    }
}

/// Files that several threads have written.
#[derive(Default)]
pub struct Behind {
    state: Mutex<State>,
    /// Files and directories that ever came.
    made: AtomicU64,
    memory: Mutex<Memory>,
}

impl Behind {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked ends the program, so the lock is never poisoned.
        self.state.lock().expect("no thread panics")
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

    /// Notes that something of any type is complete. `place` is any file or directory of the file system. An error
    /// is one of writing that nobody else may be told.
    pub fn note(&self, place: &Fd) -> io::Result<()> {
        if self.made.fetch_add(1, Ordering::Relaxed) % LOOK != LOOK - 1 {
            return Ok(());
        }
        // While all is being written others wait: they would fill memory meanwhile.
        let mut memory = self.memory.lock().expect("no thread panics");
        memory.look(place)
    }
}
