// SPDX-License-Identifier: GPL-2.0-only
//! Encodes batches of files, each into a stretch of the archive.

use super::encode::ArchiveEntry;
use super::header::padding;
use super::sparse::{Map, Parts};
use super::stretch::{Chunk, Chunks, Linked, StretchPart, CHUNK};
use super::stretches::PADDING;
use super::tree::{Folder, PackItem, PackedTree};
use crate::claimed_size;
use crate::cp::trail::Trail;
use crate::file_state::FileState;
use crate::hidden::check_key;
use crate::other_forms;
use crate::report::{Loss, Report};
use crate::zeros::{data_parts, may_be_holes};
use outboard::Fd;
use outboard_error::format::escaped;
use outboard_error::{reason, ErrorKind, Failure};
use std::ffi::{CStr, CString};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::Arc;

/// The writer has stopped, or the user wants to.
pub struct WriterGone;

/// A thread that encodes batches into stretches of the archive.
pub struct Packer<'a> {
    pub tree: &'a PackedTree<'a>,
    pub report: &'a Report,
    pub chunks: &'a Chunks,
    pub chunk: Chunk,
    pub out: &'a SyncSender<StretchPart>,
}

/// Metadata of a file, before its bytes are read.
struct FileMetadata {
    stat: libc::stat,
    target: Vec<u8>,
    xattrs: Vec<(CString, Vec<u8>)>,
    map: Option<Map>,
    state: FileState,
}

impl Packer<'_> {
    /// Encodes the files, and sends the rest of the last chunk.
    pub fn run(&mut self, items: &[PackItem]) -> Result<(), WriterGone> {
        for item in items {
            match item {
                PackItem::Folder(folder) => self.folder(folder)?,
                PackItem::Name(folder, name) => self.name(folder, name)?,
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), WriterGone> {
        if self.tree.interrupt.asked() {
            return Err(WriterGone);
        }
        if self.chunk.used == 0 {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.chunk, self.chunks.take());
        self.out
            .send(StretchPart::Bytes(full))
            .map_err(|_| WriterGone)
    }

    /// Free space in the chunk, at least a byte.
    fn room(&mut self) -> Result<&mut [u8], WriterGone> {
        if self.chunk.used == CHUNK {
            self.flush()?;
        }
        Ok(&mut self.chunk.bytes[self.chunk.used..])
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), WriterGone> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let length = room.len().min(bytes.len());
            room[..length].copy_from_slice(&bytes[..length]);
            self.chunk.used += length;
            bytes = &bytes[length..];
        }
        Ok(())
    }

    fn zeros(&mut self, mut count: u64) -> Result<(), WriterGone> {
        while count > 0 {
            let room = self.room()?;
            let length = (room.len() as u64).min(count) as usize;
            room[..length].fill(0);
            self.chunk.used += length;
            count -= length as u64;
        }
        Ok(())
    }

    fn fail(&self, path: &[u8], error: &io::Error) {
        self.report
            .fail_reading("cannot read", self.tree.path_of(path), error);
    }

    fn folder(&mut self, folder: &Folder) -> Result<(), WriterGone> {
        let found = folder.fd.stat().map(|stat| FileMetadata {
            stat,
            state: FileState::of(&stat),
            target: Vec::new(),
            xattrs: self.xattrs(&folder.path, folder.fd.xattrs(), |name| {
                folder.fd.xattr(name)
            }),
            map: None,
        });
        match found {
            Ok(mut found) => {
                // A directory has no contents of its own.
                let _ = self.find_hidden(&folder.fd, &found.stat, &folder.path);
                self.tree.choice.changes.apply(&mut found.stat);
                self.report.count_file();
                self.put(&found.entry(&folder.path).headers())
            }
            Err(error) => {
                self.fail(&folder.path, &error);
                Ok(())
            }
        }
    }

    fn name(&mut self, folder: &Folder, name: &CStr) -> Result<(), WriterGone> {
        let path = folder.path_of(name);
        match self.look(folder, name, &path) {
            Ok((mut found, file)) => match found.stat.st_mode & libc::S_IFMT {
                libc::S_IFSOCK => {
                    self.report.lose(Loss::Socket, || self.tree.shown(&path));
                    Ok(())
                }
                _ => {
                    self.tree.choice.changes.apply(&mut found.stat);
                    self.report.count_file();
                    self.linked(path, &found, file)
                }
            },
            Err(error) => {
                self.fail(&path, &error);
                Ok(())
            }
        }
    }

    /// Checks the type before it opens the file: opening a device can have effects.
    fn look(
        &self,
        folder: &Folder,
        name: &CStr,
        path: &[u8],
    ) -> io::Result<(FileMetadata, Option<Fd>)> {
        let stat = folder.fd.stat_at(name, libc::AT_SYMLINK_NOFOLLOW)?;
        let mut found = FileMetadata {
            stat,
            state: FileState::of(&stat),
            target: Vec::new(),
            xattrs: Vec::new(),
            map: None,
        };
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => {
                let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
                let file = folder.fd.open_at(name, flags, 0)?;
                claimed_size::check(&file, stat.st_size.max(0) as u64)?;
                self.find_hidden(&file, &stat, path)?;
                found.xattrs = self.xattrs(path, file.xattrs(), |name| file.xattr(name));
                found.map = holes(&file, stat.st_size.max(0) as u64);
                if found.map.is_none() && may_be_holes(&file, &stat) {
                    found.map = self.zeros_as_holes(&file, stat.st_size.max(0) as u64)?;
                }
                found.check_ends(&file)?;
                return Ok((found, Some(file)));
            }
            // The walk could not open it as a directory.
            libc::S_IFDIR => {
                let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
                folder.fd.open_at(name, flags, 0)?;
                return Err(io::Error::other("it was replaced meanwhile"));
            }
            libc::S_IFLNK => {
                check_key(&folder.fd, name)?;
                found.target = folder.fd.read_link_at(name)?.into_bytes();
            }
            _ => {}
        }
        self.find_hidden(&folder.fd, &stat, path)?;
        found.xattrs = self.xattrs(path, folder.fd.xattrs_at(name), |attribute| {
            folder.fd.xattr_at(name, attribute)
        });
        Ok((found, None))
    }

    /// Reports the parts of a file that the archive will not have. An error: its contents are such
    /// a part.
    fn find_hidden(&self, near: &Fd, stat: &libc::stat, path: &[u8]) -> io::Result<()> {
        if let Some(parts) = self.tree.hidden.find(near, stat)? {
            let shown = || format!("{} ({parts})", self.tree.shown(path));
            self.report.lose(Loss::Hidden, shown);
        }
        Ok(())
    }

    /// The map of a file that has holes and does not report them. `None`: it has no zeros.
    fn zeros_as_holes(&self, file: &Fd, size: u64) -> io::Result<Option<Map>> {
        let mut parts: Parts = Vec::new();
        let mut bytes = vec![0; CHUNK];
        let mut offset = 0;
        while offset < size && !self.tree.interrupt.asked() {
            let room = (size - offset).min(CHUNK as u64) as usize;
            let length = file.read_at(&mut bytes[..room], offset)?;
            for part in data_parts(&bytes[..length]) {
                let (start, length) = (offset + part.start as u64, part.len() as u64);
                match parts.last_mut() {
                    Some(last) if last.0 + last.1 == start => last.1 += length,
                    _ => parts.push((start, length)),
                }
            }
            // A part of a block ends the file, or the packing of its bytes will report it.
            if length < room || parts.len() >= super::sparse::MOST {
                return Ok(None);
            }
            offset += length as u64;
        }
        Ok(match parts[..] {
            [(0, length)] if length == size => None,
            _ => with_end(parts, size),
        })
    }

    fn xattrs(
        &self,
        path: &[u8],
        names: io::Result<Vec<CString>>,
        get: impl Fn(&CStr) -> io::Result<Vec<u8>>,
    ) -> Vec<(CString, Vec<u8>)> {
        let mut names = names.unwrap_or_else(|error| {
            if error.raw_os_error() != Some(libc::EOPNOTSUPP) {
                let shown = || format!("{} (all: {error})", self.tree.shown(path));
                self.report.lose(Loss::Attribute, shown);
            }
            Vec::new()
        });
        names.sort_unstable();
        other_forms::leave_out(&mut names);
        let mut xattrs = Vec::with_capacity(names.len());
        for name in names {
            match get(&name) {
                Ok(value) => xattrs.push((name, value)),
                Err(_) => self.report.lose(Loss::of_xattr(&name), || {
                    format!("{} ({})", self.tree.shown(path), escaped(name.to_bytes()))
                }),
            }
        }
        xattrs
    }

    /// A file, which may have other names.
    fn linked(
        &mut self,
        path: Vec<u8>,
        found: &FileMetadata,
        file: Option<Fd>,
    ) -> Result<(), WriterGone> {
        if found.stat.st_nlink < 2 {
            return self.file(&path, found, file, None);
        }
        self.flush()?;
        let linked = Arc::new(Linked {
            path: path.clone(),
            stat: found.stat,
            skip: AtomicBool::new(false),
        });
        self.out
            .send(StretchPart::Begin(Arc::clone(&linked)))
            .map_err(|_| WriterGone)?;
        self.file(&path, found, file, Some(&linked.skip))?;
        self.flush()?;
        self.out.send(StretchPart::End).map_err(|_| WriterGone)
    }

    fn file(
        &mut self,
        path: &[u8],
        found: &FileMetadata,
        file: Option<Fd>,
        skip: Option<&AtomicBool>,
    ) -> Result<(), WriterGone> {
        let entry = found.entry(path);
        self.put(&entry.headers())?;
        let Some(file) = file else { return Ok(()) };
        let mut left = found.data();
        for &(offset, length) in &found.parts() {
            let unread = self.data(path, &file, offset, length, skip)?;
            left -= length - unread;
            if unread > 0 {
                self.pad(path, left)?;
                break;
            }
        }
        if left == 0 && found.state.has_changed(&file) {
            let path = self.tree.path_of(path);
            let text = format!("{} changed while it was read", escaped(&path));
            let failure = Failure::new(ErrorKind::Other, text).with_path(path);
            self.report.fail(failure);
        }
        self.zeros(padding(entry.stored()))
    }

    /// Ends a file whose rest cannot be read.
    fn pad(&mut self, path: &[u8], length: u64) -> Result<(), WriterGone> {
        self.flush()?;
        let padding = StretchPart::Padding(length, self.tree.shown(path));
        self.out.send(padding).map_err(|_| WriterGone)
    }

    /// Packs a part of a file. Returns how many bytes at its end cannot be read, or are not needed.
    fn data(
        &mut self,
        path: &[u8],
        file: &Fd,
        mut offset: u64,
        mut length: u64,
        skip: Option<&AtomicBool>,
    ) -> Result<u64, WriterGone> {
        let mut trail = Trail::new(file, false);
        while length > 0 {
            if skip.is_some_and(|skip| skip.load(Ordering::Relaxed)) {
                return Ok(length);
            }
            let room = self.room()?;
            let most = (room.len() as u64).min(length) as usize;
            let error = match file.read_at(&mut room[..most], offset) {
                Ok(0) => io::Error::other("it is shorter than its size says"),
                Ok(count) => {
                    self.chunk.used += count;
                    offset += count as u64;
                    length -= count as u64;
                    if let Some(trail) = &mut trail {
                        trail.reached(offset);
                    }
                    continue;
                }
                Err(error) => error,
            };
            self.fail(path, &error);
            return Ok(length);
        }
        Ok(0)
    }
}

impl FileMetadata {
    fn entry<'a>(&'a self, path: &'a [u8]) -> ArchiveEntry<'a> {
        ArchiveEntry {
            path,
            stat: &self.stat,
            target: &self.target,
            link: false,
            xattrs: &self.xattrs,
            map: self.map.as_ref(),
        }
    }

    fn size(&self) -> u64 {
        self.stat.st_size.max(0) as u64
    }

    /// Offsets and lengths of the data.
    fn parts(&self) -> Parts {
        let whole = || vec![(0, self.size())];
        self.map
            .as_ref()
            .map_or_else(whole, |map| map.parts.clone())
    }

    fn data(&self) -> u64 {
        self.map.as_ref().map_or(self.size(), Map::data)
    }

    /// Reads a byte at both ends of a file that is too large for padding: an error leaves the file
    /// out while its header is not written yet.
    fn check_ends(&self, file: &Fd) -> io::Result<()> {
        if self.data() <= PADDING {
            return Ok(());
        }
        let parts = self.parts();
        let mut places = parts.iter().filter(|(_, length)| *length > 0);
        let first = places.clone().next().map(|(offset, _)| *offset);
        let last = places
            .next_back()
            .map(|(offset, length)| offset + length - 1);
        first.into_iter().chain(last).try_for_each(|place| {
            let why = match file.read_at(&mut [0], place) {
                Ok(0) => "the file ends before it".to_owned(),
                Ok(_) => return Ok(()),
                Err(error) => reason(&error),
            };
            Err(io::Error::other(format!("byte {place}: {why}")))
        })
    }
}

/// The map of a file with holes. `None`: it has none, or cannot report them.
fn holes(file: &Fd, size: u64) -> Option<Map> {
    if size == 0 {
        return None;
    }
    let mut parts = Vec::new();
    let mut next = file.next_data(0).ok()?;
    if next == Some(0) && file.next_hole(0).ok()? >= size {
        return None;
    }
    while let Some(start) = next.filter(|&start| start < size) {
        let end = file.next_hole(start).ok()?.min(size);
        if end <= start || parts.len() >= super::sparse::MOST {
            return None;
        }
        parts.push((start, end - start));
        next = file.next_data(end).ok()?;
    }
    with_end(parts, size)
}

/// The map of these parts. As in GNU tar, a part without bytes marks the end of a file that ends
/// with a hole.
fn with_end(mut parts: Parts, size: u64) -> Option<Map> {
    let end = parts.last().map_or(0, |&(start, length)| start + length);
    if end < size {
        parts.push((size, 0));
    }
    Map::new(parts, size)
}
