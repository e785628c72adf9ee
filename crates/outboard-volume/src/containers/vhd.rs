// SPDX-License-Identifier: GPL-2.0-only
//! VHD images, fixed and dynamic, read and written in place. [`outboard_image::vhd`] has the
//! format.
//!
//! A block of a dynamic disk that is written for the first time gets room at the end of the file,
//! where the last footer was; a new footer follows it. The table in the file learns of the block at
//! the next flush, once the block itself is on stable storage: a crash loses what was not flushed,
//! and nothing else.

pub mod resize;

use super::faults::refused;
use outboard::{Fd, FileLock, Storage};
use outboard_image::vhd::{self, Dynamic, VhdLayout, FREE, SECTOR};
use outboard_image::{Fault, FileSource, Source};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

/// Bytes of a block of new images, as other programs make them.
const BLOCK_SIZE: u32 = 2 << 20;
/// The largest disk of the format.
const LARGEST: u64 = 2040 << 30;
/// Bytes of zeros that are written at once where no hole can be made.
const PIECE: usize = 64 << 10;
static ZEROS: [u8; PIECE] = [0; PIECE];

fn wrong(fault: Fault) -> io::Error {
    refused("a vhd image", &fault)
}

fn damaged(text: &str) -> io::Error {
    wrong(Fault::Damaged(text.to_owned()))
}

/// The offset of the last footer in a file of this size. Bytes that other programs left before the
/// footer stay.
fn footer_place(size: u64) -> u64 {
    size.saturating_sub(vhd::FOOTER) / SECTOR * SECTOR
}

fn source(file: &File) -> io::Result<FileSource> {
    FileSource::new(file.try_clone()?)
}

/// Checks the metadata. Returns whether the image lacks its end.
pub fn check(file: &File) -> io::Result<bool> {
    let source = source(file)?;
    let layout = vhd::read(&source).map_err(wrong)?;
    match &layout.dynamic {
        None => Ok(false),
        Some(dynamic) => {
            let blocks = vhd::read_blocks(&source, dynamic).map_err(wrong)?;
            Ok(blocks.is_cut)
        }
    }
}

/// An error if the image cannot be written.
pub fn check_writable(file: &File) -> io::Result<()> {
    if check(file)? {
        Err(damaged("it is cut off, and can only be read"))
    } else {
        Ok(())
    }
}

/// Locks the image like a raw one, unless that is `ours` already.
pub fn lock(file: &File, write: bool, ours: bool) -> io::Result<Vec<FileLock>> {
    if ours {
        Ok(Vec::new())
    } else {
        Ok(vec![FileLock::new(file.try_clone()?, write)?])
    }
}

/// Makes an empty file an image with an empty dynamic disk of this size. `identity`: its UUID.
pub fn create(file: &File, size: u64, identity: [u8; 16]) -> io::Result<()> {
    if size > LARGEST {
        return Err(io::Error::other(
            "a vhd image has at most 2040 GiB: make a .qcow2 image",
        ));
    }
    let dynamic = Dynamic {
        header: vhd::FOOTER,
        table: vhd::FOOTER + vhd::HEADER,
        blocks: size.div_ceil(u64::from(BLOCK_SIZE)) as u32,
        block_size: BLOCK_SIZE,
    };
    let layout = VhdLayout {
        size,
        dynamic: Some(dynamic),
    };
    let footer = vhd::footer(&layout, identity);
    file.write_all_at(&footer, 0)?;
    file.write_all_at(&vhd::header(&dynamic), dynamic.header)?;
    let table = vec![0xff; dynamic.table_size() as usize];
    file.write_all_at(&table, dynamic.table)?;
    file.write_all_at(&footer, dynamic.table + dynamic.table_size())
}

/// The disk in an image.
pub struct Vhd {
    image: Image,
    /// The same file, for making holes.
    holes: Fd,
    size: u64,
    body: Option<Body>,
}

/// The blocks of a dynamic disk.
struct Body {
    dynamic: Dynamic,
    footer: [u8; vhd::FOOTER as usize],
    table: RwLock<BlockTable>,
    /// Blocks whose bitmap is known to have all sectors.
    full: Vec<AtomicBool>,
}

struct BlockTable {
    starts: Vec<u32>,
    /// Blocks that the table in the file does not know yet.
    new: Vec<usize>,
    /// The offset at which the next block begins.
    end: u64,
}

/// A part of a request that lies in one block.
struct RequestPart {
    block: usize,
    /// The offset in the block's data.
    start: u64,
    length: usize,
}

/// Splits a range at the borders of blocks.
fn parts(block_size: u32, offset: u64, length: u64) -> impl Iterator<Item = RequestPart> {
    let block_size = u64::from(block_size);
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        let start = at % block_size;
        let length = (block_size - start).min(end - at);
        let part = RequestPart {
            block: (at / block_size) as usize,
            start,
            length: length as usize,
        };
        at += length;
        (length > 0).then_some(part)
    })
}

/// The file of an image, and what it must have while it is open.
struct Image {
    file: File,
    /// The length when the file was opened, or later when it grew; 0 for a block device.
    size: AtomicU64,
    /// The errno of the first sync that failed.
    lost: OnceLock<i32>,
}

impl Image {
    fn new(file: File) -> io::Result<Self> {
        Ok(Self {
            size: AtomicU64::new(file.metadata()?.len()),
            file,
            lost: OnceLock::new(),
        })
    }

    /// Puts the file on stable storage. The host reports lost data once: after a failed sync, also
    /// one inside of a write, each later sync fails, and so does the disk's next flush.
    fn sync(&self) -> io::Result<()> {
        self.note_sync(self.file.sync_data())
    }

    fn note_sync(&self, done: io::Result<()>) -> io::Result<()> {
        if let Err(error) = done {
            let _ = self.lost.set(error.raw_os_error().unwrap_or(libc::EIO));
        }
        match self.lost.get() {
            Some(errno) => Err(io::Error::from_raw_os_error(*errno)),
            None => Ok(()),
        }
    }

    /// Reads all of a buffer. Bytes beyond the file's end at its opening are zero. `EIO`: somebody
    /// has cut the file since.
    fn read_or_zero(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.file.read_at(buffer, offset) {
                Ok(0) if self.file.metadata()?.len() < self.size.load(Ordering::Relaxed) => {
                    return Err(io::Error::from_raw_os_error(libc::EIO));
                }
                Ok(0) => {
                    buffer.fill(0);
                    return Ok(());
                }
                Ok(length) => {
                    buffer = &mut buffer[length..];
                    offset += length as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn write_zeros(file: &File, mut offset: u64, mut length: u64) -> io::Result<()> {
    while length > 0 {
        let piece = &ZEROS[..length.min(PIECE as u64) as usize];
        file.write_all_at(piece, offset)?;
        offset += piece.len() as u64;
        length -= piece.len() as u64;
    }
    Ok(())
}

/// Whether a bitmap has a sector. Its first sector is the highest bit of its first byte.
fn has_sector(bitmap: &[u8], sector: u64) -> bool {
    let byte = bitmap.get((sector / 8) as usize).copied().unwrap_or(0);
    byte & (0x80 >> (sector % 8)) != 0
}

impl Body {
    fn open(source: &FileSource, dynamic: Dynamic) -> io::Result<Self> {
        let blocks = vhd::read_blocks(source, &dynamic).map_err(wrong)?;
        let footer = vhd::footer_of(source);
        let footer = footer.ok_or_else(|| damaged("it has no footer"))?;
        let full = blocks.starts.iter().map(|_| AtomicBool::new(false));
        Ok(Self {
            dynamic,
            footer,
            full: full.collect(),
            table: RwLock::new(BlockTable {
                starts: blocks.starts,
                new: Vec::new(),
                end: blocks.end.max(footer_place(source.size())),
            }),
        })
    }

    /// The offset of a block's data; `None`: it is all zeros.
    fn data(&self, start: u32) -> Option<u64> {
        let offset = u64::from(start) * SECTOR + self.dynamic.bitmap_size();
        (start != FREE).then_some(offset)
    }

    /// The bitmap of a block; `None`: all sectors have data.
    fn bitmap(&self, image: &Image, block: usize, data: u64) -> io::Result<Option<Vec<u8>>> {
        if self.full[block].load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut bitmap = vec![0; self.dynamic.bitmap_size() as usize];
        image.read_or_zero(&mut bitmap, data - self.dynamic.bitmap_size())?;
        let sectors = u64::from(self.dynamic.block_size) / SECTOR;
        if (0..sectors).all(|sector| has_sector(&bitmap, sector)) {
            self.full[block].store(true, Ordering::Release);
            return Ok(None);
        }
        Ok(Some(bitmap))
    }

    fn shared<T>(&self, work: impl FnOnce(&BlockTable) -> io::Result<T>) -> io::Result<T> {
        work(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn alone<T>(&self, work: impl FnOnce(&mut BlockTable) -> io::Result<T>) -> io::Result<T> {
        work(&mut self.table.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self, image: &Image, part: &RequestPart, buffer: &mut [u8]) -> io::Result<()> {
        self.shared(|table| {
            let Some(data) = self.data(table.starts[part.block]) else {
                buffer.fill(0);
                return Ok(());
            };
            let bitmap = self.bitmap(image, part.block, data)?;
            image.read_or_zero(buffer, data + part.start)?;
            let Some(bitmap) = bitmap else {
                return Ok(());
            };
            // A read may begin and end inside of a sector.
            let (mut at, mut rest) = (part.start, buffer);
            while !rest.is_empty() {
                let length = (SECTOR - at % SECTOR).min(rest.len() as u64);
                let (piece, after) = rest.split_at_mut(length as usize);
                if !has_sector(&bitmap, at / SECTOR) {
                    piece.fill(0);
                }
                (at, rest) = (at + length, after);
            }
            Ok(())
        })
    }

    fn write(&self, image: &Image, part: &RequestPart, bytes: &[u8]) -> io::Result<()> {
        let file = &image.file;
        loop {
            let written = self.shared(|table| {
                let data = self.data(table.starts[part.block]);
                match data.filter(|_| self.full[part.block].load(Ordering::Acquire)) {
                    Some(data) => file.write_all_at(bytes, data + part.start).map(|()| true),
                    None => Ok(false),
                }
            })?;
            if written {
                return Ok(());
            }
            self.alone(|table| self.prepare(image, table, part.block))?;
        }
    }

    /// Makes sure that a block is in the file, with data in all of its sectors.
    fn prepare(&self, image: &Image, table: &mut BlockTable, block: usize) -> io::Result<()> {
        let file = &image.file;
        let Some(data) = self.data(table.starts[block]) else {
            self.allocate(file, table, block)?;
            image
                .size
                .fetch_max(table.end + vhd::FOOTER, Ordering::Relaxed);
            self.full[block].store(true, Ordering::Release);
            return Ok(());
        };
        let Some(bitmap) = self.bitmap(image, block, data)? else {
            return Ok(());
        };
        let sectors = u64::from(self.dynamic.block_size) / SECTOR;
        for sector in (0..sectors).filter(|sector| !has_sector(&bitmap, *sector)) {
            write_zeros(file, data + sector * SECTOR, SECTOR)?;
        }
        image.sync()?;
        self.write_bitmap(file, data)?;
        self.full[block].store(true, Ordering::Release);
        Ok(())
    }

    fn write_bitmap(&self, file: &File, data: u64) -> io::Result<()> {
        let size = self.dynamic.bitmap_size();
        file.write_all_at(&vec![0xff; size as usize], data - size)
    }

    /// Gives a block room at the end of the file. Its data is a hole there.
    fn allocate(&self, file: &File, table: &mut BlockTable, block: usize) -> io::Result<()> {
        let start = u32::try_from(table.end / SECTOR).ok();
        let start = start.filter(|&start| start != FREE);
        let start = start.ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
        let end = table.end + self.dynamic.stored_size();
        file.write_all_at(&self.footer, end)?;
        self.write_bitmap(file, table.end + self.dynamic.bitmap_size())?;
        table.starts[block] = start;
        table.new.push(block);
        table.end = end;
        Ok(())
    }

    fn flush(&self, image: &Image) -> io::Result<()> {
        self.alone(|table| {
            if !table.new.is_empty() {
                image.sync()?;
            }
            while let Some(&block) = table.new.last() {
                let entry = table.starts[block].to_be_bytes();
                let place = self.dynamic.table + block as u64 * 4;
                image.file.write_all_at(&entry, place)?;
                table.new.pop();
            }
            image.sync()
        })
    }
}

impl Vhd {
    pub fn open(file: &File) -> io::Result<Self> {
        let source = source(file)?;
        let layout = vhd::read(&source).map_err(wrong)?;
        let body = match layout.dynamic {
            None => None,
            Some(dynamic) => Some(Body::open(&source, dynamic)?),
        };
        Ok(Self {
            image: Image::new(file.try_clone()?)?,
            holes: Fd::from(OwnedFd::from(file.try_clone()?)),
            size: layout.size,
            body,
        })
    }

    fn discard_part(&self, offset: u64, length: u64) -> io::Result<()> {
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let made = self.holes.allocate(hole, offset, length);
        made.or_else(|_| write_zeros(&self.image.file, offset, length))
    }
}

impl Storage for Vhd {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, pieces: Vec<IoSliceMut<'_>>, mut offset: u64) -> io::Result<()> {
        for mut piece in pieces {
            let length = piece.len() as u64;
            match &self.body {
                None => self.image.read_or_zero(&mut piece, offset)?,
                Some(body) => {
                    let mut rest = &mut piece[..];
                    for part in parts(body.dynamic.block_size, offset, length) {
                        let (now, later) = rest.split_at_mut(part.length);
                        body.read(&self.image, &part, now)?;
                        rest = later;
                    }
                }
            }
            offset += length;
        }
        Ok(())
    }

    fn write_at(&self, pieces: Vec<IoSlice<'_>>, mut offset: u64) -> io::Result<()> {
        for piece in pieces {
            let length = piece.len() as u64;
            match &self.body {
                None => self.image.file.write_all_at(&piece, offset)?,
                Some(body) => {
                    let mut rest = &piece[..];
                    for part in parts(body.dynamic.block_size, offset, length) {
                        let (now, later) = rest.split_at(part.length);
                        body.write(&self.image, &part, now)?;
                        rest = later;
                    }
                }
            }
            offset += length;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        match &self.body {
            None => self.image.sync(),
            Some(body) => body.flush(&self.image),
        }
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.write_zeroes(offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let Some(body) = &self.body else {
            return self.discard_part(offset, length);
        };
        for part in parts(body.dynamic.block_size, offset, length) {
            body.shared(|table| match body.data(table.starts[part.block]) {
                Some(data) => self.discard_part(data + part.start, part.length as u64),
                None => Ok(()),
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
