// SPDX-License-Identifier: GPL-2.0-only
//! Whether a file changes while it is copied: the copy may mix its old and its new contents.

use outboard::Fd;

/// Size and time of the last change of a file's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    size: i64,
    modified: (i64, i64),
}

impl FileState {
    pub fn of(stat: &libc::stat) -> Self {
        Self {
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }

    /// Whether the file has another state now. Pipes, and files such as those of /proc, have no
    /// size and change always.
    pub fn has_changed(self, file: &Fd) -> bool {
        let now = file.stat();
        self.size > 0 && now.is_ok_and(|now| Self::of(&now) != self)
    }
}
