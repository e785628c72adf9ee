// SPDX-License-Identifier: GPL-2.0-only
//! The pages that a large copy leaves in the page cache of this process's kernel.

use outboard::Fd;

/// Bytes between two rounds of writing and dropping pages.
pub const STEP: u64 = 32 << 20;

pub const WRITE_AND_WAIT: libc::c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE
    | libc::SYNC_FILE_RANGE_WRITE
    | libc::SYNC_FILE_RANGE_WAIT_AFTER;

/// The page cache that a large copy leaves behind in the kernel of this process.
///
/// Copied pages are not needed again soon. The host would have to provide memory for them, which
/// costs more than copying. So pages that were read are dropped. Writing of dirty pages starts
/// early; one step later the copy waits for them and drops them.
pub struct Trail<'a> {
    file: &'a Fd,
    writes: bool,
    /// Writing has started for all pages before this offset.
    started: u64,
    /// All pages before this offset are dropped.
    dropped: u64,
}

impl<'a> Trail<'a> {
    pub fn new(file: &'a Fd, writes: bool) -> Option<Self> {
        (!file.system().is_host()).then_some(Self {
            file,
            writes,
            started: 0,
            dropped: 0,
        })
    }

    /// Everything before `end` was copied. Errors do not matter here: the sync of the file system
    /// returns write errors again.
    pub fn reached(&mut self, end: u64) {
        if end - self.started < STEP {
            return;
        }
        let mut done = end;
        if self.writes {
            let length = end - self.started;
            let _ = self
                .file
                .sync_range(self.started, length, libc::SYNC_FILE_RANGE_WRITE);
            done = self.started;
            let _ = self
                .file
                .sync_range(self.dropped, done - self.dropped, WRITE_AND_WAIT);
        }
        if done > self.dropped {
            let length = done - self.dropped;
            let _ = self
                .file
                .advise(self.dropped, length, libc::POSIX_FADV_DONTNEED);
        }
        self.dropped = done;
        self.started = end;
    }
}
