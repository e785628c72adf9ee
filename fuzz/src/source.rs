// SPDX-License-Identifier: GPL-2.0-only
//! Disks that are larger than the input of a target.

use outboard_image::Source;
use std::io;

/// Pieces of bytes at their offsets, with zeroes between and behind them.
pub struct Sparse<'a> {
    pub pieces: Vec<(u64, &'a [u8])>,
    pub size: u64,
}

impl Source for Sparse<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let wanted = &mut buffer[..length];
        wanted.fill(0);
        for (start, bytes) in &self.pieces {
            let first = offset.max(*start);
            let end = (offset + length as u64).min(start + bytes.len() as u64);
            if first < end {
                let piece = &bytes[(first - start) as usize..(end - start) as usize];
                wanted[(first - offset) as usize..(end - offset) as usize].copy_from_slice(piece);
            }
        }
        Ok(length)
    }
}

/// Overwrites bytes at an offset, as far as there are any.
pub fn put(bytes: &mut [u8], offset: usize, new: &[u8]) {
    if let Some(place) = bytes
        .get_mut(offset..)
        .and_then(|rest| rest.get_mut(..new.len()))
    {
        place.copy_from_slice(new);
    }
}

/// The little-endian number of four bytes at an offset; 0 behind the end.
pub fn le32(bytes: &[u8], offset: usize) -> u32 {
    let field = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u32::from_le_bytes(*field))
}
