// SPDX-License-Identifier: GPL-2.0-only
//! The files of a tree in the order of the archive: a directory before its entries.
//!
//! Each directory is handed over open: packers on other threads read its attributes and its files.

use super::changes::MemberChanges;
use crate::exclusion::Exclusion;
use crate::hidden::{check_key, HiddenFinder};
use crate::report::Report;
use outboard::walk::{Entry, OpenDirectory, Start, Step, Walk};
use outboard::Fd;
use outboard_error::format::escaped;
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::sync::Arc;

/// An open directory.
pub struct Folder {
    pub fd: Arc<Fd>,
    /// Its path in the archive: empty, or with a slash at its end.
    pub path: Vec<u8>,
}

impl Folder {
    /// The path of a name in it.
    pub fn path_of(&self, name: &CStr) -> Vec<u8> {
        [&self.path, name.to_bytes()].concat()
    }
}

/// A file to pack.
pub enum PackItem {
    Folder(Arc<Folder>),
    /// A file that is no directory.
    Name(Arc<Folder>, CString),
}

/// A file that is packed, with all below it.
pub struct PackStart {
    pub folder: Folder,
    /// "." for the directory itself.
    pub name: CString,
}

/// Which files the walk leaves out, and in which order it goes.
#[derive(Default)]
pub struct Choice {
    /// Sort by the bytes of names; otherwise keep the order of the file system.
    pub sorted: bool,
    /// Patterns of files to leave out.
    pub excluded: Exclusion,
    /// Paths to pack, with everything below, under the names as written. None: all.
    pub paths: Vec<OsString>,
    /// Changes to the metadata of members.
    pub changes: MemberChanges,
}

/// The tree that is packed.
pub struct PackedTree<'a> {
    pub choice: &'a Choice,
    pub report: &'a Report,
    pub interrupt: &'a Interrupt,
    /// The directory that is packed, as the user would write it.
    pub place: &'a Place,
    pub hidden: HiddenFinder,
}

impl PackedTree<'_> {
    /// Hands every file to `give`, which returns whether to go on.
    pub fn for_each(&self, starts: Vec<PackStart>, give: &mut dyn FnMut(PackItem) -> bool) {
        for start in starts {
            if !self.from(start, give) {
                return;
            }
        }
    }

    fn from(&self, start: PackStart, give: &mut dyn FnMut(PackItem) -> bool) -> bool {
        let PackStart { folder, name } = start;
        let path = folder.path_of(&name);
        if name.as_c_str() != c"." && self.choice.excluded.excludes(&path) {
            return true;
        }
        let found = folder.fd.stat_at(&name, libc::AT_SYMLINK_NOFOLLOW);
        let start = Start {
            directory: Arc::clone(&folder.fd),
            name,
            // The packer reports what cannot be found.
            kind: found.map_or(0, |stat| stat.st_mode & libc::S_IFMT),
        };
        let mut walk = Walk::new(start, path, self.interrupt.clone());
        // At each depth, the directory that holds the entry there.
        let mut folders = vec![Arc::new(folder)];
        while let Some(step) = walk.next() {
            let item = match step {
                Step::Found(entry) if entry.depth > 0 && self.excludes(&entry) => {
                    walk.skip();
                    None
                }
                Step::Found(entry) if entry.is_directory() => None,
                Step::Found(entry) => Some(name_in(&folders, &entry)),
                Step::Opened(opened) => {
                    let folder = self.enter(opened);
                    folders.push(Arc::clone(&folder));
                    Some(PackItem::Folder(folder))
                }
                Step::Failed(entry, error) => self.fail(&folders, &entry, &error),
                Step::Left(entry) => {
                    folders.truncate(entry.depth + 1);
                    None
                }
            };
            if item.is_some_and(|item| !give(item)) {
                return false;
            }
        }
        !self.interrupt.asked()
    }

    /// Chooses the names of a directory that the walk goes through.
    fn enter(&self, opened: OpenDirectory) -> Arc<Folder> {
        let path = [opened.entry.path, b"/"].concat();
        if self.choice.sorted {
            opened.names.sort();
        }
        if !opened.names.is_empty() {
            if let Err(error) = check_key(opened.directory, c"") {
                let path = self.path_of(&path);
                self.report.fail_reading("cannot list", path, &error);
                opened.names.clear();
            }
        }
        let fd = Arc::clone(opened.directory);
        Arc::new(Folder { fd, path })
    }

    /// Reports a directory that cannot be listed. One that cannot be opened may be none any more:
    /// the packer tries, and reports errors.
    fn fail(&self, folders: &[Arc<Folder>], entry: &Entry, error: &io::Error) -> Option<PackItem> {
        let opened = folders.len() > entry.depth + 1;
        if !opened && error.raw_os_error().is_some() {
            return Some(name_in(folders, entry));
        }
        let path = self.path_of(&[entry.path, b"/"].concat());
        self.report.fail_reading("cannot list", path, error);
        None
    }

    fn excludes(&self, entry: &Entry) -> bool {
        self.choice.excluded.excludes(entry.path)
    }

    /// A path as the user would write it.
    pub fn path_of(&self, path: &[u8]) -> Vec<u8> {
        let mut whole = self.place.operand();
        if !whole.ends_with(b"/") {
            whole.push(b'/');
        }
        whole.extend_from_slice(path.strip_prefix(b"./").unwrap_or(path));
        whole
    }

    /// A path for messages.
    pub fn shown(&self, path: &[u8]) -> String {
        escaped(&self.path_of(path))
    }
}

fn name_in(folders: &[Arc<Folder>], entry: &Entry) -> PackItem {
    PackItem::Name(Arc::clone(&folders[entry.depth]), entry.name.to_owned())
}
