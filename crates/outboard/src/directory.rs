// SPDX-License-Identifier: GPL-2.0-only
//! Reading directories.

use crate::metadata::{FileType, Metadata};
use crate::Fd;
use outboard_sys::libc;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Bytes of directory entries that are read at once.
const BUFFER: usize = 64 * 1024;

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    directory: Arc<Fd>,
    name: CString,
    kind: u8,
    inode: u64,
}

impl DirEntry {
    pub fn file_name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }

    pub fn file_name_c(&self) -> &CStr {
        &self.name
    }

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

    /// What the file says if it is a symbolic link.
    pub fn read_link(&self) -> io::Result<CString> {
        self.directory.read_link_at(&self.name)
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
    waiting: VecDeque<DirEntry>,
    ended: bool,
}

impl ReadDir {
    /// `directory` is open for reading.
    pub fn new(directory: Fd) -> Self {
        Self {
            directory: Arc::new(directory),
            buffer: vec![0; BUFFER],
            waiting: VecDeque::new(),
            ended: false,
        }
    }

    /// Metadata of the directory itself.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.directory.stat().map(Metadata::from)
    }

    fn fill(&mut self) -> io::Result<()> {
        let Some(entries) = self.directory.entries(&mut self.buffer)? else {
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
