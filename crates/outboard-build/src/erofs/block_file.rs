// SPDX-License-Identifier: GPL-2.0-only
//! The file of an image that is being written, block by block. It begins empty, so that blocks
//! which nobody writes are holes.

use outboard_error::format::size as size_text;
use outboard_error::{ErrorKind, Failure};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

/// Bytes of a block.
pub(super) const BLOCK: u64 = 4096;
/// Bytes that are written at once.
const BUFFER: usize = 256 << 10;

/// A file of blocks.
pub(crate) struct BlockFile {
    file: File,
    /// The first block that is free.
    next: u32,
    /// Most blocks.
    most: u32,
}

impl BlockFile {
    /// `file`: an empty one; `most`: bytes that it may have. The superblock has its place.
    pub(crate) fn new(file: File, most: u64) -> Self {
        let most = (most / BLOCK).min(u64::from(u32::MAX)) as u32;
        Self {
            file,
            next: 1,
            most,
        }
    }

    /// Blocks for so many bytes. Returns the first one. An error: the image would be too large.
    pub(crate) fn reserve(&mut self, bytes: u64) -> io::Result<u32> {
        let first = self.next;
        let left = u64::from(self.most.saturating_sub(first));
        let blocks = bytes.div_ceil(BLOCK);
        if blocks > left {
            let most = size_text(u64::from(self.most) * BLOCK);
            let text = format!("its files have more than {most}, the most that is unpacked");
            return Err(Failure::new(ErrorKind::Unsupported, text).into());
        }
        self.next += blocks as u32;
        Ok(first)
    }

    /// Writes at an offset in blocks that were reserved. Zeros stay holes.
    pub(crate) fn write_at(&self, block: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let start = u64::from(block) * BLOCK + offset;
        self.file.write_all_at(bytes, start)
    }

    /// Writes one byte after the other from the start of a block on.
    pub(crate) fn writer(&self, block: u32) -> impl Write + '_ {
        let position = u64::from(block) * BLOCK;
        BufWriter::with_capacity(
            BUFFER,
            BlockWriter {
                file: self,
                position,
            },
        )
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.next
    }

    /// Gives the file its size, in bytes, which is returned.
    pub(crate) fn finish(&self) -> io::Result<u64> {
        let size = u64::from(self.next) * BLOCK;
        self.file.set_len(size)?;
        Ok(size)
    }
}

struct BlockWriter<'a> {
    file: &'a BlockFile,
    position: u64,
}

impl Write for BlockWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.file.write_all_at(bytes, self.position)?;
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
