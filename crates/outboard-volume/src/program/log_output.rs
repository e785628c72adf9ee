// SPDX-License-Identifier: GPL-2.0-only
//! The log of a run in the background: a file that is this process's standard output and standard
//! error. Of a long one, the host keeps the end: the rest becomes a hole.

use outboard::Fd;
use std::io::{self, Write};

/// So much of the log is kept, at least.
const KEPT: u64 = 16 << 20;
/// The beginning goes in pieces of this size.
const PIECE: u64 = 4 << 20;

/// One of the outputs. The file is open for appending: writers need no position.
pub(super) struct LogOutput {
    file: Fd,
    /// Bytes before this are gone.
    begin: u64,
}

impl LogOutput {
    pub(super) fn open() -> io::Result<Self> {
        let file = Fd::standard(1)?;
        Ok(Self { file, begin: 0 })
    }

    fn drop_beginning(&mut self) -> io::Result<()> {
        let end = self.file.stat()?.st_size as u64;
        let begin = end.saturating_sub(KEPT) / PIECE * PIECE;
        if begin > self.begin {
            self.begin = begin;
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            self.file.allocate(mode, 0, begin)?;
        }
        Ok(())
    }
}

impl Write for LogOutput {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let length = self.file.write(buffer)?;
        // A file system without holes keeps all of it.
        let _ = self.drop_beginning();
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
