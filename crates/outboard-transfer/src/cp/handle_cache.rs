// SPDX-License-Identifier: GPL-2.0-only
//! Files of an image that were just written, and that no command will read soon.
//!
//! Their pages would stay until the image is unmounted. The host would have to provide memory for
//! all of them page by page, which costs more than writing them. So the files stay open for a
//! while, in which the kernel writes most of them by itself. Then their pages are dropped, and the
//! next files get that memory.
//!
//! The kernel also caches names, inodes and the file system's own blocks, a few kilobytes for each
//! file. By itself it would grow. When these caches have grown by some megabytes, the copy asks the
//! kernel to drop them. The kernel cannot drop blocks that are not written yet, such as those of a
//! journal. When those have become many, the whole file system is synced.

use super::trail::WRITE_AND_WAIT;
use outboard::{Fd, System};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Bytes of files that may wait.
const MOST: u64 = 16 << 20;
/// Files and directories between two checks of memory.
const LOOK: u64 = 256;
/// Bytes by which the kernel's caches may grow after it last dropped them.
const MORE: u64 = 6 << 20;
/// Bytes that the kernel may fail to drop before all is written, and their growth since then.
const UNWRITTEN: u64 = 48 << 20;
const UNWRITTEN_MORE: u64 = 16 << 20;
/// Files are cached in pages of this size.
const PAGE: u64 = 4096;

struct Written {
    file: Fd,
    bytes: u64,
}

#[derive(Default)]
struct CacheState {
    /// Oldest first.
    files: VecDeque<Written>,
    bytes: u64,
}

/// Size of the kernel's caches in bytes, without the files that wait.
#[derive(Default)]
struct Memory {
    /// Size at the first check, then after each time the caches were dropped.
    least: Option<u64>,
    /// The smallest size since all was written; 0 before that.
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

    /// Drops the caches if they are large. Returns whether so much is left that all should be
    /// written now.
    fn forget_much(&mut self, system: &System) -> io::Result<bool> {
        let now = Self::now(system)?;
        if now < *self.least.get_or_insert(now) + MORE {
            return Ok(false);
        }
        let left = self.forget(system)?;
        // Some written blocks can be dropped only later, when they are at their place and not only
        // in the journal.
        self.written = self.written.min(left);
        Ok(left >= UNWRITTEN.max(self.written + UNWRITTEN_MORE))
    }

    /// Keeps the caches small. `place` is any file or directory of the file system.
    fn look(&mut self, place: &Fd) -> io::Result<()> {
        // If the size is not known, the kernel frees the memory later.
        if self.forget_much(place.system()).unwrap_or(false) {
            place.sync_file_system()?;
            self.written = self.forget(place.system()).unwrap_or(self.written);
        }
        Ok(())
    }
}

/// Files that several threads have written.
#[derive(Default)]
pub struct HandleCache {
    state: Mutex<CacheState>,
    /// Number of files and directories so far.
    made: AtomicU64,
    memory: Mutex<Memory>,
}

impl HandleCache {
    fn lock(&self) -> MutexGuard<'_, CacheState> {
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

    /// Closes a file, now or later. `bytes`: how many were written to it. Write errors do not
    /// matter here: the sync of the file system returns them.
    pub fn add(&self, file: Fd, bytes: u64) {
        if bytes == 0 {
            return;
        }
        // A sparse file may have 2^63 bytes: the sum of several would not fit into 64 bits.
        let bytes = bytes.min(2 * MOST).next_multiple_of(PAGE);
        let mut state = self.lock();
        state.bytes += bytes;
        state.files.push_back(Written { file, bytes });
        drop(state);
        while let Some(file) = self.oldest() {
            let _ = file.sync_range(0, 0, WRITE_AND_WAIT);
            let _ = file.advise(0, 0, libc::POSIX_FADV_DONTNEED);
        }
    }

    /// Notes that a file of any type is complete. `place` is any file or directory of the file
    /// system. The caller must report the error: no other call may return it.
    pub fn note(&self, place: &Fd) -> io::Result<()> {
        if self.made.fetch_add(1, Ordering::Relaxed) % LOOK != LOOK - 1 {
            return Ok(());
        }
        // While all is written, other threads wait: they would fill memory.
        let mut memory = self.memory.lock().expect("no thread panics");
        memory.look(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn large_files_leave_at_once() {
        let cache = HandleCache::default();
        let add = |bytes| {
            let file = tempfile::tempfile().unwrap();
            cache.add(Fd::from(OwnedFd::from(file)), bytes);
            cache.lock().files.len()
        };
        assert_eq!(add(0), 0);
        assert_eq!(add(1), 1);
        assert_eq!(add(PAGE + 1), 2);
        assert_eq!(add(u64::MAX), 0);
        assert_eq!(add(MOST), 1);
        assert_eq!(add(1), 1);
        assert_eq!(cache.lock().bytes, PAGE);
    }
}
