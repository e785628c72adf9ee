// SPDX-License-Identifier: GPL-2.0-only
//! The walk through the sources of a copy.
//!
//! One thread walks ([`outboard::walk`]) and makes the copies of directories. It takes the files
//! out of the names of each directory, and hands them to the copiers in batches. The walk itself
//! goes on only to directories, and to links that lead to directories, if links are followed.

use super::copier::Copier;
use super::copy::Worker;
use super::directory::{release, CopiedDirectory};
use super::following::{check_end, follow, with_hint, Followed};
use super::item::Item;
use super::links::Key;
use super::options::Options;
use super::queue::Queue;
use crate::hidden::check_key;
use outboard::walk::{DirectoryNames, Entry, OpenDirectory, Start, Step, Walk};
use outboard::{Fd, Limits, Tree};
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Names that are handed over at once: all of the same directory.
const BATCH: usize = 16;
/// Batches that may wait.
const WAITING: usize = 256;

/// A directory that is to be copied.
struct SourceDirectory<'a> {
    tree: &'a Tree,
    /// The directory that holds it.
    top: CopiedDirectory,
    name: CString,
    /// The name of the copy; `None`: its contents go into the target itself.
    new_name: Option<CString>,
}

/// The files in a directory that one copier takes.
type Batch = Vec<Item>;

/// The kinds of file systems (statfs) where a long name may have a short one besides: FAT, NTFS,
/// and what may show such a file system of another host or process (SMB, 9p, FUSE, NFS).
const WITH_SHORT_NAMES: [i64; 7] = [
    0x4d44,
    0x7366_746e,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x6573_5546,
    0x6969,
];

/// Sources that are copied at the same time.
struct Round<'a> {
    names: RoundNames,
    directories: Vec<SourceDirectory<'a>>,
    files: Vec<Item>,
}

/// The names of the copies of sources.
pub struct RoundNames {
    /// Whether the file system of the copies may have short names.
    short_names: bool,
    /// Without case, and without dots and blanks at the end.
    names: HashSet<String>,
    /// There is one that may meet each other: contents of a directory, or a short name of FAT.
    meets_all: bool,
}

impl RoundNames {
    /// No names yet, of copies in this directory.
    pub fn new(directory: &Fd) -> Self {
        let kind = directory.statfs().map(|found| found.kind);
        Self::with(kind.map_or(true, |kind| WITH_SHORT_NAMES.contains(&kind)))
    }

    fn with(short_names: bool) -> Self {
        Self {
            short_names,
            names: HashSet::new(),
            meets_all: false,
        }
    }

    /// Adds a name; `None`: the contents of a directory. Returns whether this copy may meet an
    /// earlier one in one file. A guess: file systems may also take other names for one.
    pub fn may_meet(&mut self, name: Option<&CStr>) -> bool {
        let name = name.map(|name| String::from_utf8_lossy(name.to_bytes()));
        let name = name.as_ref().map(|name| name.trim_end_matches(['.', ' ']));
        let is_short = |name: &str| self.short_names && is_short(name);
        let Some(name) = name.filter(|name| !is_short(name)) else {
            let meets = self.meets_all || !self.names.is_empty();
            self.meets_all = true;
            return meets;
        };
        !self.names.insert(name.to_lowercase()) || self.meets_all
    }
}

/// Whether a name looks like the short name that FAT gives to a file with a long one, as in
/// `LONGNA~1.TXT`.
fn is_short(name: &str) -> bool {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let start = stem.trim_end_matches(|character: char| character.is_ascii_digit());
    let has_number = start.len() < stem.len() && start.ends_with('~');
    let fits = stem.chars().count() <= 8 && extension.chars().count() <= 3;
    has_number && fits && !extension.contains('.')
}

/// The sources of a copy. Those that may meet are copied one after the other, so that the first
/// one keeps the name.
pub struct Sources<'a> {
    copier: &'a Copier<'a>,
    /// Whether the file system of the copies may have short names.
    short_names: bool,
    rounds: Vec<Round<'a>>,
    /// The files among them, and the names of their copies.
    known: HashSet<(Key, Option<CString>)>,
}

impl<'a> Sources<'a> {
    pub fn new(copier: &'a Copier<'a>) -> Self {
        let first = Round::of(RoundNames::new(&copier.base));
        Self {
            copier,
            short_names: first.names.short_names,
            rounds: vec![first],
            known: HashSet::new(),
        }
    }

    /// The round in which a source of this name is copied.
    fn round(&mut self, name: Option<&CStr>) -> &mut Round<'a> {
        let last = self.rounds.last_mut();
        if last.is_none_or(|round| round.names.may_meet(name)) {
            let mut round = Round::of(RoundNames::with(self.short_names));
            round.names.may_meet(name);
            self.rounds.push(round);
        }
        self.rounds.last_mut().expect("one was added")
    }

    pub fn options(&self) -> Options {
        self.copier.options
    }

    pub fn excludes(&self, directory: &CopiedDirectory, name: &CStr) -> bool {
        directory.excludes(self.copier, name)
    }

    /// Whether no earlier source is the same file with the same name of the copy.
    pub fn is_new(&mut self, key: Key, new_name: Option<&CStr>) -> bool {
        self.known.insert((key, new_name.map(CStr::to_owned)))
    }

    /// Adds a directory in `top`. Without a new name its contents go into the target itself.
    pub fn add_directory(
        &mut self,
        tree: &'a Tree,
        top: CopiedDirectory,
        name: CString,
        new_name: Option<CString>,
    ) {
        self.round(new_name.as_deref())
            .directories
            .push(SourceDirectory {
                tree,
                top,
                name,
                new_name,
            });
    }

    pub fn add_file(&mut self, item: Item) {
        self.round(Some(item.new_name())).files.push(item);
    }

    /// Copies everything that was added. Threads: one that walks and `copiers` others.
    pub fn copy(self, copiers: u32) {
        for round in self.rounds {
            round.copy(self.copier, copiers);
        }
    }
}

impl Round<'_> {
    fn of(names: RoundNames) -> Self {
        Self {
            names,
            directories: Vec::new(),
            files: Vec::new(),
        }
    }

    fn copy(self, copier: &Copier, copiers: u32) {
        if copier.options.sorted {
            let mut worker = Worker::new(copier);
            return self.walk(copier, &mut |batch| copy_batch(copier, &mut worker, batch));
        }
        let queue: Queue<Batch> = Queue::new(WAITING);
        std::thread::scope(|scope| {
            for _ in 0..copiers.max(1) {
                let limits = Limits::current();
                let queue = &queue;
                scope.spawn(move || {
                    let _limits = limits.enter();
                    let _breaking = queue.breaking();
                    let mut worker = Worker::new(copier);
                    while let Some(batch) = queue.take() {
                        copy_batch(copier, &mut worker, batch);
                    }
                });
            }
            let _closing = queue.closing();
            self.walk(copier, &mut |batch| {
                if !queue.give(batch) {
                    copier.report.give_up();
                }
            });
        });
    }

    /// Creates the directories and hands the files to the copiers.
    fn walk(self, copier: &Copier, give: &mut dyn FnMut(Batch)) {
        for item in self.files {
            give(vec![item]);
        }
        for source in self.directories {
            SourceWalk {
                copier,
                tree: source.tree,
                give,
                levels: vec![Arc::new(source.top)],
                new_name: source.new_name.unwrap_or_else(|| c".".to_owned()),
                real: PathBuf::new(),
            }
            .run(source.name);
        }
    }
}

fn copy_batch(copier: &Copier, worker: &mut Worker, batch: Batch) {
    for item in batch {
        worker.copy(&item);
        release(copier, item.directory);
    }
}

/// The walk through one source.
struct SourceWalk<'a, 'g> {
    copier: &'a Copier<'a>,
    tree: &'a Tree,
    /// Takes files that are to be copied.
    give: &'g mut dyn FnMut(Batch),
    /// The directories on the way: at each depth, the one that holds the entry there. The first is
    /// the one above the source.
    levels: Vec<Arc<CopiedDirectory>>,
    /// The name of the source's copy.
    new_name: CString,
    /// The path in the tree of the directory that was found last, if links are followed.
    real: PathBuf,
}

impl SourceWalk<'_, '_> {
    fn run(mut self, name: CString) {
        let copier = self.copier;
        let top = &self.levels[0];
        let path = top.raw_path_of(&name);
        let start = Start {
            directory: Arc::clone(&top.source),
            name,
            kind: libc::S_IFDIR,
        };
        let mut walk = Walk::new(start, path, copier.interrupt.clone());
        if copier.options.follow {
            walk = walk.following_links();
        }
        while let Some(step) = walk.next() {
            if copier.stopped() {
                break;
            }
            match step {
                Step::Found(entry) => match self.find(&entry) {
                    Ok(None) => {}
                    Ok(Some(followed)) => walk.enter_other(followed.parent, followed.name),
                    Err(error) => self.refuse(&entry, &error),
                },
                Step::Opened(opened) => self.open(opened),
                Step::Failed(entry, error) => self.fail(&entry, error),
                Step::Left(entry) => self.leave(entry.depth + 1),
            }
        }
        self.leave(0);
    }

    /// Leaves the directories below this depth.
    fn leave(&mut self, depth: usize) {
        while self.levels.len() > depth {
            if let Some(directory) = self.levels.pop() {
                release(self.copier, directory);
            }
        }
    }

    /// Prepares to enter a directory. Returns the target of a link that leads to it.
    fn find(&mut self, entry: &Entry) -> io::Result<Option<Followed>> {
        if !self.copier.options.follow {
            return Ok(None);
        }
        let parent = &self.levels[entry.depth];
        if entry.kind != libc::S_IFLNK {
            self.real = match entry.name.to_bytes() {
                b"." => parent.real.clone(),
                name => parent.real.join(OsStr::from_bytes(name)),
            };
            return Ok(None);
        }
        let followed = follow(self.tree, &parent.real, entry.name)?;
        check_end(&followed, parent, &self.copier.base)?;
        self.real.clone_from(&followed.path);
        Ok(Some(followed))
    }

    /// Makes the copy of a directory and handles its files; the directories among its names stay.
    fn open(&mut self, opened: OpenDirectory) {
        let OpenDirectory {
            entry,
            directory,
            stat,
            names,
        } = opened;
        let copier = self.copier;
        let parent = &self.levels[entry.depth];
        let new_name = self.new_name(&entry);
        let source = Arc::clone(directory);
        let made =
            CopiedDirectory::make_copy(parent, entry.name, new_name, source, stat, copier.options);
        match made {
            Ok(mut copy) => {
                copy.real = std::mem::take(&mut self.real);
                copy.print_names(copier);
                let copy = Arc::new(copy);
                if let Some(error) = encrypted(&copy.source, names) {
                    let path = copy.raw_path();
                    copier.report.fail_reading("cannot list", path, &error);
                    names.clear();
                }
                self.take_files(&copy, names);
                self.levels.push(copy);
            }
            Err(error) => {
                let path = copier.operand_of(&parent.path_of(new_name));
                copier.fail_writing("cannot make directory", path, &error);
                names.clear();
            }
        }
    }

    fn new_name<'e>(&'e self, entry: &Entry<'e>) -> &'e CStr {
        match entry.depth {
            0 => &self.new_name,
            _ => entry.name,
        }
    }

    /// Hands over the files of a directory, and drops their names.
    fn take_files(&mut self, directory: &Arc<CopiedDirectory>, names: &mut DirectoryNames) {
        let copier = self.copier;
        if copier.options.sorted {
            names.sort();
        }
        let links_of = copier.options.follow.then_some(self.tree);
        let mut batch = Vec::new();
        names.retain(|name, kind| {
            if copier.stopped() || directory.excludes(copier, name) {
                return false;
            }
            match look(links_of, directory, name, kind) {
                Ok(ResolvedName::Directory) => return true,
                Ok(ResolvedName::File(elsewhere)) => {
                    batch.push(Item::below(directory, name, elsewhere));
                    if batch.len() >= BATCH {
                        (self.give)(std::mem::take(&mut batch));
                    }
                }
                Err(error) => {
                    let path = directory.raw_path_of(name);
                    copier.report.fail_reading("cannot read", path, &error);
                }
            }
            false
        });
        if !batch.is_empty() {
            (self.give)(batch);
        }
    }

    /// Reports a directory that could not be opened or listed to its end.
    fn fail(&mut self, entry: &Entry, error: io::Error) {
        if self.levels.len() > entry.depth + 1 {
            let path = entry.path.to_vec();
            let report = self.copier.report;
            return report.fail_reading("cannot list", path, &error);
        }
        if entry.kind == libc::S_IFLNK {
            return self.refuse(entry, &with_hint(entry.directory.system(), error));
        }
        if error.raw_os_error() != Some(libc::ENOTDIR) {
            return self.refuse(entry, &error);
        }
        // It is no directory any more, or the listing was wrong: copy it nevertheless.
        let mut item = Item::below(&self.levels[entry.depth], entry.name, None);
        item.new_name = Some(self.new_name(entry).to_owned());
        (self.give)(vec![item]);
    }

    fn refuse(&self, entry: &Entry, why: &io::Error) {
        let path = entry.path.to_vec();
        self.copier.report.fail_reading("cannot open", path, why);
    }
}

/// The error of a directory whose names are encrypted.
fn encrypted(directory: &Fd, names: &DirectoryNames) -> Option<io::Error> {
    if names.is_empty() {
        None
    } else {
        check_key(directory, c"").err()
    }
}

/// Directory and name of the target of a symbolic link, if links are followed.
type Elsewhere = Option<(Fd, CString)>;

/// The file behind a name in a directory.
enum ResolvedName {
    /// A directory, or a link to one.
    Directory,
    File(Elsewhere),
}

/// The meaning of a name in a directory. `links_of`: the tree whose links are followed.
fn look(
    links_of: Option<&Tree>,
    directory: &CopiedDirectory,
    name: &CStr,
    kind: u32,
) -> io::Result<ResolvedName> {
    match (kind, links_of) {
        (libc::S_IFDIR, _) => Ok(ResolvedName::Directory),
        (libc::S_IFLNK, Some(tree)) => {
            let followed = follow(tree, &directory.real, name)?;
            Ok(match followed.stat.st_mode & libc::S_IFMT {
                libc::S_IFDIR => ResolvedName::Directory,
                _ => ResolvedName::File(Some((followed.parent, followed.name))),
            })
        }
        _ => Ok(ResolvedName::File(None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_short_names() {
        for name in ["LONGNA~1.TXT", "a~12", "~1.c", "a~1."] {
            assert!(is_short(name), "{name}");
        }
        for name in [
            "f1.c~",
            "a~",
            "~",
            "1",
            "a~1b",
            "a.b~1",
            "longname~1",
            "a~1.html",
            "a~1.b.c",
        ] {
            assert!(!is_short(name), "{name}");
        }
    }

    #[test]
    fn sources_that_may_meet() {
        let meetings = |short_names| {
            let mut names = RoundNames::with(short_names);
            [
                Some(c"a~"),
                Some(c"b.c~"),
                Some(c"A~."),
                Some(c"longname.txt"),
                Some(c"LONGNA~1.TXT"),
                Some(c"d"),
                None,
                Some(c"e"),
            ]
            .map(|name| names.may_meet(name))
        };
        let everywhere = [false, false, true, false, false, false, true, true];
        assert_eq!(meetings(false), everywhere);
        let on_fat = [false, false, true, false, true, true, true, true];
        assert_eq!(meetings(true), on_fat);
    }
}
