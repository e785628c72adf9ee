// SPDX-License-Identifier: GPL-2.0-only
//! Packs a tree into an archive.
//!
//! One thread walks the tree ([`PackedTree`]) and collects files in batches. Several threads encode
//! batches, each into a stretch of the archive ([`Packer`]). One thread writes the stretches in
//! their order ([`Writer`]). Each stretch has a short channel of its own. So memory is bounded, and
//! the thread with the first stretch never has to wait.

use super::encode::ArchiveEntry;
use super::header::{padding, BLOCK};
use super::sparse::{Map, Parts};
use super::tree::{Folder, PackItem, PackStart, PackedTree};
use crate::claimed_size;
use crate::cp::data::Trail;
use crate::cp::queue::Queue;
use crate::other_forms;
use crate::report::{Loss, Report};
use outboard::Fd;
use outboard_sandbox::error::reason;
use outboard_sandbox::format;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex};

/// Items of a batch.
const BATCH: usize = 32;
/// Batches ahead of the writer.
const AHEAD: usize = 16;
/// Bytes of a chunk.
const CHUNK: usize = 512 * 1024;
/// Chunks of a batch that may wait.
const CHUNKS: usize = 2;
/// Most zeros of an archive that replace unreadable bytes. A header announces a file's size, so
/// that only zeros or the archive's end can follow an unreadable block.
const PADDING: u64 = 1 << 30;
/// Archives are padded to a multiple of this.
const RECORD: u64 = 20 * BLOCK as u64;

/// Bytes of the archive; the first ones are used.
struct Chunk {
    bytes: Vec<u8>,
    used: usize,
}

/// A file with several names; the first name in the archive gets the bytes.
struct Linked {
    path: Vec<u8>,
    stat: libc::stat,
    /// It is a hard link: its bytes are not needed.
    skip: AtomicBool,
}

enum Out {
    Bytes(Chunk),
    /// The next chunks belong to a file with several names.
    Begin(Arc<Linked>),
    End,
    /// Zeros in place of this many unreadable bytes of a file. The writer limits them.
    Padding(u64, String),
}

struct Batch {
    items: Vec<PackItem>,
    out: SyncSender<Out>,
}

/// Chunks to reuse.
#[derive(Default)]
struct Chunks {
    free: Mutex<Vec<Vec<u8>>>,
}

impl Chunks {
    fn take(&self) -> Chunk {
        let bytes = self.free.lock().expect("no thread panics").pop();
        Chunk {
            bytes: bytes.unwrap_or_else(|| vec![0; CHUNK]),
            used: 0,
        }
    }

    fn give(&self, chunk: Chunk) {
        self.free
            .lock()
            .expect("no thread panics")
            .push(chunk.bytes);
    }
}

/// Packs trees into an archive. An error is a write error.
pub fn pack(
    tree: &PackedTree,
    starts: Vec<PackStart>,
    threads: u32,
    output: &mut impl Write,
) -> io::Result<()> {
    let chunks = Chunks::default();
    let queue: Queue<Batch> = Queue::new(AHEAD);
    std::thread::scope(|scope| {
        let (order, stretches) = sync_channel(AHEAD);
        scope.spawn(|| {
            let _closing = queue.closing();
            give_batches(tree, starts, &queue, order);
        });
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let _breaking = queue.breaking();
                while let Some(batch) = queue.take() {
                    let chunk = chunks.take();
                    let mut packer = Packer {
                        tree,
                        report: tree.report,
                        chunks: &chunks,
                        chunk,
                        out: &batch.out,
                    };
                    // The writer may have stopped, and reports why.
                    let _ = packer.run(&batch.items);
                }
            });
        }
        let mut writer = Writer {
            output,
            chunks: &chunks,
            report: tree.report,
            written: 0,
            padding: PADDING,
            names: HashMap::new(),
        };
        writer.run(&stretches)?;
        // After an interrupt or a panic the stretches end too early, without an error.
        if tree.interrupt.asked() || queue.is_broken() {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        writer.finish()
    })
}

fn give_batches(
    tree: &PackedTree,
    starts: Vec<PackStart>,
    queue: &Queue<Batch>,
    order: SyncSender<Receiver<Out>>,
) {
    let mut items = Vec::new();
    let send = |items: Vec<PackItem>| {
        let (out, stretch) = sync_channel(CHUNKS);
        queue.give(Batch { items, out }) && order.send(stretch).is_ok()
    };
    tree.for_each(starts, &mut |item| {
        items.push(item);
        items.len() < BATCH || send(std::mem::take(&mut items))
    });
    if !items.is_empty() {
        send(items);
    }
}

/// The writer has stopped, or the user wants to.
struct Gone;

/// A thread that encodes batches into stretches of the archive.
struct Packer<'a> {
    tree: &'a PackedTree<'a>,
    report: &'a Report,
    chunks: &'a Chunks,
    chunk: Chunk,
    out: &'a SyncSender<Out>,
}

/// Metadata of a file, before its bytes are read.
struct FileMetadata {
    stat: libc::stat,
    target: Vec<u8>,
    xattrs: Vec<(CString, Vec<u8>)>,
    map: Option<Map>,
}

impl Packer<'_> {
    fn run(&mut self, items: &[PackItem]) -> Result<(), Gone> {
        for item in items {
            match item {
                PackItem::Folder(folder) => self.folder(folder)?,
                PackItem::Name(folder, name) => self.name(folder, name)?,
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Gone> {
        if self.tree.interrupt.asked() {
            return Err(Gone);
        }
        if self.chunk.used == 0 {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.chunk, self.chunks.take());
        self.out.send(Out::Bytes(full)).map_err(|_| Gone)
    }

    /// Free space in the chunk, at least a byte.
    fn room(&mut self) -> Result<&mut [u8], Gone> {
        if self.chunk.used == CHUNK {
            self.flush()?;
        }
        Ok(&mut self.chunk.bytes[self.chunk.used..])
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let length = room.len().min(bytes.len());
            room[..length].copy_from_slice(&bytes[..length]);
            self.chunk.used += length;
            bytes = &bytes[length..];
        }
        Ok(())
    }

    fn zeros(&mut self, mut count: u64) -> Result<(), Gone> {
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

    fn folder(&mut self, folder: &Folder) -> Result<(), Gone> {
        let found = folder.fd.stat().map(|stat| FileMetadata {
            stat,
            target: Vec::new(),
            xattrs: self.xattrs(&folder.path, folder.fd.xattrs(), |name| {
                folder.fd.xattr(name)
            }),
            map: None,
        });
        match found {
            Ok(mut found) => {
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

    fn name(&mut self, folder: &Folder, name: &CStr) -> Result<(), Gone> {
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
            target: Vec::new(),
            xattrs: Vec::new(),
            map: None,
        };
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => {
                let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
                let file = folder.fd.open_at(name, flags, 0)?;
                claimed_size::check(&file, stat.st_size.max(0) as u64)?;
                found.xattrs = self.xattrs(path, file.xattrs(), |name| file.xattr(name));
                found.map = holes(&file, stat.st_size.max(0) as u64);
                found.check_ends(&file)?;
                return Ok((found, Some(file)));
            }
            // The walk could not open it as a directory.
            libc::S_IFDIR => {
                let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
                folder.fd.open_at(name, flags, 0)?;
                return Err(io::Error::other("it was replaced meanwhile"));
            }
            libc::S_IFLNK => found.target = folder.fd.read_link_at(name)?.into_bytes(),
            _ => {}
        }
        found.xattrs = self.xattrs(path, folder.fd.xattrs_at(name), |attribute| {
            folder.fd.xattr_at(name, attribute)
        });
        Ok((found, None))
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
                Err(_) => self
                    .report
                    .lose(Loss::of_xattr(&name), || self.tree.shown(path)),
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
    ) -> Result<(), Gone> {
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
            .send(Out::Begin(Arc::clone(&linked)))
            .map_err(|_| Gone)?;
        self.file(&path, found, file, Some(&linked.skip))?;
        self.flush()?;
        self.out.send(Out::End).map_err(|_| Gone)
    }

    fn file(
        &mut self,
        path: &[u8],
        found: &FileMetadata,
        file: Option<Fd>,
        skip: Option<&AtomicBool>,
    ) -> Result<(), Gone> {
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
        self.zeros(padding(entry.stored()))
    }

    /// Ends a file whose rest cannot be read.
    fn pad(&mut self, path: &[u8], length: u64) -> Result<(), Gone> {
        self.flush()?;
        let padding = Out::Padding(length, self.tree.shown(path));
        self.out.send(padding).map_err(|_| Gone)
    }

    /// Packs a part of a file. Returns how many bytes at its end cannot be read, or are not needed.
    fn data(
        &mut self,
        path: &[u8],
        file: &Fd,
        mut offset: u64,
        mut length: u64,
        skip: Option<&AtomicBool>,
    ) -> Result<u64, Gone> {
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
    // As in GNU tar, a part without bytes marks the end of a file that ends with a hole.
    let end = parts.last().map_or(0, |&(start, length)| start + length);
    if end < size {
        parts.push((size, 0));
    }
    Map::new(parts, size)
}

/// Writes the stretches of the archive in their order.
struct Writer<'a, W> {
    output: &'a mut W,
    chunks: &'a Chunks,
    report: &'a Report,
    written: u64,
    /// Zeros that may still replace unreadable bytes.
    padding: u64,
    /// The first name of each file with several names, and the number of names still to come.
    names: HashMap<(u64, u64), (Vec<u8>, u64)>,
}

impl<W: Write> Writer<'_, W> {
    fn run(&mut self, stretches: &Receiver<Receiver<Out>>) -> io::Result<()> {
        for stretch in stretches {
            let mut skipping = false;
            for out in stretch {
                match out {
                    Out::Bytes(chunk) => {
                        if !skipping {
                            self.write(&chunk.bytes[..chunk.used])?;
                        }
                        self.chunks.give(chunk);
                    }
                    Out::Begin(linked) => skipping = self.is_later(&linked)?,
                    Out::End => skipping = false,
                    Out::Padding(length, path) => {
                        if !skipping {
                            self.pad(length, &path)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the end mark.
    fn finish(&mut self) -> io::Result<()> {
        let end = vec![0; 2 * BLOCK];
        self.write(&end)?;
        let rest = (RECORD - self.written % RECORD) % RECORD;
        self.write(&vec![0; rest as usize])
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)?;
        self.written += bytes.len() as u64;
        self.report.count_bytes(bytes.len() as u64);
        self.report.reach(self.written);
        Ok(())
    }

    /// Writes zeros in place of unreadable bytes.
    fn pad(&mut self, mut length: u64, path: &str) -> io::Result<()> {
        self.padding = self.padding.checked_sub(length).ok_or_else(|| {
            io::Error::other(format!(
                "the archive is not complete: {} of {path} cannot be read, and at most {} are \
                 filled with zeros (leave the file out: --exclude)",
                format::size(length),
                format::size(PADDING)
            ))
        })?;
        let zeros = vec![0; CHUNK];
        while length > 0 {
            let piece = length.min(CHUNK as u64);
            self.write(&zeros[..piece as usize])?;
            length -= piece;
        }
        Ok(())
    }

    /// Writes a later name of a file as a link to the first.
    fn is_later(&mut self, linked: &Linked) -> io::Result<bool> {
        let identity = (linked.stat.st_dev, linked.stat.st_ino);
        let Some((first, others)) = self.names.get_mut(&identity) else {
            let others = linked.stat.st_nlink - 1;
            self.names.insert(identity, (linked.path.clone(), others));
            return Ok(false);
        };
        linked.skip.store(true, Ordering::Relaxed);
        let entry = ArchiveEntry {
            path: &linked.path,
            stat: &linked.stat,
            target: first,
            link: true,
            xattrs: &[],
            map: None,
        };
        let headers = entry.headers();
        *others -= 1;
        if *others == 0 {
            self.names.remove(&identity);
        }
        self.write(&headers)?;
        Ok(true)
    }
}
