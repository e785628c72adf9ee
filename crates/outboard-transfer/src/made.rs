// SPDX-License-Identifier: GPL-2.0-only
//! The names that a command has made itself in a directory of its destination.
//!
//! Two names of a source can mean one file of the destination. Two sources may have the same name,
//! or the file system takes several names for one: FAT takes `a` for `A`, `a.` for `a`, and has
//! short names beside long ones. The second name must not overwrite what the first one has made.
//!
//! - A name is claimed before a file of that name is made.
//! - Files are made by calls that fail if there is such a file. So only a file that exists already
//!   needs a check: a new file costs no further call.
//! - In a directory that the command has made, each existing file is the command's own.
//! - In other directories, the names that were there before are known. A file of one of these names
//!   may be overwritten. A file that exists, but not by this name, is one of these files or the
//!   command's own: inodes tell which. The file is open while they are compared, as FAT numbers an
//!   inode anew each time it reads it.
//! - Where inodes do not tell which file a name means, the file is not overwritten.

use crate::walk::join;
use outboard::{Fd, ReadDir, System};
use outboard_error::format::escaped;
use outboard_error::{ErrorKind, Failure};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The source of a file, for messages.
#[derive(Clone, Debug)]
pub enum Origin {
    /// This is its path.
    Path(Arc<Vec<u8>>),
    /// It has its own name in this directory.
    Directory(Arc<Vec<u8>>),
}

impl Origin {
    fn path(&self, name: &CStr) -> Vec<u8> {
        match self {
            Self::Path(path) => path.to_vec(),
            Self::Directory(path) => join(path, name.to_bytes()),
        }
    }
}

/// The error that `source` has the same copy as `first`.
fn refusal(source: &str, first: &[u8]) -> io::Error {
    let first = escaped(first);
    // Without a name behind the colon: a reason that many failures have.
    let text = format!("{source} would overwrite {first}: this command has just written that file");
    Failure::new(ErrorKind::AlreadyExists, text).into()
}

/// A file: kernel, device and inode.
type FileKey = (System, u64, u64);

/// Existing files with several names whose contents the command has overwritten: device and inode
/// of each, and the source of its contents.
#[derive(Default)]
pub struct OverwrittenLinks(Mutex<HashMap<(u64, u64), FileKey>>);

impl OverwrittenLinks {
    /// Whether the file `old` has got the contents of another source by another of its names. If
    /// not, it is about to get those of `source`.
    pub fn has_other(&self, old: &libc::stat, source: FileKey) -> bool {
        if old.st_nlink < 2 {
            return false;
        }
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = written.entry((old.st_dev, old.st_ino));
        *first.or_insert_with(|| source.clone()) != source
    }
}

/// The file that has claimed a name.
struct Claimed {
    origin: Origin,
    /// A directory, to which several sources may add.
    inside: Option<Arc<MadeNames>>,
}

#[derive(Default)]
struct State {
    claimed: HashMap<CString, Claimed>,
    /// The names that were there before, but those of files that another name has overwritten.
    before: HashSet<CString>,
    /// All of them without case, once a name is looked up by its file.
    folded: Option<HashMap<String, Vec<CString>>>,
}

fn fold(name: &CStr) -> String {
    String::from_utf8_lossy(name.to_bytes()).to_lowercase()
}

fn add_folded(folded: &mut HashMap<String, Vec<CString>>, name: &CString) {
    let alike = folded.entry(fold(name)).or_default();
    if !alike.contains(name) {
        alike.push(name.clone());
    }
}

/// An earlier name of a file.
enum EarlierName {
    /// The path of the source that has made the file.
    Claimed(Vec<u8>),
    Before(CString),
}

impl State {
    /// Names that differ from `name` in case at most.
    fn alike(&mut self, name: &CStr) -> Vec<CString> {
        let folded = self.folded.get_or_insert_with(|| {
            let mut folded = HashMap::new();
            let names = self.before.iter().chain(self.claimed.keys());
            names.for_each(|name| add_folded(&mut folded, name));
            folded
        });
        folded.get(&fold(name)).cloned().unwrap_or_default()
    }

    /// The earlier name for which `is_it` holds. A call of `is_it` is slow: names that differ from
    /// `name` in case are tried first.
    fn find(&mut self, name: &CStr, is_it: impl Fn(&CString) -> bool) -> Option<EarlierName> {
        let alike = self.alike(name);
        let alike: Vec<&CString> = alike.iter().filter(|name| is_it(name)).collect();
        let claimed = |name: &CString| {
            let claimed = self.claimed.get(name)?;
            Some(EarlierName::Claimed(claimed.origin.path(name)))
        };
        let before = |name: &CString| {
            let name = self.before.get(name)?;
            Some(EarlierName::Before(name.clone()))
        };
        let first = || alike.iter().find_map(|name| claimed(name));
        let second = || alike.iter().find_map(|name| before(name));
        let third = || claimed(self.claimed.keys().find(|name| is_it(name))?);
        let fourth = || before(self.before.iter().find(|name| is_it(name))?);
        first().or_else(second).or_else(third).or_else(fourth)
    }
}

/// How the command has met a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It has made the directory.
    New,
    Listed,
    /// It makes one name there only.
    OneName,
}

/// The names that a command has made in one directory.
pub struct MadeNames {
    kind: Kind,
    /// Several sources may add to one directory below this one, so its names are kept.
    keeps: bool,
    state: Mutex<State>,
}

impl MadeNames {
    fn with(kind: Kind, keeps: bool, before: HashSet<CString>) -> Arc<Self> {
        let state = State {
            before,
            ..State::default()
        };
        Arc::new(Self {
            kind,
            keeps,
            state: Mutex::new(state),
        })
    }

    /// The names in a directory where a command makes one name only.
    pub fn of_one_name() -> Arc<Self> {
        Self::with(Kind::OneName, false, HashSet::new())
    }

    /// The names in a directory that existed before. `keeps`: several sources may add to one
    /// directory below it.
    pub fn of_existing(directory: &Fd, keeps: bool) -> io::Result<Arc<Self>> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let mut before = HashSet::new();
        for entry in ReadDir::new(directory.open_at(c".", flags, 0)?) {
            before.insert(CString::new(entry?.file_name().as_bytes())?);
        }
        Ok(Self::with(Kind::Listed, keeps, before))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims a name for a file from `origin`. The name is free again if the claim is dropped
    /// without [`Claim::keep`].
    pub fn claim<'a>(&'a self, name: &'a CStr, origin: Origin) -> Claim<'a> {
        let mut state = self.lock();
        let earlier = state.claimed.get(name);
        let first = earlier.map(|earlier| earlier.origin.path(name));
        let inside = earlier.and_then(|earlier| earlier.inside.clone());
        if first.is_none() {
            let claimed = Claimed {
                origin: origin.clone(),
                inside: None,
            };
            state.claimed.insert(name.to_owned(), claimed);
            if let Some(folded) = &mut state.folded {
                add_folded(folded, &name.to_owned());
            }
        }
        Claim {
            names: self,
            name,
            origin,
            first,
            inside,
            taken: RefCell::new(None),
            kept: Cell::new(false),
        }
    }
}

/// A name that a file is about to get.
pub struct Claim<'a> {
    names: &'a MadeNames,
    name: &'a CStr,
    origin: Origin,
    /// The source that has claimed the same name before.
    first: Option<Vec<u8>>,
    /// The names in the directory that this source has made.
    inside: Option<Arc<MadeNames>>,
    /// The name of the file that existed before and is overwritten under this name.
    taken: RefCell<Option<CString>>,
    kept: Cell<bool>,
}

impl Claim<'_> {
    /// Fails if another source has claimed the same name.
    pub fn check_first(&self) -> io::Result<()> {
        match &self.first {
            Some(first) => Err(self.refuse(first)),
            None => Ok(()),
        }
    }

    /// Checks that another name has not made the file that has this name. A file that the same name
    /// has made passes: see [`Claim::check_first`].
    pub fn check_existing(&self, directory: &Fd) -> io::Result<()> {
        if self.first.is_some() || self.taken.borrow().is_some() {
            return Ok(());
        }
        let mut state = self.names.lock();
        if self.names.kind == Kind::OneName || state.before.contains(self.name) {
            return Ok(());
        }
        let held = directory.open_at(self.name, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
        let stat = held.stat()?;
        let is_it = |name: &CString| {
            let found = directory.stat_at(name, libc::AT_SYMLINK_NOFOLLOW);
            found.is_ok_and(|found| (found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino))
        };
        let other = |name: &CString| name.as_c_str() != self.name && is_it(name);
        match state.find(self.name, other) {
            Some(EarlierName::Claimed(first)) => Err(self.refuse(&first)),
            Some(EarlierName::Before(old)) => {
                state.before.remove(&old);
                *self.taken.borrow_mut() = Some(old);
                Ok(())
            }
            None => {
                let text = format!(
                    "{} would overwrite another file: it was not there when this command began",
                    self.source()
                );
                Err(Failure::new(ErrorKind::AlreadyExists, text).into())
            }
        }
    }

    fn source(&self) -> String {
        escaped(&self.origin.path(self.name))
    }

    fn refuse(&self, first: &[u8]) -> io::Error {
        refusal(&self.source(), first)
    }

    /// The name.
    pub fn name(&self) -> &CStr {
        self.name
    }

    /// The names in the directory that an earlier source has made under this name.
    pub fn known(&self) -> Option<Arc<MadeNames>> {
        self.inside.clone()
    }

    /// Keeps the name for a file.
    pub fn keep(&self) {
        self.keep_as(None);
    }

    /// Keeps the name for a directory, which is open. `created`: the command has made it. Returns
    /// the names in it.
    pub fn keep_directory(&self, directory: &Fd, created: bool) -> io::Result<Arc<MadeNames>> {
        let keeps = self.names.keeps;
        let inside = if created {
            MadeNames::with(Kind::New, keeps, HashSet::new())
        } else {
            MadeNames::of_existing(directory, keeps)?
        };
        self.keep_as(keeps.then(|| Arc::clone(&inside)));
        Ok(inside)
    }

    /// Keeps the name for a directory that several names lead to. `inside`: the names in it.
    pub fn keep_known_directory(&self, inside: Arc<MadeNames>) {
        self.keep_as(Some(inside));
    }

    fn keep_as(&self, inside: Option<Arc<MadeNames>>) {
        self.kept.set(true);
        if let Some(claimed) = self.names.lock().claimed.get_mut(self.name) {
            claimed.inside = inside;
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.kept.get() || self.first.is_some() {
            return;
        }
        let mut state = self.names.lock();
        state.claimed.remove(self.name);
        state.before.extend(self.taken.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::HostTree;
    use std::fs;
    use std::path::Path;

    fn open(path: &Path) -> Fd {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        HostTree.open_fd(path, flags, 0).unwrap()
    }

    fn origin(path: &str) -> Origin {
        Origin::Path(Arc::new(path.as_bytes().to_vec()))
    }

    #[test]
    fn a_name_is_claimed_once() {
        let made = MadeNames::of_one_name();
        drop(made.claim(c"a", origin("p/a")));
        let first = made.claim(c"a", origin("q/a"));
        assert!(first.check_first().is_ok());
        first.keep();
        drop(first);
        let error = made.claim(c"a", origin("r/a")).check_first().unwrap_err();
        assert_eq!(ErrorKind::of(&error), ErrorKind::AlreadyExists);
        let text = error.to_string();
        assert!(text.contains("r/a would overwrite q/a"), "{text}");
    }

    /// Hard links stand for the names that a file system takes for one.
    #[test]
    fn another_name_of_a_made_file_is_found() {
        let work = tempfile::tempdir().unwrap();
        let path = |name: &str| work.path().join(name);
        for name in ["old", "other"] {
            fs::write(path(name), name).unwrap();
        }
        let directory = open(work.path());
        let made = MadeNames::of_existing(&directory, false).unwrap();
        fs::hard_link(path("old"), path("OLD")).unwrap();
        // The file that was there, by another name than its own: as long as that claim lives.
        let taken = made.claim(c"OLD", origin("OLD"));
        for _ in 0..2 {
            assert!(taken.check_existing(&directory).is_ok());
        }
        let claim = |name: &'static CStr| {
            let claim = made.claim(name, origin("second"));
            claim.check_existing(&directory)
        };
        assert!(claim(c"old").is_err());
        drop(taken);
        assert!(claim(c"old").is_ok() && claim(c"other").is_ok());
        // A file that the command has made.
        fs::write(path("new"), b"").unwrap();
        let new = made.claim(c"new", origin("new"));
        fs::hard_link(path("new"), path("NEW")).unwrap();
        let text = claim(c"NEW").unwrap_err().to_string();
        assert!(text.contains("second would overwrite new"), "{text}");
        drop(new);
        // Neither: nobody knows which file it is.
        assert!(claim(c"NEW").is_err());
    }

    #[test]
    fn all_in_a_new_directory_is_made_by_the_command() {
        let work = tempfile::tempdir().unwrap();
        fs::create_dir(work.path().join("d")).unwrap();
        fs::write(work.path().join("d/a"), b"").unwrap();
        let (above, below) = (open(work.path()), open(&work.path().join("d")));
        let made = MadeNames::of_existing(&above, true).unwrap();
        let claim = made.claim(c"d", origin("p/d"));
        let inside = claim.keep_directory(&below, true).unwrap();
        assert!(inside
            .claim(c"a", origin("p/d/a"))
            .check_existing(&below)
            .is_err());
        drop(claim);
        // Another source merges its directory into this one.
        let known = made.claim(c"d", origin("q/d")).known().unwrap();
        assert!(Arc::ptr_eq(&known, &inside));
    }

    #[test]
    fn links_get_the_contents_of_one_source() {
        let work = tempfile::tempdir().unwrap();
        fs::write(work.path().join("a"), b"").unwrap();
        fs::hard_link(work.path().join("a"), work.path().join("b")).unwrap();
        let old = open(work.path()).stat_at(c"a", 0).unwrap();
        let overwritten = OverwrittenLinks::default();
        let has_other = |inode| overwritten.has_other(&old, (System::Host, 1, inode));
        assert_eq!([1, 1, 2, 1].map(has_other), [false, false, true, false]);
    }

    #[test]
    fn names_that_differ_in_case_are_tried_first() {
        let name = |index: usize| CString::new(format!("n{index}")).unwrap();
        let mut state = State {
            before: (0..1000).map(name).collect(),
            ..State::default()
        };
        let tried = Cell::new(0);
        for index in 0..1000 {
            let found = state.find(&CString::new(format!("N{index}")).unwrap(), |tested| {
                tried.set(tried.get() + 1);
                *tested == name(index)
            });
            assert!(matches!(found, Some(EarlierName::Before(old)) if old == name(index)));
        }
        assert_eq!(tried.get(), 1000);
        // Other names are found nevertheless.
        assert!(state.find(c"other", |tested| *tested == name(7)).is_some());
    }
}
