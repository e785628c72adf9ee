// SPDX-License-Identifier: GPL-2.0-only
//! The walk through a tree to pack: in the order of the archive, a directory before its entries.
//!
//! Commands that visit one file at a time share [`outboard::walk`]. That walk opens a directory
//! after it has returned the directory, and reports one that cannot be opened. Here each directory
//! is returned open: packers on other threads read its attributes from the same descriptor, and
//! pack a directory that cannot be opened by its name.

use super::changes::Changes;
use crate::exclusion::Exclusion;
use crate::report::Report;
use outboard::{Fd, Listing};
use outboard_sandbox::format::escaped;
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::sync::Arc;

/// Bytes of directory entries that are read at once.
const LISTING: usize = 64 * 1024;

/// An open directory.
pub struct Folder {
    pub fd: Fd,
    /// Its path in the archive, with a slash at its end.
    pub path: Vec<u8>,
}

impl Folder {
    /// The path of a name in it.
    pub fn path_of(&self, name: &CStr) -> Vec<u8> {
        [&self.path, name.to_bytes()].concat()
    }
}

/// A file to pack.
pub enum Item {
    Folder(Arc<Folder>),
    /// A file that is no directory.
    Name(Arc<Folder>, CString),
}

/// The start of a walk.
pub enum Start {
    /// A directory, with all below it.
    Folder(Folder),
    /// A name in one, with all below it.
    Name(Folder, CString),
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
    pub changes: Changes,
}

/// A directory whose names are being walked.
struct Level {
    folder: Arc<Folder>,
    names: std::vec::IntoIter<(CString, bool)>,
}

pub struct Walk<'a> {
    pub choice: &'a Choice,
    pub report: &'a Report,
    pub interrupt: &'a Interrupt,
    /// The directory that is walked, as the user would write it.
    pub place: &'a Place,
}

impl Walk<'_> {
    /// Hands every file to `give`, which returns whether to go on.
    pub fn run(&self, starts: Vec<Start>, give: &mut dyn FnMut(Item) -> bool) {
        for start in starts {
            if !self.run_from(start, give) {
                return;
            }
        }
    }

    fn run_from(&self, start: Start, give: &mut dyn FnMut(Item) -> bool) -> bool {
        let mut entered = HashSet::new();
        let mut levels = Vec::new();
        match start {
            Start::Folder(folder) => levels.extend(self.enter(folder, &mut entered, give)),
            Start::Name(folder, name) => {
                let path = folder.path_of(&name);
                if self.choice.excluded.excludes(&path) {
                    return true;
                }
                match self.open(&folder, &name, path) {
                    Some(below) => levels.extend(self.enter(below, &mut entered, give)),
                    None => return give(Item::Name(Arc::new(folder), name)),
                }
            }
        }
        while let Some(level) = levels.last_mut() {
            if self.interrupt.asked() {
                return false;
            }
            let Some((name, directory)) = level.names.next() else {
                levels.pop();
                continue;
            };
            let folder = &level.folder;
            let path = folder.path_of(&name);
            if self.choice.excluded.excludes(&path) {
                continue;
            }
            let opened = match directory {
                true => self.open(folder, &name, path),
                false => None,
            };
            if let Some(below) = opened {
                levels.extend(self.enter(below, &mut entered, give));
            } else if !give(Item::Name(Arc::clone(folder), name)) {
                return false;
            }
        }
        true
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

    /// Opens a directory. `None`: it is none, or the packer will report the error.
    fn open(&self, parent: &Folder, name: &CStr, mut path: Vec<u8>) -> Option<Folder> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let fd = parent.fd.open_at(name, flags, 0).ok()?;
        path.push(b'/');
        Some(Folder { fd, path })
    }

    /// Hands over a directory, and lists it.
    fn enter(
        &self,
        folder: Folder,
        entered: &mut HashSet<(u64, u64)>,
        give: &mut dyn FnMut(Item) -> bool,
    ) -> Option<Level> {
        let folder = Arc::new(folder);
        let cannot = |error: &io::Error| {
            let path = self.path_of(&folder.path);
            self.report.fail_reading("cannot list", path, error);
        };
        match folder.fd.stat() {
            Ok(stat) if entered.insert((stat.st_dev, stat.st_ino)) => {}
            Ok(_) => {
                cannot(&io::Error::other("the directory has two names"));
                return None;
            }
            Err(error) => {
                cannot(&error);
                return None;
            }
        }
        if !give(Item::Folder(Arc::clone(&folder))) {
            return None;
        }
        let (mut names, result) = list(&folder.fd, self.interrupt);
        if let Err(error) = result {
            cannot(&error);
        }
        if self.choice.sorted {
            names.sort_unstable();
        }
        let names = names.into_iter();
        Some(Level { folder, names })
    }
}

/// Names, and whether each is a directory; after an error or an interrupt, the names before it.
fn list(directory: &Fd, interrupt: &Interrupt) -> (Vec<(CString, bool)>, io::Result<()>) {
    let mut names = Vec::new();
    let mut buffer = vec![0; LISTING];
    let mut listing = Listing::default();
    loop {
        match listing.next(directory, &mut buffer) {
            Ok(_) if interrupt.asked() => return (names, Ok(())),
            Ok(Some(entries)) => names.extend(entries.map(|entry| {
                let directory = is_directory(directory, entry.name, entry.kind);
                (entry.name.to_owned(), directory)
            })),
            Ok(None) => return (names, Ok(())),
            Err(error) => return (names, Err(error)),
        }
    }
}

fn is_directory(parent: &Fd, name: &CStr, kind: u8) -> bool {
    if kind != libc::DT_UNKNOWN {
        return kind == libc::DT_DIR;
    }
    parent
        .stat_at(name, libc::AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
}
