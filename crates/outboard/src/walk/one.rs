// SPDX-License-Identifier: GPL-2.0-only
//! The walk through one tree.

use super::names::DirectoryNames;
use super::stop::Stop;
use crate::invalid::invalid_data;
use crate::Fd;
use outboard_sys::libc;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// For calls that take a directory and a name: a symbolic link is itself, and an empty name is the
/// directory itself.
pub const ITSELF: i32 = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;

/// Bytes of directory entries that are read at once.
const LISTING: usize = 64 * 1024;

/// A file on the way.
pub struct Entry<'a> {
    /// As the user would write it.
    pub path: &'a [u8],
    pub directory: &'a Arc<Fd>,
    /// In `directory`; empty for that itself.
    pub name: &'a CStr,
    /// `S_IF*`, as the directory has it; 0 if that is not known.
    pub kind: u32,
    /// 0 where the walk began.
    pub depth: usize,
    /// Whether it is the last one in its directory.
    pub last: bool,
}

impl Entry<'_> {
    /// The file's attributes, of a symbolic link its own.
    pub fn stat(&self) -> io::Result<libc::stat> {
        self.directory.stat_at(self.name, ITSELF)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == libc::S_IFDIR
    }
}

/// A directory that the walk has opened and listed.
pub struct OpenDirectory<'a> {
    /// The directory as it was found.
    pub entry: Entry<'a>,
    /// The directory, open for reading.
    pub directory: &'a Arc<Fd>,
    pub stat: &'a libc::stat,
    /// The names that the walk will go through, in the order of the file system.
    pub names: &'a mut DirectoryNames,
}

/// The start of a walk: a file by its directory and name, or what `directory` is open on, if the
/// name is empty.
pub struct Start {
    pub directory: Arc<Fd>,
    pub name: CString,
    /// `S_IF*`.
    pub kind: u32,
}

/// A step of a walk. The table at the head of this file tells when each comes.
pub enum Step<'a> {
    Found(Entry<'a>),
    Opened(OpenDirectory<'a>),
    Failed(Entry<'a>, io::Error),
    Left(Entry<'a>),
}

/// The action before the next name.
pub(super) enum Next {
    Nothing,
    /// Enter the directory that was found.
    Enter,
    /// Enter this name in this directory in place of what was found.
    EnterOther(Fd, CString),
    /// Report the error that ended the listing of the directory that was opened.
    Report(io::Error),
    /// Leave the directory that could not be entered.
    Leave,
}

/// A walk that is under way.
pub struct Walk {
    stop: Box<dyn Stop + Send>,
    pub(super) path: Vec<u8>,
    /// The directories on the way. The first holds where the walk began.
    levels: Vec<Level>,
    pub(super) next: Next,
    /// Device and inode of the directories that were met. In a broken image one may have several
    /// names, and so many that a walk through all of them would never end.
    entered: HashSet<(u64, u64)>,
    follows_links: bool,
    buffer: Vec<u8>,
}

struct Level {
    directory: Arc<Fd>,
    /// `None`: it only holds where the walk began.
    stat: Option<libc::stat>,
    /// Length of its path.
    path: usize,
    names: DirectoryNames,
}

/// Appends a name to a path.
pub fn append(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

impl Walk {
    /// `path`: of where it begins, as the user wrote it. If it is empty, paths are relative.
    pub fn new(start: impl Into<Start>, path: Vec<u8>, stop: impl Stop + Send + 'static) -> Self {
        let start = start.into();
        let mut names = DirectoryNames::default();
        names.push(&start.name, start.kind);
        Self {
            stop: Box::new(stop),
            path,
            levels: vec![Level {
                directory: start.directory,
                stat: None,
                path: 0,
                names,
            }],
            next: Next::Nothing,
            entered: HashSet::new(),
            follows_links: false,
            buffer: vec![0; LISTING],
        }
    }

    /// Enters a directory each time that it is met, except inside of itself: the caller follows
    /// symbolic links. Without this, the first way to a directory counts.
    pub fn following_links(mut self) -> Self {
        self.follows_links = true;
        self
    }

    /// Does not go into the directory that was found last.
    pub fn skip(&mut self) {
        self.next = Next::Nothing;
    }

    /// Goes into the directory `name` in `directory` in place of what was found last, as if it were
    /// there.
    pub fn enter_other(&mut self, directory: Fd, name: CString) {
        self.next = Next::EnterOther(directory, name);
    }

    /// The next step. `None` at the end, or when it is to stop.
    // No Iterator: a step borrows the walk.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Step<'_>> {
        if self.stop.asked() {
            return None;
        }
        let depth = self.levels.len() - 1;
        let result = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Nothing => return self.advance(),
            Next::Leave => return self.here().map(Step::Left),
            Next::Report(error) => return Some(Step::Failed(self.entry(depth - 1)?, error)),
            Next::Enter => self.enter(None),
            Next::EnterOther(directory, name) => self.enter(Some((directory, name))),
        };
        match result {
            Err(error) if self.levels.len() - 1 == depth => Some(Step::Failed(self.here()?, error)),
            Err(error) => {
                self.next = Next::Report(error);
                self.opened()
            }
            Ok(()) => self.opened(),
        }
    }

    /// Goes on to the next name, or leaves the directory that has no more.
    fn advance(&mut self) -> Option<Step<'_>> {
        let depth = self.levels.len() - 1;
        let level = self.levels.last_mut()?;
        if level.names.advance() {
            if depth > 0 {
                self.path.truncate(level.path);
                append(&mut self.path, level.names.name().to_bytes());
            }
            if level.names.kind() == libc::S_IFDIR {
                self.next = Next::Enter;
            }
            return self.here().map(Step::Found);
        }
        if depth == 0 {
            return None;
        }
        self.path.truncate(level.path);
        self.levels.pop();
        self.here().map(Step::Left)
    }

    /// The file that the walk is at.
    pub(super) fn here(&self) -> Option<Entry<'_>> {
        self.entry(self.levels.len() - 1)
    }

    /// The file that the walk is at in one of the directories on the way; its path is the present
    /// one.
    fn entry(&self, depth: usize) -> Option<Entry<'_>> {
        let level = self.levels.get(depth)?;
        Some(level.entry(&self.path, depth))
    }

    /// The directory that was entered last.
    fn opened(&mut self) -> Option<Step<'_>> {
        let (level, above) = self.levels.split_last_mut()?;
        let depth = above.len().checked_sub(1)?;
        Some(Step::Opened(OpenDirectory {
            entry: above[depth].entry(&self.path, depth),
            directory: &level.directory,
            stat: level.stat.as_ref()?,
            names: &mut level.names,
        }))
    }

    /// The names of the directory that was entered last; `None` if it could not be opened.
    pub(super) fn entered_names(&mut self) -> Option<&mut DirectoryNames> {
        match self.next {
            Next::Leave => None,
            _ => self.levels.last_mut().map(|level| &mut level.names),
        }
    }

    /// Opens and lists the directory that was found, or another one. After an error of listing, the
    /// walk goes through what was listed before it.
    pub(super) fn enter(&mut self, other: Option<(Fd, CString)>) -> io::Result<()> {
        self.next = Next::Leave;
        let (directory, stat) = self.open(other)?;
        self.next = Next::Nothing;
        let mut names = DirectoryNames::default();
        let result = names.read(&directory, &mut self.buffer, &*self.stop);
        self.levels.push(Level {
            directory: Arc::new(directory),
            stat: Some(stat),
            path: self.path.len(),
            names,
        });
        result
    }

    fn open(&mut self, other: Option<(Fd, CString)>) -> io::Result<(Fd, libc::stat)> {
        let level = self.levels.last().expect("a directory was found in it");
        let (parent, name) = match &other {
            Some((parent, name)) => (parent, name.as_c_str()),
            None => (&*level.directory, level.names.name()),
        };
        let name = if name.is_empty() { c"." } else { name };
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = parent.open_at(name, flags, 0)?;
        let stat = directory.stat()?;
        if self.follows_links {
            if self.levels.iter().any(|level| level.is(&stat)) {
                let text = "links lead to it from below: there would be no end";
                return Err(invalid_data(text));
            }
        } else if !self.entered.insert((stat.st_dev, stat.st_ino)) {
            return Err(invalid_data("the directory has two names"));
        }
        Ok((directory, stat))
    }
}

impl Level {
    /// The file that the walk is at in this directory.
    fn entry<'a>(&'a self, path: &'a [u8], depth: usize) -> Entry<'a> {
        Entry {
            path,
            directory: &self.directory,
            name: self.names.name(),
            kind: self.names.kind(),
            depth,
            last: self.names.at_last(),
        }
    }

    fn is(&self, other: &libc::stat) -> bool {
        let is = |stat: &libc::stat| (stat.st_dev, stat.st_ino) == (other.st_dev, other.st_ino);
        self.stat.as_ref().is_some_and(is)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::HostTree;
    use std::path::{Path, PathBuf};

    pub(in crate::walk) fn start(root: &Path) -> Start {
        let (directory, name) = HostTree.open_parent(root).unwrap();
        Start {
            directory: Arc::new(directory),
            name,
            kind: libc::S_IFDIR,
        }
    }

    pub(in crate::walk) fn scratch(name: &str) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("outboard-walk-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir(&root).unwrap();
        root
    }

    /// The steps of a walk. `arrange`: what to do with the names of each directory.
    fn steps(mut walk: Walk, arrange: impl Fn(&mut DirectoryNames)) -> Vec<String> {
        let mut steps = Vec::new();
        let shown = |entry: &Entry| String::from_utf8(entry.path.to_vec()).unwrap();
        while let Some(step) = walk.next() {
            steps.push(match step {
                Step::Found(entry) => format!("+{}", shown(&entry)),
                Step::Opened(opened) => {
                    arrange(opened.names);
                    assert!(opened.entry.is_directory() && opened.stat.st_nlink > 0);
                    format!("({}", shown(&opened.entry))
                }
                Step::Left(entry) => format!("-{}", shown(&entry)),
                Step::Failed(entry, _) => format!("!{}", shown(&entry)),
            });
        }
        steps
    }

    fn walk(root: &Path) -> Walk {
        Walk::new(start(root), b"T".to_vec(), ())
    }

    #[test]
    fn directories_are_found_before_and_left_after_what_is_in_them() {
        let root = scratch("order");
        std::fs::create_dir_all(root.join("b/c")).unwrap();
        std::fs::write(root.join("b/a"), "").unwrap();
        std::fs::write(root.join("d"), "").unwrap();
        let all = steps(walk(&root), DirectoryNames::sort);
        std::fs::remove_dir_all(&root).unwrap();
        let expected = [
            "+T", "(T", "+T/b", "(T/b", "+T/b/a", "+T/b/c", "(T/b/c", "-T/b/c", "-T/b", "+T/d",
            "-T",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn dropped_names_are_not_visited() {
        let root = scratch("filter");
        std::fs::create_dir_all(root.join("b/c")).unwrap();
        std::fs::write(root.join("d"), "").unwrap();
        let directories =
            |names: &mut DirectoryNames| names.retain(|_, kind| kind == libc::S_IFDIR);
        let some = steps(walk(&root), directories);
        std::fs::remove_dir_all(&root).unwrap();
        let expected = [
            "+T", "(T", "+T/b", "(T/b", "+T/b/c", "(T/b/c", "-T/b/c", "-T/b", "-T",
        ];
        assert_eq!(some, expected);
    }

    /// Walks through a tree and enters `root` in place of each symbolic link.
    fn enter_for_links(root: &Path, mut walk: Walk) -> Vec<String> {
        let mut steps = Vec::new();
        while let Some(step) = walk.next() {
            match step {
                Step::Found(entry) if entry.kind == libc::S_IFLNK => {
                    let (directory, name) = HostTree.open_parent(root).unwrap();
                    walk.enter_other(directory, name);
                }
                Step::Opened(OpenDirectory { entry, names, .. }) => {
                    names.sort();
                    steps.push(String::from_utf8(entry.path.to_vec()).unwrap());
                }
                Step::Failed(entry, error) => {
                    let path = String::from_utf8_lossy(entry.path);
                    steps.push(format!("{path}: {error}"));
                }
                Step::Found(_) | Step::Left(_) => {}
            }
        }
        steps
    }

    #[test]
    fn links_may_lead_to_a_directory_twice_but_not_into_itself() {
        let root = scratch("links");
        std::fs::create_dir_all(root.join("a")).unwrap();
        for link in ["b/1", "b/2"] {
            std::fs::create_dir_all(root.join("b")).unwrap();
            std::os::unix::fs::symlink("../a", root.join(link)).unwrap();
        }
        let followed = enter_for_links(&root.join("a"), walk(&root).following_links());
        let once = enter_for_links(&root.join("a"), walk(&root));
        let endless = enter_for_links(&root, walk(&root).following_links());
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(followed, ["T", "T/a", "T/b", "T/b/1", "T/b/2"]);
        let twice = |link: &str| format!("T/b/{link}: the directory has two names");
        assert_eq!(once[..3], ["T", "T/a", "T/b"]);
        assert_eq!(once[3..], [twice("1"), twice("2")]);
        let end =
            |link: &str| format!("T/b/{link}: links lead to it from below: there would be no end");
        assert_eq!(endless[3..], [end("1"), end("2")]);
    }
}
