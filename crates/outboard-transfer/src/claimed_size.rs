// SPDX-License-Identifier: GPL-2.0-only
//! Sizes of files that their file system cannot hold, because its metadata are damaged.
//!
//! Every command that prints or copies the contents of a file calls [`check`] before the first
//! byte. A file may be larger than its file system: it has holes, is compressed, or shares its
//! blocks with others. Such a file can be read everywhere, and a file of a damaged size cannot.

use crate::stream::LARGE;
use outboard::{capacity, Fd};
use outboard_error::reason;
use std::io;

/// Reads begin at multiples of this.
const BLOCK: u64 = 4096;

/// An error if the file system cannot hold a file of this size: the file holds more data than the
/// file system has room for, and cannot be read beyond that.
pub fn check(file: &Fd, size: u64) -> io::Result<()> {
    // Files of the host are not checked; small files do no harm.
    if file.system().is_host() || size < LARGE {
        return Ok(());
    }
    let room = capacity(file)?;
    if size <= room {
        return Ok(());
    }
    let fits = holds_at_most(file, size, room);
    // Looking for holes has moved the position.
    file.seek(0, libc::SEEK_SET)?;
    if fits {
        return Ok(());
    }
    places(room, size).try_for_each(|place| match file.read_at(&mut [0], place) {
        Ok(_) => Ok(()),
        Err(error) => Err(damaged(size, place, &reason(&error))),
    })
}

fn damaged(size: u64, place: u64, why: &str) -> io::Error {
    io::Error::other(format!(
        "damaged: its size is {size}, more than the file system holds, \
         and byte {place} cannot be read: {why}"
    ))
}

/// Whether the file has so many holes that its data fits.
fn holds_at_most(file: &Fd, size: u64, room: u64) -> bool {
    let (mut held, mut next) = (0u64, 0);
    while let Ok(found) = file.next_data(next) {
        let Some(start) = found.filter(|&start| start < size) else {
            return true;
        };
        match file.next_hole(start) {
            Ok(end) if end > start => {
                held = held.saturating_add(end - start);
                next = end;
            }
            _ => return false,
        }
        if held > room {
            return false;
        }
    }
    false
}

/// Offsets where a read is tried: just beyond the size of the file system, at twice that and so on,
/// and at the end of the file.
fn places(room: u64, size: u64) -> impl Iterator<Item = u64> {
    let first = (room - room % BLOCK).max(BLOCK);
    std::iter::successors(Some(first), |place| place.checked_mul(2))
        .take_while(move |&place| place < size)
        .chain(size.checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_places_are_tried() {
        let all: Vec<u64> = places(10_000, 100_000).collect();
        assert_eq!(all, [8192, 16384, 32768, 65536, 99_999]);
        assert!(places(0, u64::MAX).count() < 64);
    }
}
