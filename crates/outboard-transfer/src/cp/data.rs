// SPDX-License-Identifier: GPL-2.0-only
//! Copying the bytes of a file, without its holes.

use super::copier::{Copier, CopyFailure};
use super::trail::Trail;
use crate::stream::LARGE;
use crate::zeros::{data_parts, may_be_holes};
use outboard::Fd;
use outboard_volume::stream_output::StreamOutput;
use std::io::{self, Write};

/// Bytes of one read or write.
const CHUNK: usize = 1 << 20;
/// The largest block size of direct I/O.
const BLOCK: u64 = 4096;
/// Milliseconds between two checks for an interrupt.
const PATIENCE: i32 = 100;

/// The files of a large copy, and how their bytes go past the page cache of this process's kernel.
///
/// I/O is direct until the first transfer that is refused, or that does not end where a block may:
/// not every file system can do it, and the last bytes of a file are rarely a block.
struct DataCopy<'a> {
    source: &'a Fd,
    target: &'a Fd,
    trails: [Option<Trail<'a>>; 2],
    direct: bool,
    /// Blocks of zeros become holes. The target is empty.
    skips_zeros: bool,
}

impl<'a> DataCopy<'a> {
    fn new(source: &'a Fd, target: &'a Fd, size: u64) -> Self {
        let copy = Self {
            source,
            target,
            trails: [Trail::new(source, false), Trail::new(target, true)],
            direct: size >= LARGE,
            skips_zeros: false,
        };
        if copy.direct {
            for file in copy.inside() {
                // Direct I/O is refused: this file goes through the page cache.
                let _ = file.set_direct(true);
            }
        }
        copy
    }

    /// The files of the two that are in this process's kernel.
    fn inside(&self) -> impl Iterator<Item = &'a Fd> {
        [self.source, self.target]
            .into_iter()
            .filter(|file| !file.system().is_host())
    }

    fn end_direct(&mut self) -> io::Result<()> {
        self.direct = false;
        self.inside().try_for_each(|file| file.set_direct(false))
    }

    /// Makes a transfer. If it fails because of direct I/O, makes it again without.
    fn attempt<T>(&mut self, mut make: impl FnMut(&Self) -> io::Result<T>) -> io::Result<T> {
        match make(self) {
            Err(_) if self.direct => {
                self.end_direct()?;
                make(self)
            }
            other => other,
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), CopyFailure> {
        self.attempt(|copy| copy.target.write_all_at(bytes, offset))
            .map_err(CopyFailure::Writing)
    }

    /// Copies as many bytes as fit into `bytes`. Returns their number, 0 at the end of the file.
    fn copy(&mut self, bytes: &mut [u8], offset: u64) -> Result<usize, CopyFailure> {
        let length = self
            .attempt(|copy| copy.source.read_at(bytes, offset))
            .map_err(CopyFailure::Reading)?;
        if self.direct && length as u64 % BLOCK != 0 {
            self.end_direct().map_err(CopyFailure::Writing)?;
        }
        if self.skips_zeros {
            for part in data_parts(&bytes[..length]) {
                let place = offset + part.start as u64;
                self.write(&bytes[part], place)?;
            }
        } else {
            self.write(&bytes[..length], offset)?;
        }
        for trail in self.trails.iter_mut().flatten() {
            trail.reached(offset + length as u64);
        }
        Ok(length)
    }
}

/// The buffer of a copy.
pub struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; CHUNK],
        }
    }
}

/// Whether to look for holes. On the host, a file with fewer blocks than bytes may have some. An
/// image may lie about blocks, to fill the host's disk with zeros, so its files are always checked.
fn may_have_holes(source: &Fd, stat: &libc::stat) -> bool {
    let fewer_blocks = stat.st_blocks.saturating_mul(512) < stat.st_size;
    stat.st_size > 0 && (fewer_blocks || !source.system().is_host())
}

/// Offset of the first data of a file with holes. `None`: the file has no holes, cannot report
/// them, or cannot seek. The position stays at the start.
fn find_holes(source: &Fd, size: u64) -> Option<Option<u64>> {
    let first = source.next_data(0).ok()?;
    let whole = first == Some(0) && source.next_hole(0).is_ok_and(|hole| hole >= size);
    source.seek(0, libc::SEEK_SET).ok()?;
    (!whole).then_some(first)
}

/// Copies the contents of `source` to `target`, an empty file or a pipe.
pub fn copy_data(
    copier: &Copier,
    buffer: &mut Buffer,
    source: &Fd,
    target: &Fd,
    stat: &libc::stat,
) -> Result<(), CopyFailure> {
    let size = stat.st_size.max(0) as u64;
    if target.system().is_host() && target.seek(0, libc::SEEK_CUR).is_err() {
        let pipe = target.duplicate();
        let pipe = pipe.and_then(|pipe| StreamOutput::new(pipe, copier.interrupt));
        let mut pipe = pipe.map_err(CopyFailure::Writing)?;
        return copy_stream(copier, buffer, source, size, |bytes| pipe.write_all(bytes));
    }
    if may_have_holes(source, stat) {
        if let Some(first) = find_holes(source, size) {
            return copy_parts(copier, buffer, source, target, size, first);
        }
        if may_be_holes(source, stat) {
            return copy_without_zeros(copier, buffer, source, target, size);
        }
    }
    if source.system() == target.system() && copy_inside(copier, source, target, stat)? {
        return Ok(());
    }
    if size >= LARGE {
        let mut transfer = DataCopy::new(source, target, size);
        return copy_range(copier, buffer, &mut transfer, 0, size);
    }
    copy_stream(copier, buffer, source, size, |bytes| {
        target.write_all(bytes)
    })
}

/// Copies from start to end: a small file, or one whose size is known only at its end. `write`
/// writes all that it gets.
fn copy_stream(
    copier: &Copier,
    buffer: &mut Buffer,
    source: &Fd,
    size: u64,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), CopyFailure> {
    let mut done = 0;
    loop {
        if size == 0 {
            wait(copier, source)?;
        }
        let length = source
            .read(&mut buffer.bytes)
            .map_err(CopyFailure::Reading)?;
        if length == 0 {
            return Ok(());
        }
        write(&buffer.bytes[..length]).map_err(|error| {
            if copier.stopped() {
                // A write that waits for a reader has an error of its own then.
                CopyFailure::Stopped
            } else {
                CopyFailure::Writing(error)
            }
        })?;
        done += length as u64;
        copier.report.count_bytes(length as u64);
        if size > 0 && done >= size {
            return Ok(());
        }
        if copier.stopped() {
            return Err(CopyFailure::Stopped);
        }
    }
}

/// Waits for data in a pipe, until the user interrupts.
fn wait(copier: &Copier, source: &Fd) -> Result<(), CopyFailure> {
    while !source
        .wait_to_read(PATIENCE)
        .map_err(CopyFailure::Reading)?
    {
        if copier.stopped() {
            return Err(CopyFailure::Stopped);
        }
    }
    Ok(())
}

/// Lets the kernel copy: it shares blocks where the file system supports that. `false`: not
/// supported here.
fn copy_inside(
    copier: &Copier,
    source: &Fd,
    target: &Fd,
    stat: &libc::stat,
) -> Result<bool, CopyFailure> {
    let size = stat.st_size.max(0) as u64;
    let mut done = 0;
    while done < size {
        let length = (size - done).min(1 << 26) as usize;
        match source.copy_range(done, target, done, length) {
            Ok(0) | Err(_) if done == 0 => return Ok(false),
            Ok(0) => return Ok(true),
            Ok(copied) => {
                done += copied as u64;
                copier.report.count_bytes(copied as u64);
            }
            Err(error) => return Err(CopyFailure::Writing(error)),
        }
        if copier.stopped() {
            return Err(CopyFailure::Stopped);
        }
    }
    Ok(size > 0)
}

/// Copies the parts that have data, from `first` on, and leaves holes between them.
fn copy_parts(
    copier: &Copier,
    buffer: &mut Buffer,
    source: &Fd,
    target: &Fd,
    size: u64,
    first: Option<u64>,
) -> Result<(), CopyFailure> {
    let mut transfer = DataCopy::new(source, target, size);
    let mut next = first;
    while let Some(start) = next {
        let end = source.next_hole(start).map_err(CopyFailure::Reading)?;
        copy_range(copier, buffer, &mut transfer, start, end)?;
        next = source.next_data(end).map_err(CopyFailure::Reading)?;
    }
    target.truncate(size).map_err(CopyFailure::Writing)
}

/// Copies a file whose holes are not reported, and leaves holes in the place of zeros.
fn copy_without_zeros(
    copier: &Copier,
    buffer: &mut Buffer,
    source: &Fd,
    target: &Fd,
    size: u64,
) -> Result<(), CopyFailure> {
    let mut transfer = DataCopy::new(source, target, size);
    transfer.skips_zeros = true;
    copy_range(copier, buffer, &mut transfer, 0, size)?;
    target.truncate(size).map_err(CopyFailure::Writing)
}

fn copy_range(
    copier: &Copier,
    buffer: &mut Buffer,
    transfer: &mut DataCopy,
    mut offset: u64,
    end: u64,
) -> Result<(), CopyFailure> {
    while offset < end {
        let room = (end - offset).min(CHUNK as u64) as usize;
        let length = transfer.copy(&mut buffer.bytes[..room], offset)?;
        if length == 0 {
            return Ok(());
        }
        offset += length as u64;
        copier.report.count_bytes(length as u64);
        if copier.stopped() {
            return Err(CopyFailure::Stopped);
        }
    }
    Ok(())
}
