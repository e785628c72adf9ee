// SPDX-License-Identifier: GPL-2.0-only
//! Files and directories that programs of the host have open.

use super::writers::{Writer, Writers};
use outboard::Fd;
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of one read of directory entries.
const BUFFER: usize = 32 * 1024;
const SHARDS: usize = 16;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics")
}

/// A name in a directory.
pub struct DirectoryEntry {
    pub inode: u64,
    /// The directory offset behind this entry.
    pub next: u64,
    pub kind: u8,
    pub name: CString,
}

/// The position in an open directory.
#[derive(Default)]
pub struct Reading {
    /// Entries that were read and not yet returned.
    pub waiting: VecDeque<DirectoryEntry>,
    /// Position of the first of these entries, or of the next read.
    position: u64,
}

impl Reading {
    /// The next name from a position on: 0, or the position that an earlier entry returned. `None`:
    /// the end.
    pub fn next(&mut self, directory: &Fd, position: u64) -> io::Result<Option<DirectoryEntry>> {
        if position != self.position || position == 0 {
            directory.seek(position as i64, libc::SEEK_SET)?;
            self.waiting.clear();
            self.position = position;
        }
        if self.waiting.is_empty() {
            self.fill(directory)?;
        }
        let entry = self.waiting.pop_front();
        if let Some(entry) = &entry {
            self.position = entry.next;
        }
        Ok(entry)
    }

    /// Puts back the entry last returned for `position`.
    pub fn give_back(&mut self, entry: DirectoryEntry, position: u64) {
        self.waiting.push_front(entry);
        self.position = position;
    }

    fn fill(&mut self, directory: &Fd) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        if let Some(entries) = directory.entries(&mut buffer)? {
            self.waiting
                .extend(entries.with_dots().map(|entry| DirectoryEntry {
                    inode: entry.inode,
                    next: entry.next as u64,
                    kind: entry.kind,
                    name: entry.name.to_owned(),
                }));
        }
        Ok(())
    }
}

pub struct OpenFile {
    pub fd: Fd,
    node: u64,
    /// If programs may write by this.
    pub writer: Option<Writer>,
    /// Read position, for directories.
    reading: Mutex<Reading>,
}

impl OpenFile {
    pub fn reading(&self) -> MutexGuard<'_, Reading> {
        lock(&self.reading)
    }
}

/// All open files, by the handle number of the host.
#[derive(Default)]
pub struct OpenFiles {
    shards: [Mutex<HashMap<u64, Arc<OpenFile>>>; SHARDS],
    last: AtomicU64,
    pub writers: Writers,
}

impl OpenFiles {
    fn shard(&self, number: u64) -> MutexGuard<'_, HashMap<u64, Arc<OpenFile>>> {
        lock(&self.shards[number as usize % SHARDS])
    }

    /// `writes`: programs may write through this handle.
    pub fn add(&self, fd: Fd, node: u64, writes: bool) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let watch = || fd.reopen(libc::O_RDONLY);
        let file = OpenFile {
            writer: writes.then(|| self.writers.open(node, watch)),
            fd,
            node,
            reading: Mutex::default(),
        };
        self.shard(number).insert(number, Arc::new(file));
        number
    }

    pub fn get(&self, number: u64) -> io::Result<Arc<OpenFile>> {
        let found = self.shard(number).get(&number).cloned();
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// Whether a node is open. Takes time linear in the open files.
    pub fn has(&self, node: u64) -> bool {
        self.shards
            .iter()
            .any(|shard| lock(shard).values().any(|file| file.node == node))
    }

    /// If data of the file was lost, and this was the last handle for writing, `settle` gets the
    /// node, the file, and the end of the lost data.
    pub fn remove(&self, number: u64, settle: impl FnOnce(u64, &Fd, u64)) {
        let gone = self.shard(number).remove(&number);
        let Some(file) = gone else { return };
        if let Some(writer) = &file.writer {
            let settle = |end| settle(file.node, &file.fd, end);
            self.writers.close(writer, settle);
        }
    }
}
