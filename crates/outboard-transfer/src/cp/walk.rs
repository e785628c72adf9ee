// SPDX-License-Identifier: GPL-2.0-only
//! The walk through directories.
//!
//! The walker makes each directory and lists it; names that are not directories go to the
//! copiers in batches. A directory stays open as long as something in it is to be copied; whoever is the
//! last to leave it sets its attributes. Children hold their parent, so a parent is
//! finished after them.

use super::attributes::{self, Kind, Named};
use super::copy::{Copier, Item, Worker};
use super::queue::Queue;
use super::report::Loss;
use super::{join, Options};
use outboard::{Fd, Listing};
use outboard_sandbox::error::reason;
use outboard_sandbox::format::escaped;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// Names that are handed over at once: all of the same directory.
const BATCH: usize = 16;
/// Batches that may wait.
const WAITING: usize = 256;
/// Bytes of directory entries that are read at once.
const LISTING: usize = 64 * 1024;

/// A directory that is being copied.
pub struct Directory {
    pub source: Fd,
    pub target: Arc<Fd>,
    /// The source's path, for messages.
    shown: Vec<u8>,
    /// The target's path below the top target.
    pub path: Vec<u8>,
    /// The source's metadata; `None` for the top, which is not itself copied.
    stat: Option<libc::stat>,
    /// Whether it was made by this copy.
    created: bool,
    parent: Option<Arc<Directory>>,
}

impl Directory {
    /// The directory that holds a source named on the command line.
    pub fn top(source: Fd, target: Arc<Fd>, shown: String) -> Self {
        Self {
            source,
            target,
            shown: shown.into_bytes(),
            path: Vec::new(),
            stat: None,
            created: false,
            parent: None,
        }
    }

    /// The path of a file in it, for messages.
    pub fn shown_in(&self, name: &CStr) -> String {
        match self.stat {
            None => escaped(&self.shown),
            Some(_) => escaped(&join(&self.shown, name.to_bytes())),
        }
    }

    /// The path of a copy in it, below the top target.
    pub fn path_of(&self, name: &CStr) -> Vec<u8> {
        join(&self.path, name.to_bytes())
    }
}

impl Named for Directory {
    fn shown(&self) -> String {
        escaped(&self.shown)
    }

    fn copy_path(&self) -> Vec<u8> {
        self.path.clone()
    }
}

/// A directory that is still to be walked.
struct Waiting {
    parent: Arc<Directory>,
    name: CString,
    new_name: Option<CString>,
}

/// The files in a directory that one copier takes.
type Batch = Vec<Item>;

pub struct Walk<'a> {
    copier: &'a Copier<'a>,
    directories: Vec<Waiting>,
    files: Vec<Item>,
}

impl<'a> Walk<'a> {
    pub fn new(copier: &'a Copier<'a>) -> Self {
        Self {
            copier,
            directories: Vec::new(),
            files: Vec::new(),
        }
    }

    pub fn options(&self) -> Options {
        self.copier.options
    }

    /// Adds a directory in `top`. Without a new name its contents go into the target itself.
    pub fn add_directory(&mut self, top: Directory, name: CString, new_name: Option<CString>) {
        self.directories.push(Waiting {
            parent: Arc::new(top),
            name,
            new_name: Some(new_name.unwrap_or_else(|| c".".to_owned())),
        });
    }

    pub fn add_file(&mut self, item: Item) {
        self.files.push(item);
    }

    /// Copies everything that was added. Threads: one that walks and `copiers` others.
    pub fn run(self, copiers: u32) {
        let copier = self.copier;
        if copier.options.sorted {
            let mut worker = copier.worker();
            return self.walk(&mut |batch| copy_batch(copier, &mut worker, batch));
        }
        let queue: Queue<Batch> = Queue::new(WAITING);
        std::thread::scope(|scope| {
            for _ in 0..copiers.max(1) {
                scope.spawn(|| {
                    let mut worker = copier.worker();
                    while let Some(batch) = queue.take() {
                        copy_batch(copier, &mut worker, batch);
                    }
                });
            }
            self.walk(&mut |batch| queue.give(batch));
            queue.close();
        });
    }

    /// Makes the directories and gives away the files.
    fn walk(mut self, give: &mut dyn FnMut(Batch)) {
        for item in self.files.drain(..) {
            give(vec![item]);
        }
        self.directories.reverse();
        let mut walker = Walker {
            copier: self.copier,
            give,
            waiting: self.directories,
            entered: HashSet::new(),
            buffer: vec![0; LISTING],
        };
        walker.run();
    }
}

fn copy_batch(copier: &Copier, worker: &mut Worker, batch: Batch) {
    for item in batch {
        worker.copy(&item);
        release(copier, item.directory);
    }
}

struct Walker<'a> {
    copier: &'a Copier<'a>,
    /// Takes files that are to be copied.
    give: &'a mut dyn FnMut(Batch),
    waiting: Vec<Waiting>,
    /// Device and inode of the directories of this source that were met. In a broken image one may
    /// have several names, and so many that a walk through all of them would never end.
    entered: HashSet<(u64, u64)>,
    buffer: Vec<u8>,
}

impl Walker<'_> {
    fn run(&mut self) {
        while let Some(next) = self.waiting.pop() {
            if self.copier.stopped() {
                release(self.copier, next.parent);
                continue;
            }
            if next.parent.stat.is_none() {
                // The next source: the one before it has been walked.
                self.entered.clear();
            }
            let Some(directory) = self.enter(next).map(Arc::new) else {
                continue;
            };
            if let Err(error) = self.list(&directory) {
                let text = escaped(&directory.shown);
                self.copier
                    .report
                    .fail(format!("cannot list {text}: {}", reason(&error)));
            }
            release(self.copier, directory);
        }
    }

    /// Opens a directory and makes its copy.
    fn enter(&mut self, next: Waiting) -> Option<Directory> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let source = &next.parent.source;
        let opened = source
            .open_at(&next.name, flags, 0)
            .and_then(|source| Ok((source.stat()?, source)));
        match opened {
            Ok((stat, _)) if !self.entered.insert((stat.st_dev, stat.st_ino)) => {
                self.refuse(next, "the directory has two names");
                None
            }
            Ok((stat, source)) => self.make_copy(next, source, stat),
            // The directory that holds it says otherwise, which is no reason to lose it.
            Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => {
                (self.give)(vec![Item {
                    directory: next.parent,
                    name: next.name,
                    new_name: next.new_name,
                    follow: false,
                    into_pipe: false,
                }]);
                None
            }
            Err(error) => {
                self.refuse(next, &reason(&error));
                None
            }
        }
    }

    fn refuse(&self, next: Waiting, why: &str) {
        let text = next.parent.shown_in(&next.name);
        self.copier
            .report
            .fail(format!("cannot open {text}: {why}"));
        release(self.copier, next.parent);
    }

    /// Makes the copy of a directory that is open.
    fn make_copy(&self, next: Waiting, source: Fd, stat: libc::stat) -> Option<Directory> {
        let Waiting {
            parent,
            name,
            new_name,
        } = next;
        let into = new_name.as_ref().unwrap_or(&name);
        match make(&parent.target, into, self.copier.options, &stat) {
            Ok((target, created)) => Some(Directory {
                shown: parent.shown_in(&name).into_bytes(),
                path: match into.to_bytes() {
                    b"." => parent.path.clone(),
                    _ => parent.path_of(into),
                },
                source,
                target: Arc::new(target),
                stat: Some(stat),
                created,
                parent: Some(parent),
            }),
            Err(error) => {
                let copy = self.copier.copy_shown(&parent.path_of(into));
                self.copier
                    .fail_writing(format!("cannot make directory {copy}"), &error);
                release(self.copier, parent);
                None
            }
        }
    }

    /// Sees to everything in a directory; after an error, to what was listed before it.
    fn list(&mut self, directory: &Arc<Directory>) -> io::Result<()> {
        let mut files = Files::new(directory, self.copier.options.sorted);
        let mut below = Vec::new();
        let mut listing = Listing::default();
        let result = loop {
            let entries = match listing.next(&directory.source, &mut self.buffer) {
                Ok(Some(entries)) if !self.copier.stopped() => entries,
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            };
            for entry in entries {
                if is_directory(&directory.source, &entry) {
                    below.push(entry.name.to_owned());
                    continue;
                }
                if let Some(batch) = files.add(entry.name.to_owned()) {
                    (self.give)(batch);
                }
            }
        };
        let rest = files.rest();
        if !rest.is_empty() {
            (self.give)(rest);
        }
        if self.copier.options.sorted {
            below.sort();
        }
        self.waiting
            .extend(below.into_iter().rev().map(|name| Waiting {
                parent: Arc::clone(directory),
                name,
                new_name: None,
            }));
        result
    }
}

/// The files of one directory, on their way to batches.
struct Files<'a> {
    directory: &'a Arc<Directory>,
    sorted: bool,
    names: Vec<CString>,
}

impl<'a> Files<'a> {
    fn new(directory: &'a Arc<Directory>, sorted: bool) -> Self {
        Self {
            directory,
            sorted,
            names: Vec::new(),
        }
    }

    /// Adds a name; gives a batch when there are enough. To be sorted, all must be there.
    fn add(&mut self, name: CString) -> Option<Batch> {
        self.names.push(name);
        (!self.sorted && self.names.len() >= BATCH).then(|| self.rest())
    }

    fn rest(&mut self) -> Batch {
        if self.sorted {
            self.names.sort();
        }
        let item = |name| Item {
            directory: Arc::clone(self.directory),
            name,
            new_name: None,
            follow: false,
            into_pipe: false,
        };
        self.names.drain(..).map(item).collect()
    }
}

fn is_directory(parent: &Fd, entry: &outboard::Entry) -> bool {
    if entry.kind != libc::DT_UNKNOWN {
        return entry.kind == libc::DT_DIR;
    }
    parent
        .stat_at(entry.name, libc::AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

/// Makes or finds the copy of a directory; tells whether it was made. Until it is finished it
/// belongs to nobody else.
fn make(parent: &Fd, name: &CStr, options: Options, stat: &libc::stat) -> io::Result<(Fd, bool)> {
    let mode = match options.archive {
        true => 0o700,
        false => stat.st_mode & 0o777 & !options.umask | 0o700,
    };
    let created = match parent.make_directory_at(name, mode) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    match parent.open_at(name, flags, 0) {
        Ok(directory) => Ok((directory, created)),
        // A link or file of this name must not be written through or replaced.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            Err(io::Error::from_raw_os_error(libc::ENOTDIR))
        }
        Err(error) => Err(error),
    }
}

/// Leaves a directory; the last one to do so finishes it, and so on upwards, also after a stop:
/// what there is then has its attributes. A loop, not recursion: trees may be deep.
pub fn release(copier: &Copier, directory: Arc<Directory>) {
    let mut next = Some(directory);
    while let Some(directory) = next.and_then(Arc::into_inner) {
        finish(copier, &directory);
        copier.note(&directory.target);
        next = directory.parent;
    }
}

/// Sets the attributes of a directory to which nothing will be added.
fn finish(copier: &Copier, directory: &Directory) {
    let Some(stat) = &directory.stat else {
        return;
    };
    if copier.options.archive {
        let kind = Kind::Open {
            source: &directory.source,
            target: &directory.target,
        };
        match directory.target.stat() {
            Ok(now) => attributes::keep(copier, &kind, stat, &now, directory),
            Err(_) => copier.report.lose(Loss::Owner, || directory.shown()),
        }
    } else if directory.created {
        let mode = stat.st_mode & 0o777 & !copier.options.umask;
        if mode & 0o700 != 0o700 && directory.target.set_mode(mode).is_err() {
            copier.report.lose(Loss::Mode, || directory.shown());
        }
    }
}
