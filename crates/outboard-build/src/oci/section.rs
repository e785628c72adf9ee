// SPDX-License-Identifier: GPL-2.0-only
//! A part of a file, read from its start on.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct FileSection {
    file: Arc<File>,
    position: u64,
    left: u64,
}

impl FileSection {
    pub(super) fn new(file: Arc<File>, start: u64, size: u64) -> Self {
        Self {
            file,
            position: start,
            left: size,
        }
    }

    /// Bytes that are left.
    pub(super) fn size(&self) -> u64 {
        self.left
    }

    /// All of it. An error: it has more than `most` bytes, or ends before.
    pub(super) fn bytes(mut self, most: u64) -> io::Result<Vec<u8>> {
        if self.left > most {
            let text = format!("it has {} bytes, more than {most}", self.left);
            return Err(io::Error::other(text));
        }
        let mut bytes = vec![0; self.left as usize];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Read for FileSection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self.left.min(buffer.len() as u64) as usize;
        let length = self.file.read_at(&mut buffer[..most], self.position)?;
        self.position += length as u64;
        self.left -= length as u64;
        Ok(length)
    }
}
