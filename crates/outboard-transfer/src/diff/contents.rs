// SPDX-License-Identifier: GPL-2.0-only
//! Comparing what two files hold. If both have a hole there is nothing to read.

use super::comparison::Comparison;
use super::difference::{Difference, What};
use crate::claimed_size;
use outboard::{Fd, PathFd};
use std::io;

/// Bytes that are read at once.
const PIECE: usize = 256 * 1024;

/// Two regular files of the same size.
pub(super) struct FilePair {
    pub(super) files: [PathFd; 2],
    pub(super) path: Vec<u8>,
}

/// An error, and of which of the two files.
type OfOne<T> = Result<T, (usize, io::Error)>;

/// The buffers of one thread.
pub(super) struct CompareBuffers([Vec<u8>; 2]);

impl CompareBuffers {
    pub(super) fn new() -> Self {
        Self([vec![0; PIECE], vec![0; PIECE]])
    }
}

/// Compares the contents of two files, and notes the first difference.
pub(super) fn same_contents(
    comparison: &Comparison,
    pair: &FilePair,
    buffers: &mut CompareBuffers,
) {
    if comparison.interrupt.asked() {
        return;
    }
    match first_difference(comparison, pair, &mut buffers.0) {
        Ok(None) => {}
        Ok(Some(offset)) => comparison.findings.differ(Difference {
            path: pair.path.clone(),
            what: What::Contents(offset),
        }),
        Err((index, error)) => comparison.trouble(index, &pair.path, &error),
    }
}

fn open(comparison: &Comparison, pair: &FilePair, index: usize) -> OfOne<Fd> {
    let flags = libc::O_RDONLY | libc::O_NONBLOCK;
    let opened = pair.files[index].open(flags).and_then(|file| {
        let stat = file.stat()?;
        claimed_size::check(&file, stat.st_size.max(0) as u64)?;
        comparison.hidden.find(&file, &stat)?;
        Ok(file)
    });
    opened.map_err(|error| (index, error))
}

/// The offset of the next data; a file system that knows no holes has data everywhere.
fn next_data(file: &Fd, offset: u64) -> Option<u64> {
    file.next_data(offset).unwrap_or(Some(offset))
}

fn first_difference(
    comparison: &Comparison,
    pair: &FilePair,
    buffers: &mut [Vec<u8>; 2],
) -> OfOne<Option<u64>> {
    let files = [open(comparison, pair, 0)?, open(comparison, pair, 1)?];
    let mut offset = 0;
    while !comparison.interrupt.asked() {
        let data = files.each_ref().map(|file| next_data(file, offset));
        offset = match data {
            [Some(left), Some(right)] => left.min(right),
            [Some(only), None] | [None, Some(only)] => only,
            [None, None] => return Ok(None),
        };
        let mut lengths = [0; 2];
        for index in 0..2 {
            lengths[index] =
                fill(&files[index], &mut buffers[index], offset).map_err(|error| (index, error))?;
        }
        let [left, right] = [&buffers[0][..lengths[0]], &buffers[1][..lengths[1]]];
        if left != right {
            let same = left.iter().zip(right).take_while(|(a, b)| a == b).count();
            return Ok(Some(offset + same as u64));
        }
        if left.len() < PIECE {
            return Ok(None);
        }
        offset += PIECE as u64;
    }
    Ok(None)
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &Fd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64)? {
            0 => break,
            length => done += length,
        }
    }
    Ok(done)
}
