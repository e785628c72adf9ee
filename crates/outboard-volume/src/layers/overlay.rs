// SPDX-License-Identifier: GPL-2.0-only
//! Writable devices over devices that must not change: written blocks stay in memory, and vanish
//! with the overlay.
//!
//! Some drivers write even when the user only reads. They write little.

use outboard::{BlockDevice, DiskOptions, Kernel, Storage, Target};
use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a page.
const PAGE: usize = 4096;
/// Most pages of one overlay: 64 MiB.
const MOST_PAGES: usize = 1 << 14;
/// Size of the disk that holds the changes.
const SIZE: u64 = 1 << 30;
/// Sectors of a chunk of the snapshot target.
const CHUNK: u64 = 8;

/// A disk in memory that stores only written pages.
#[derive(Default)]
struct Memory {
    pages: Mutex<HashMap<u64, Box<[u8; PAGE]>>>,
}

impl Memory {
    fn pages(&self) -> MutexGuard<'_, HashMap<u64, Box<[u8; PAGE]>>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits a range of a disk at page boundaries: number of the page, first byte in it, length.
fn cut(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = (at % PAGE as u64) as usize;
        let part = (PAGE - start).min(length - done);
        done += part;
        (part > 0).then_some((at / PAGE as u64, start, part))
    })
}

impl Storage for Memory {
    fn size(&self) -> u64 {
        SIZE
    }

    fn read_at(&self, pieces: Vec<IoSliceMut<'_>>, mut offset: u64) -> io::Result<()> {
        let pages = self.pages();
        for mut piece in pieces {
            let mut rest: &mut [u8] = &mut piece;
            let length = rest.len();
            for (page, start, part) in cut(offset, length) {
                let (target, after) = rest.split_at_mut(part);
                match pages.get(&page) {
                    Some(bytes) => target.copy_from_slice(&bytes[start..start + part]),
                    None => target.fill(0),
                }
                rest = after;
            }
            offset += length as u64;
        }
        Ok(())
    }

    fn write_at(&self, pieces: Vec<IoSlice<'_>>, mut offset: u64) -> io::Result<()> {
        let mut pages = self.pages();
        for piece in pieces {
            let mut rest: &[u8] = &piece;
            for (page, start, part) in cut(offset, rest.len()) {
                if pages.len() >= MOST_PAGES && !pages.contains_key(&page) {
                    return Err(io::Error::from_raw_os_error(libc::ENOSPC));
                }
                let bytes = pages.entry(page).or_insert_with(|| Box::new([0; PAGE]));
                let (source, after) = rest.split_at(part);
                bytes[start..start + part].copy_from_slice(source);
                rest = after;
            }
            offset += piece.len() as u64;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut pages = self.pages();
        for (page, start, part) in cut(offset, length as usize) {
            if let Some(bytes) = pages.get_mut(&page) {
                bytes[start..start + part].fill(0);
            }
        }
        Ok(())
    }
}

/// A writable device with the contents of `below`.
pub fn overlay(kernel: &Kernel, name: &str, below: &BlockDevice) -> io::Result<BlockDevice> {
    let changes = kernel
        .add_served_disk(Arc::new(Memory::default()), DiskOptions::read_write())?
        .device(None)?;
    let target = Target {
        start: 0,
        size: below.size()? / 512,
        kind: "snapshot",
        parameters: format!("{} {} N {CHUNK}", below.number(), changes.number()),
    };
    kernel.map(name, false, &[target], &[below.clone(), changes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let memory = Memory::default();
        let (first, second) = (vec![1; 5000], vec![2; 100]);
        let pieces = vec![IoSlice::new(&first), IoSlice::new(&second)];
        memory.write_at(pieces, 3584).unwrap();
        let mut found = vec![9; 6144];
        memory
            .read_at(vec![IoSliceMut::new(&mut found)], 3072)
            .unwrap();
        assert!(found[..512].iter().all(|&byte| byte == 0));
        assert!(found[512..5512].iter().all(|&byte| byte == 1));
        assert!(found[5512..5612].iter().all(|&byte| byte == 2));
        assert!(found[5612..].iter().all(|&byte| byte == 0));
        memory.write_zeroes(3584, 5000).unwrap();
        memory
            .read_at(vec![IoSliceMut::new(&mut found)], 3072)
            .unwrap();
        assert!(found[..5512].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn there_is_an_end_of_memory() {
        let memory = Memory::default();
        let page = [1; PAGE];
        let write = |page_number: usize| {
            let offset = (page_number * PAGE) as u64;
            memory.write_at(vec![IoSlice::new(&page)], offset)
        };
        for number in 0..MOST_PAGES {
            write(number).unwrap();
        }
        let full = write(MOST_PAGES).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
        write(0).unwrap();
    }
}
