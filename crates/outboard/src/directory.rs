// SPDX-License-Identifier: GPL-2.0-only
//! Reading directories.
//!
//! In a damaged image a directory may lead back to itself, so that its listing has no end.
//! [`Listing`] ends with an error then; everything that lists directories of images goes through
//! it.

use crate::capacity::capacity;
use crate::invalid::invalid_data;
use crate::metadata::{FileType, Metadata};
use crate::Fd;
use outboard_sys::{libc, Entries};
use std::collections::{HashSet, VecDeque};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Bytes of directory entries that are read at once.
const BUFFER: usize = 64 * 1024;

/// Most bytes of records that a listing may have: tens of millions of names.
const MOST: u64 = 1 << 30;
/// Few enough for any file system.
const FEW: u64 = 1 << 24;
/// How much larger records may be than what the file system stores for them, compressed.
const COMPRESSED: u64 = 64;

/// How far a directory is listed.
#[derive(Debug, Default)]
pub struct Listing {
    /// The position after each piece.
    positions: HashSet<i64>,
    /// Of all pieces.
    bytes: u64,
}

impl Listing {
    /// The next names of this directory, which is the same in all calls. `None`: the end.
    pub fn next<'a>(
        &mut self,
        directory: &Fd,
        buffer: &'a mut [u8],
    ) -> io::Result<Option<Entries<'a>>> {
        let found = directory.entries(buffer)?;
        // The host's directories are the host's affair.
        if let Some(entries) = found.as_ref().filter(|_| !directory.system().is_host()) {
            self.advance(entries)?;
            self.check_size(directory)?;
        }
        Ok(found)
    }

    fn advance(&mut self, entries: &Entries) -> io::Result<()> {
        self.bytes += entries.bytes() as u64;
        match entries.clone().with_dots().last() {
            Some(last) if !self.positions.insert(last.next) => {
                Err(invalid_data("damaged: its listing does not end"))
            }
            _ => Ok(()),
        }
    }

    fn check_size(&self, directory: &Fd) -> io::Result<()> {
        if self.bytes <= FEW {
            return Ok(());
        }
        let stored = capacity(directory)?.saturating_mul(COMPRESSED);
        if self.bytes > stored.clamp(FEW, MOST) {
            Err(invalid_data(
                "damaged: it has more names than the file system can hold",
            ))
        } else {
            Ok(())
        }
    }
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    directory: Arc<Fd>,
    name: CString,
    kind: u8,
    inode: u64,
}

impl DirEntry {
    /// Its name.
    pub fn file_name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }

    /// The number of its inode, as the directory has it.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The kind of file; asks for its metadata only where the directory does not say it.
    pub fn file_type(&self) -> io::Result<FileType> {
        match FileType::from_entry(self.kind) {
            FileType::Unknown => Ok(self.metadata()?.file_type()),
            known => Ok(known),
        }
    }

    /// Metadata of the file; a symbolic link is not followed.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.directory
            .stat_at(&self.name, libc::AT_SYMLINK_NOFOLLOW)
            .map(Metadata::from)
    }
}

/// Goes through a directory, in the order that the file system has, without `.` and `..`.
pub struct ReadDir {
    directory: Arc<Fd>,
    buffer: Vec<u8>,
    listing: Listing,
    waiting: VecDeque<DirEntry>,
    ended: bool,
}

impl ReadDir {
    /// `directory` is open for reading.
    #[doc(hidden)]
    pub fn new(directory: Fd) -> Self {
        Self {
            directory: Arc::new(directory),
            buffer: vec![0; BUFFER],
            listing: Listing::default(),
            waiting: VecDeque::new(),
            ended: false,
        }
    }

    /// Metadata of the directory itself.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.directory.stat().map(Metadata::from)
    }

    fn fill(&mut self) -> io::Result<()> {
        let Some(entries) = self.listing.next(&self.directory, &mut self.buffer)? else {
            self.ended = true;
            return Ok(());
        };
        let directory = &self.directory;
        self.waiting.extend(entries.map(|entry| DirEntry {
            directory: Arc::clone(directory),
            name: entry.name.to_owned(),
            kind: entry.kind,
            inode: entry.inode,
        }));
        Ok(())
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.waiting.pop_front() {
                return Some(Ok(entry));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.fill() {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }
}
