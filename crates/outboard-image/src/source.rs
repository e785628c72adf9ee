// SPDX-License-Identifier: GPL-2.0-only
//! Sources of bytes: a file of the host, a part of one, memory.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// Bytes of a sector of most disks, and of a file that holds a disk.
pub(crate) const USUAL_SECTOR: u64 = 512;

/// Bytes of an image that can be read anywhere.
pub trait Source {
    /// Size in bytes.
    fn size(&self) -> u64;

    /// Bytes of a logical sector, as far as the source knows.
    fn sector_size(&self) -> u64 {
        USUAL_SECTOR
    }

    /// Reads at an offset. At the end it returns fewer bytes, or none.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// A file or block device of the host.
pub struct FileSource {
    file: File,
    size: u64,
}

impl FileSource {
    /// Wraps a file or block device, and finds its size.
    pub fn new(mut file: File) -> io::Result<Self> {
        let size = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, size })
    }
}

impl Source for FileSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

impl Source for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.len());
        let length = buffer.len().min(self.len() - start);
        buffer[..length].copy_from_slice(&self[start..start + length]);
        Ok(length)
    }
}

/// A range of another source: a partition.
pub struct Slice<'a, S: Source + ?Sized> {
    whole: &'a S,
    start: u64,
    size: u64,
}

impl<'a, S: Source + ?Sized> Slice<'a, S> {
    /// The range from `start`, of `size` bytes or up to the end.
    pub fn new(whole: &'a S, start: u64, size: u64) -> Self {
        let start = start.min(whole.size());
        let size = size.min(whole.size() - start);
        Self { whole, start, size }
    }
}

impl<S: Source + ?Sized> Source for Slice<'_, S> {
    fn size(&self) -> u64 {
        self.size
    }

    fn sector_size(&self) -> u64 {
        self.whole.sector_size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let offset = offset.min(self.size);
        let length = (self.size - offset).min(buffer.len() as u64) as usize;
        self.whole
            .read_at(&mut buffer[..length], self.start + offset)
    }
}

/// A source that remembers the first error of a read. All reads after that one fail at once: a
/// server that does not answer is not asked again.
pub(crate) struct Watched<'a, S: ?Sized> {
    source: &'a S,
    error: RefCell<Option<io::Error>>,
}

impl<S: Source + ?Sized> Source for Watched<'_, S> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn sector_size(&self) -> u64 {
        self.source.sector_size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(error) = &*self.error.borrow() {
            return Err(error.kind().into());
        }
        self.source.read_at(buffer, offset).map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::Interrupted {
                self.error.replace(Some(error));
            }
            kind.into()
        })
    }
}

/// Runs a parser. A failed read is its result, and never "there is none": what lies there is
/// unknown.
pub(crate) fn watched<S: Source + ?Sized, T>(
    source: &S,
    parse: impl FnOnce(&Watched<S>) -> T,
) -> io::Result<T> {
    let watched = Watched {
        source,
        error: RefCell::default(),
    };
    let parsed = parse(&watched);
    match watched.error.into_inner() {
        Some(error) => Err(error),
        None => Ok(parsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_where_it_ends() {
        let bytes: Vec<u8> = (0..100).collect();
        let slice = Slice::new(bytes.as_slice(), 90, 50);
        assert_eq!(slice.size(), 10);
        let mut buffer = [0; 20];
        assert_eq!(slice.read_at(&mut buffer, 8).unwrap(), 2);
        assert_eq!(buffer[..2], [98, 99]);
        assert_eq!(slice.read_at(&mut buffer, u64::MAX).unwrap(), 0);
        assert_eq!(Slice::new(bytes.as_slice(), u64::MAX, 1).size(), 0);
    }
}
