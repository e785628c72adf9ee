// SPDX-License-Identifier: GPL-2.0-only
//! Disks in the memory of this process: only written pages take room. Others are read from the
//! disk below, which stays as it is, or as zeros.

use crate::containers::Content;
use outboard::Storage;
use outboard_image::Source;
use std::collections::hash_map::{Entry, HashMap};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a page.
const PAGE: usize = 4096;

/// `None`: zeros.
type Page = Option<Box<[u8; PAGE]>>;
type Pages = HashMap<u64, Page>;

/// A disk that stores written pages in memory.
pub struct MemoryDisk {
    below: Option<Arc<Content>>,
    size: u64,
    most_pages: usize,
    pages: RwLock<Pages>,
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

impl MemoryDisk {
    /// A disk of zeros. `most`: bytes that it takes at most.
    pub fn empty(size: u64, most: u64) -> Self {
        Self::new(None, size, most)
    }

    /// A disk with the contents of another one.
    pub fn over(below: Arc<Content>, most: u64) -> Self {
        let size = below.size();
        Self::new(Some(below), size, most)
    }

    fn new(below: Option<Arc<Content>>, size: u64, most: u64) -> Self {
        Self {
            below,
            size,
            most_pages: usize::try_from(most / PAGE as u64).unwrap_or(usize::MAX),
            pages: RwLock::default(),
        }
    }

    fn pages(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn pages_mut(&self) -> RwLockWriteGuard<'_, Pages> {
        self.pages.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what no page has. Behind the end there are zeros.
    fn read_below(&self, mut target: &mut [u8], mut offset: u64) -> io::Result<()> {
        while let (Some(below), false) = (&self.below, target.is_empty()) {
            match below.read_at(target, offset)? {
                0 => break,
                length => {
                    target = &mut target[length..];
                    offset += length as u64;
                }
            }
        }
        target.fill(0);
        Ok(())
    }

    fn read(&self, pages: &Pages, target: &mut [u8], offset: u64) -> io::Result<()> {
        // From here on, nothing is read so far.
        let mut from = 0;
        let mut at = 0;
        for (page, start, part) in cut(offset, target.len()) {
            if let Some(found) = pages.get(&page) {
                self.read_below(&mut target[from..at], offset + from as u64)?;
                match found {
                    Some(bytes) => {
                        target[at..at + part].copy_from_slice(&bytes[start..start + part]);
                    }
                    None => target[at..at + part].fill(0),
                }
                from = at + part;
            }
            at += part;
        }
        self.read_below(&mut target[from..], offset + from as u64)
    }

    fn check_room(&self, pages: &Pages, page: u64) -> io::Result<()> {
        if pages.len() >= self.most_pages && !pages.contains_key(&page) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }

    /// The bytes of a page that is about to be written. `is_whole`: all of it.
    fn page<'a>(
        &self,
        pages: &'a mut Pages,
        page: u64,
        is_whole: bool,
    ) -> io::Result<&'a mut [u8; PAGE]> {
        self.check_room(pages, page)?;
        let found = match pages.entry(page) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(place) => {
                let mut bytes = Box::new([0; PAGE]);
                if !is_whole {
                    self.read_below(&mut bytes[..], page * PAGE as u64)?;
                }
                place.insert(Some(bytes))
            }
        };
        Ok(found.get_or_insert_with(|| Box::new([0; PAGE])))
    }
}

impl Storage for MemoryDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, pieces: Vec<IoSliceMut<'_>>, mut offset: u64) -> io::Result<()> {
        let pages = self.pages();
        for mut piece in pieces {
            self.read(&pages, &mut piece, offset)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    fn write_at(&self, pieces: Vec<IoSlice<'_>>, mut offset: u64) -> io::Result<()> {
        let mut pages = self.pages_mut();
        for piece in pieces {
            let mut rest: &[u8] = &piece;
            for (page, start, part) in cut(offset, rest.len()) {
                let bytes = self.page(&mut pages, page, part == PAGE)?;
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

    /// Whole pages give their memory back: they are again what is below.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let page = PAGE as u64;
        let (first, end) = (offset.div_ceil(page), (offset + length) / page);
        self.pages_mut()
            .retain(|number, _| !(first..end).contains(number));
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut pages = self.pages_mut();
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
        for (page, start, part) in cut(offset, length) {
            if part == PAGE {
                self.check_room(&pages, page)?;
                pages.insert(page, None);
            } else {
                self.page(&mut pages, page, false)?[start..start + part].fill(0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a range in two pieces.
    fn read(disk: &MemoryDisk, offset: u64, length: usize) -> Vec<u8> {
        let mut found = vec![9; length];
        let (first, second) = found.split_at_mut(length / 3);
        let pieces = vec![IoSliceMut::new(first), IoSliceMut::new(second)];
        disk.read_at(pieces, offset).unwrap();
        found
    }

    fn write(disk: &MemoryDisk, bytes: &[u8], offset: u64) -> io::Result<()> {
        disk.write_at(vec![IoSlice::new(bytes)], offset)
    }

    #[test]
    fn what_was_written_is_read() {
        let memory = MemoryDisk::empty(1 << 30, 1 << 20);
        let (first, second) = (vec![1; 5000], vec![2; 100]);
        let pieces = vec![IoSlice::new(&first), IoSlice::new(&second)];
        memory.write_at(pieces, 3584).unwrap();
        let found = read(&memory, 3072, 6144);
        assert!(found[..512].iter().all(|&byte| byte == 0));
        assert!(found[512..5512].iter().all(|&byte| byte == 1));
        assert!(found[5512..5612].iter().all(|&byte| byte == 2));
        assert!(found[5612..].iter().all(|&byte| byte == 0));
        memory.write_zeroes(3584, 5000).unwrap();
        let found = read(&memory, 3072, 6144);
        assert!(found[..5512].iter().all(|&byte| byte == 0));
        assert_eq!(found[5512], 2);
    }

    #[test]
    fn what_was_not_written_is_of_the_disk_below() {
        let below = MemoryDisk::empty(40960, 1 << 20);
        let bytes: Vec<u8> = (0..40960_u32).map(|at| (at / 7) as u8 | 1).collect();
        write(&below, &bytes, 0).unwrap();
        let disk = MemoryDisk::over(Arc::new(Content::Served(Arc::new(below))), 1 << 20);
        let mut wanted = bytes.clone();
        for (offset, length) in [(100, 10), (4000, 200), (8192, 4096), (20480, 9000)] {
            write(&disk, &vec![0; length], offset as u64).unwrap();
            wanted[offset..offset + length].fill(0);
        }
        disk.write_zeroes(36864, 4096).unwrap();
        wanted[36864..].fill(0);
        assert_eq!(read(&disk, 0, 40960), wanted);
        assert_eq!(read(&disk, 4090, 5000), wanted[4090..9090]);
        disk.discard(8192, 4096).unwrap();
        assert_eq!(read(&disk, 8192, 4096), bytes[8192..12288]);
    }

    #[test]
    fn there_is_an_end_of_memory() {
        let memory = MemoryDisk::empty(1 << 30, 16 * PAGE as u64);
        for page in 0..16 {
            write(&memory, &[1; PAGE], page * PAGE as u64).unwrap();
        }
        let full = write(&memory, &[1; PAGE], 1 << 20).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
        assert!(memory.write_zeroes(1 << 20, 1 << 20).is_err());
        write(&memory, &[2; PAGE], 0).unwrap();
    }
}
