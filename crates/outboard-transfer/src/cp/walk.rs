// SPDX-License-Identifier: GPL-2.0-only
//! The walk through directories.
//!
//! The walker makes each directory and lists it; names that are not directories go to the copiers
//! in batches. A directory stays open as long as something in it is to be copied; whoever is the
//! last to leave it sets its attributes. Children hold their parent, so a parent is finished after
//! them.
//!
//! All other commands share [`outboard::walk`]. The shared walk returns one file at a time, and
//! leaves a directory once it has returned all files in there. Here a directory must stay until
//! other threads have copied its files, and links may lead to directories of other trees.

use super::attributes::{self, Named, Pair};
use super::copy::{Copier, Item, Worker};
use super::following::{check_end, follow, with_hint, Followed};
use super::queue::Queue;
use super::{join, Options};
use crate::report::Loss;
use outboard::{Fd, Listing, Tree};
use outboard_sandbox::format::escaped;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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
    /// Length of the part before the source's own name; patterns are not matched against that part.
    hidden: usize,
    /// The number of its tree, and its path there, to follow links.
    tree: usize,
    real: PathBuf,
    /// The target's path below the top target.
    pub path: Vec<u8>,
    /// The source's metadata; `None` for the top, which is not itself copied.
    stat: Option<libc::stat>,
    /// Whether this copy created it.
    created: bool,
    parent: Option<Arc<Directory>>,
}

impl Directory {
    /// The directory that holds a source named on the command line.
    /// `shown`: the source's path; `name`: its own name, unless its contents are copied.
    pub fn top(source: Fd, target: Arc<Fd>, shown: Vec<u8>, name: Option<CString>) -> Self {
        let end = shown.iter().rposition(|&byte| byte != b'/');
        let name = name.map_or(0, |name| name.as_bytes().len());
        let hidden = match (end, name) {
            (Some(end), 1..) => (end + 1).saturating_sub(name),
            _ => shown.len(),
        };
        Self {
            source,
            target,
            shown,
            hidden,
            tree: 0,
            real: PathBuf::new(),
            path: Vec::new(),
            stat: None,
            created: false,
            parent: None,
        }
    }

    /// The same for a source with this path in a tree.
    pub fn resolved(self, tree: usize, path: &Path) -> Self {
        let real = path.parent().unwrap_or(path).to_path_buf();
        Self { tree, real, ..self }
    }

    /// The path of a file in it.
    pub fn raw_path_of(&self, name: &CStr) -> Vec<u8> {
        match self.stat {
            None => self.shown.clone(),
            Some(_) => join(&self.shown, name.to_bytes()),
        }
    }

    /// The path of a file in it, for messages.
    pub fn shown_in(&self, name: &CStr) -> String {
        escaped(&self.raw_path_of(name))
    }

    /// Whether a directory with this device and inode is this directory or one above it in the
    /// source.
    pub fn is_or_lies_in(&self, identity: (u64, u64)) -> bool {
        let mut next = Some(self);
        while let Some(directory) = next {
            let is = |stat: &libc::stat| (stat.st_dev, stat.st_ino) == identity;
            if directory.stat.as_ref().is_some_and(is) {
                return true;
            }
            next = directory.parent.as_deref();
        }
        false
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
    /// The name is that of a symbolic link to the directory.
    link: bool,
}

/// The files in a directory that one copier takes.
type Batch = Vec<Item>;

pub struct Walk<'a> {
    copier: &'a Copier<'a>,
    trees: Vec<&'a Tree>,
    directories: Vec<Waiting>,
    files: Vec<Item>,
}

impl<'a> Walk<'a> {
    pub fn new(copier: &'a Copier<'a>) -> Self {
        Self {
            copier,
            trees: Vec::new(),
            directories: Vec::new(),
            files: Vec::new(),
        }
    }

    pub fn options(&self) -> Options {
        self.copier.options
    }

    /// Adds a tree of sources. Returns its number.
    pub fn add_tree(&mut self, tree: &'a Tree) -> usize {
        self.trees.push(tree);
        self.trees.len() - 1
    }

    pub fn excludes(&self, directory: &Directory, name: &CStr) -> bool {
        excludes(self.copier, directory, name)
    }

    /// Adds a directory in `top`. Without a new name its contents go into the target itself.
    pub fn add_directory(&mut self, top: Directory, name: CString, new_name: Option<CString>) {
        self.directories.push(Waiting {
            parent: Arc::new(top),
            name,
            new_name: Some(new_name.unwrap_or_else(|| c".".to_owned())),
            link: false,
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
                    let _breaking = queue.breaking();
                    let mut worker = copier.worker();
                    while let Some(batch) = queue.take() {
                        copy_batch(copier, &mut worker, batch);
                    }
                });
            }
            let _closing = queue.closing();
            self.walk(&mut |batch| {
                if !queue.give(batch) {
                    copier.report.give_up();
                }
            });
        });
    }

    /// Creates the directories and hands the files to the copiers.
    fn walk(mut self, give: &mut dyn FnMut(Batch)) {
        for item in self.files.drain(..) {
            give(vec![item]);
        }
        self.directories.reverse();
        let mut walker = Walker {
            copier: self.copier,
            trees: self.trees,
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

/// Whether a pattern excludes a file.
fn excludes(copier: &Copier, directory: &Directory, name: &CStr) -> bool {
    if copier.excluded.is_empty() {
        return false;
    }
    let path = directory.raw_path_of(name);
    let path = path.get(directory.hidden..).unwrap_or_default();
    let start = path.iter().position(|&byte| byte != b'/');
    // Names in archives of tar-out begin like this.
    start.is_some_and(|start| copier.excluded.excludes(&[b"./", &path[start..]].concat()))
}

struct Walker<'a> {
    copier: &'a Copier<'a>,
    trees: Vec<&'a Tree>,
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
                let (report, path) = (self.copier.report, directory.shown.clone());
                report.fail_reading("cannot list", path, &error);
            }
            release(self.copier, directory);
        }
    }

    /// Opens a directory and makes its copy.
    fn enter(&mut self, next: Waiting) -> Option<Directory> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let followed = match next.link {
            true => match self.follow_to_directory(&next.parent, &next.name) {
                Ok(followed) => Some(followed),
                Err(error) => {
                    self.refuse(next, &error);
                    return None;
                }
            },
            false => None,
        };
        let (source, name, real) = match &followed {
            Some(followed) => (&followed.parent, &followed.name, followed.path.clone()),
            None => (&next.parent.source, &next.name, self.real(&next)),
        };
        let opened = source
            .open_at(name, flags, 0)
            .and_then(|source| Ok((source.stat()?, source)))
            .map_err(|error| match followed {
                Some(_) => with_hint(source.system(), error),
                None => error,
            });
        match opened {
            Ok((stat, _)) if !self.is_new(&next, &stat) => {
                let why = match self.copier.options.follow {
                    true => "links lead to it from below: the copy would never end",
                    false => "the directory has two names",
                };
                self.refuse(next, &io::Error::other(why));
                None
            }
            Ok((stat, source)) => self.make_copy(next, source, stat, real),
            // The listing of its parent says otherwise; copy it nevertheless.
            Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => {
                (self.give)(vec![Item {
                    directory: next.parent,
                    name: next.name,
                    new_name: next.new_name,
                    elsewhere: None,
                    follow: false,
                    into_pipe: false,
                }]);
                None
            }
            Err(error) => {
                self.refuse(next, &error);
                None
            }
        }
    }

    /// Whether a directory may be entered: never inside of itself, and only once unless links are
    /// followed.
    fn is_new(&mut self, next: &Waiting, stat: &libc::stat) -> bool {
        let identity = (stat.st_dev, stat.st_ino);
        match self.copier.options.follow {
            true => !next.parent.is_or_lies_in(identity),
            false => self.entered.insert(identity),
        }
    }

    /// The path in its tree of a directory, if links are followed.
    fn real(&self, next: &Waiting) -> PathBuf {
        match (self.copier.options.follow, next.name.to_bytes()) {
            (false, _) => PathBuf::new(),
            (true, b".") => next.parent.real.clone(),
            (true, name) => next.parent.real.join(OsStr::from_bytes(name)),
        }
    }

    fn follow_to_directory(&self, directory: &Arc<Directory>, name: &CStr) -> io::Result<Followed> {
        let followed = follow_in(&self.trees, directory, name)?;
        check_end(&followed, directory, &self.copier.base)?;
        Ok(followed)
    }

    fn refuse(&self, next: Waiting, why: &io::Error) {
        let path = next.parent.raw_path_of(&next.name);
        self.copier.report.fail_reading("cannot open", path, why);
        release(self.copier, next.parent);
    }

    /// Makes the copy of a directory that is open.
    fn make_copy(
        &self,
        next: Waiting,
        source: Fd,
        stat: libc::stat,
        real: PathBuf,
    ) -> Option<Directory> {
        let Waiting {
            parent,
            name,
            new_name,
            ..
        } = next;
        let into = new_name.as_ref().unwrap_or(&name);
        match make(&parent.target, into, self.copier.options, &stat) {
            Ok((target, created)) => {
                let shown = parent.raw_path_of(&name);
                let path = match into.to_bytes() {
                    b"." => parent.path.clone(),
                    _ => parent.path_of(into),
                };
                if created {
                    self.copier.print_names(|| shown.clone(), || path.clone());
                }
                Some(Directory {
                    shown,
                    hidden: parent.hidden,
                    tree: parent.tree,
                    real,
                    path,
                    source,
                    target: Arc::new(target),
                    stat: Some(stat),
                    created,
                    parent: Some(parent),
                })
            }
            Err(error) => {
                let copy = self.copier.operand_of(&parent.path_of(into));
                self.copier
                    .fail_writing("cannot make directory", copy, &error);
                release(self.copier, parent);
                None
            }
        }
    }

    /// Handles every entry of a directory; after an error, the entries listed before it.
    fn list(&mut self, directory: &Arc<Directory>) -> io::Result<()> {
        let mut files = Files::new(directory, self.copier.options.sorted);
        let mut below = Vec::new();
        let mut listing = Listing::default();
        let trees = self.copier.options.follow.then_some(&*self.trees);
        let result = loop {
            let entries = match listing.next(&directory.source, &mut self.buffer) {
                Ok(Some(entries)) if !self.copier.stopped() => entries,
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            };
            for entry in entries {
                if excludes(self.copier, directory, entry.name) {
                    continue;
                }
                let found = match look(trees, directory, &entry) {
                    Ok(found) => found,
                    Err(error) => {
                        let path = directory.raw_path_of(entry.name);
                        let report = self.copier.report;
                        report.fail_reading("cannot read", path, &error);
                        continue;
                    }
                };
                match found {
                    ResolvedName::Directory => below.push((entry.name.to_owned(), false)),
                    ResolvedName::LinkToDirectory => below.push((entry.name.to_owned(), true)),
                    ResolvedName::File(elsewhere) => {
                        let batch = files.add(entry.name.to_owned(), elsewhere);
                        batch.into_iter().for_each(&mut self.give);
                    }
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
            .extend(below.into_iter().rev().map(|(name, link)| Waiting {
                parent: Arc::clone(directory),
                name,
                new_name: None,
                link,
            }));
        result
    }
}

/// Directory and name of the target of a symbolic link, if links are followed.
type Elsewhere = Option<(Fd, CString)>;

/// The file behind a name in a directory.
enum ResolvedName {
    Directory,
    LinkToDirectory,
    File(Elsewhere),
}

/// The files of one directory, on their way to batches.
struct Files<'a> {
    directory: &'a Arc<Directory>,
    sorted: bool,
    names: Vec<(CString, Elsewhere)>,
}

impl<'a> Files<'a> {
    fn new(directory: &'a Arc<Directory>, sorted: bool) -> Self {
        Self {
            directory,
            sorted,
            names: Vec::new(),
        }
    }

    /// Adds a name. Returns a batch when it is full; sorting needs all names first.
    fn add(&mut self, name: CString, elsewhere: Elsewhere) -> Option<Batch> {
        self.names.push((name, elsewhere));
        (!self.sorted && self.names.len() >= BATCH).then(|| self.rest())
    }

    fn rest(&mut self) -> Batch {
        if self.sorted {
            self.names.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        let item = |(name, elsewhere)| Item {
            directory: Arc::clone(self.directory),
            name,
            new_name: None,
            elsewhere,
            follow: false,
            into_pipe: false,
        };
        self.names.drain(..).map(item).collect()
    }
}

/// The target of the symbolic link `name` in a directory.
fn follow_in(trees: &[&Tree], directory: &Directory, name: &CStr) -> io::Result<Followed> {
    let tree = trees.get(directory.tree);
    let tree = tree.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
    follow(tree, &directory.real, name)
}

/// The type of an entry of a directory; with trees, that of a link's target.
fn look(
    trees: Option<&[&Tree]>,
    directory: &Directory,
    entry: &outboard::RawEntry,
) -> io::Result<ResolvedName> {
    match (kind(&directory.source, entry), trees) {
        (libc::DT_DIR, _) => Ok(ResolvedName::Directory),
        (libc::DT_LNK, Some(trees)) => {
            let followed = follow_in(trees, directory, entry.name)?;
            Ok(match followed.stat.st_mode & libc::S_IFMT {
                libc::S_IFDIR => ResolvedName::LinkToDirectory,
                _ => ResolvedName::File(Some((followed.parent, followed.name))),
            })
        }
        _ => Ok(ResolvedName::File(None)),
    }
}

/// `DT_DIR`, `DT_LNK`, or anything else for other files.
fn kind(parent: &Fd, entry: &outboard::RawEntry) -> u8 {
    if entry.kind != libc::DT_UNKNOWN {
        return entry.kind;
    }
    match parent.stat_at(entry.name, libc::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) if stat.st_mode & libc::S_IFMT == libc::S_IFDIR => libc::DT_DIR,
        Ok(stat) if stat.st_mode & libc::S_IFMT == libc::S_IFLNK => libc::DT_LNK,
        _ => libc::DT_UNKNOWN,
    }
}

/// Creates or opens the copy of a directory. Returns whether it was created. Until it is finished,
/// no other user can access it.
fn make(parent: &Fd, name: &CStr, options: Options, stat: &libc::stat) -> io::Result<(Fd, bool)> {
    let mode = match options.keeps() {
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

/// Leaves a directory. The last thread to leave it finishes it, and then its parents in turn. After
/// a stop, too: directories that exist get their attributes. A loop, not recursion: trees may be
/// deep.
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
    let pair = Pair::Open {
        source: &directory.source,
        target: &directory.target,
    };
    if copier.options.keeps() {
        match directory.target.stat() {
            Ok(now) => attributes::keep(copier, &pair, stat, &now, directory),
            Err(_) => copier.report.lose(Loss::Owner, || directory.shown()),
        }
    } else if directory.created {
        let mode = stat.st_mode & 0o777 & !copier.options.umask;
        attributes::give_owner(copier, &pair, directory);
        if mode & 0o700 != 0o700 && directory.target.set_mode(mode).is_err() {
            copier.report.lose(Loss::Mode, || directory.shown());
        }
    }
}
