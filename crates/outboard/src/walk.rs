// SPDX-License-Identifier: GPL-2.0-only
//! The walk through a tree, for everything that looks at or changes many files.
//!
//! The walk goes by open directories and names in them, never by paths: nothing in an image leads
//! it elsewhere, and a file costs one lookup however deep it is. It keeps the directories on the
//! way open (a kernel in this process allows a million files), and its own stack, so that a deep
//! tree overflows none. It reads a directory to the end before it returns a file in there, so that
//! the caller may empty the directory on the way.

use crate::directory::Listing;
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
    /// `S_IF*`, as the directory has it.
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

/// Where a walk begins: a file by its directory and name, or what `directory` is open on, if the
/// name is empty.
pub struct Start {
    pub directory: Fd,
    pub name: CString,
    /// `S_IF*`.
    pub kind: u32,
}

/// Tells a walk whether to end before its end.
pub trait Stop {
    /// Polled for each file.
    fn asked(&self) -> bool;
}

/// Never.
impl Stop for () {
    fn asked(&self) -> bool {
        false
    }
}

/// A step of a walk.
pub enum Step<'a> {
    /// A file, or a directory before what is in it.
    Found(Entry<'a>),
    /// A directory that was not skipped, after what is in it.
    Left(Entry<'a>),
    /// A directory of which not everything can be seen: it was found before, and is still left in
    /// its time.
    Failed(Entry<'a>, io::Error),
}

/// The action before the next name.
enum Next {
    Nothing,
    /// Go into the directory that was found.
    Enter,
    /// Leave the directory that could not be entered.
    Leave,
}

/// Which names of a directory are seen; called with a name and its kind.
type Filter = Box<dyn Fn(&[u8], u32) -> bool + Send>;

/// A walk that is under way.
pub struct Walk {
    stop: Box<dyn Stop + Send>,
    path: Vec<u8>,
    /// The directories on the way. The first holds where the walk began.
    levels: Vec<Level>,
    next: Next,
    /// Device and inode of the directories that were met. In a broken image one may have several
    /// names, and so many that a walk through all of them would never end.
    entered: HashSet<(u64, u64)>,
    filter: Option<Filter>,
    buffer: Vec<u8>,
}

struct Level {
    directory: Arc<Fd>,
    /// Length of its path.
    path: usize,
    names: Names,
}

impl Walk {
    /// `path`: of where it begins, as the user wrote it.
    pub fn new(start: impl Into<Start>, path: Vec<u8>, stop: impl Stop + Send + 'static) -> Self {
        let start = start.into();
        let mut names = Names::default();
        names.push(start.kind, &start.name);
        Self {
            stop: Box::new(stop),
            path,
            levels: vec![Level {
                directory: Arc::new(start.directory),
                path: 0,
                names,
            }],
            next: Next::Nothing,
            entered: HashSet::new(),
            filter: None,
            buffer: vec![0; LISTING],
        }
    }

    /// Goes through the names of each directory in their order, and sees only those that `filter`
    /// lets pass.
    pub fn sorted(mut self, filter: impl Fn(&[u8], u32) -> bool + Send + 'static) -> Self {
        self.filter = Some(Box::new(filter));
        self
    }

    /// Does not go into the directory that was found last.
    pub fn skip(&mut self) {
        self.next = Next::Nothing;
    }

    /// The next step. `None` at the end, or when it is to stop.
    // No Iterator: a step borrows the walk.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Step<'_>> {
        if self.stop.asked() {
            return None;
        }
        match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Nothing => {}
            Next::Leave => return self.here().map(Step::Left),
            Next::Enter => {
                let depth = self.levels.len() - 1;
                if let Err(error) = self.enter() {
                    return Some(Step::Failed(self.entry(depth)?, error));
                }
            }
        }
        let depth = self.levels.len() - 1;
        let level = self.levels.last_mut()?;
        if level.names.advance() {
            if depth > 0 {
                self.path.truncate(level.path);
                if !self.path.ends_with(b"/") {
                    self.path.push(b'/');
                }
                self.path.extend_from_slice(level.names.name().to_bytes());
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
    fn here(&self) -> Option<Entry<'_>> {
        self.entry(self.levels.len() - 1)
    }

    /// The file that the walk is at in one of the directories on the way; its path is the present
    /// one.
    fn entry(&self, depth: usize) -> Option<Entry<'_>> {
        let level = self.levels.get(depth)?;
        Some(Entry {
            path: &self.path,
            directory: &level.directory,
            name: level.names.name(),
            kind: level.names.kind(),
            depth,
            last: level.names.at_last(),
        })
    }

    /// Opens and lists the directory that was found. After an error of listing, what was listed
    /// before it is gone through.
    fn enter(&mut self) -> io::Result<()> {
        let directory = match self.open() {
            Ok(directory) => Arc::new(directory),
            Err(error) => {
                self.next = Next::Leave;
                return Err(error);
            }
        };
        let mut names = Names::default();
        let result = names.read(&directory, &mut self.buffer, &*self.stop);
        if let Some(filter) = &self.filter {
            names = names.sorted(filter);
        }
        self.levels.push(Level {
            directory,
            path: self.path.len(),
            names,
        });
        result
    }

    fn open(&mut self) -> io::Result<Fd> {
        let level = self.levels.last().expect("a directory was found in it");
        let name = match level.names.name() {
            name if name.is_empty() => c".",
            name => name,
        };
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = level.directory.open_at(name, flags, 0)?;
        let stat = directory.stat()?;
        if !self.entered.insert((stat.st_dev, stat.st_ino)) {
            let text = "the directory has two names";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(directory)
    }
}

/// The names of a directory with their kinds, one after the other in one piece of memory: a kind's
/// byte, the name, a NUL.
#[derive(Default)]
struct Names {
    records: Vec<u8>,
    /// Where the record is that the walk is at.
    current: usize,
    /// Where the one after it is.
    next: usize,
}

impl Names {
    fn push(&mut self, kind: u32, name: &CStr) {
        self.records.push((kind >> 12) as u8);
        self.records.extend_from_slice(name.to_bytes_with_nul());
    }

    /// Up to the end of the directory, or until the walk is to stop.
    fn read(&mut self, directory: &Fd, buffer: &mut [u8], stop: &dyn Stop) -> io::Result<()> {
        let mut listing = Listing::default();
        while let Some(entries) = listing.next(directory, buffer)? {
            if stop.asked() {
                break;
            }
            for entry in entries {
                let kind = match entry.kind {
                    libc::DT_UNKNOWN => directory
                        .stat_at(entry.name, libc::AT_SYMLINK_NOFOLLOW)
                        .map_or(0, |stat| stat.st_mode & libc::S_IFMT),
                    kind => u32::from(kind) << 12,
                };
                self.push(kind, entry.name);
            }
        }
        Ok(())
    }

    fn sorted(mut self, filter: &Filter) -> Self {
        let mut names = Vec::new();
        while self.advance() {
            let (start, end) = (self.current, self.next);
            if filter(self.name().to_bytes(), self.kind()) {
                names.push(start..end);
            }
        }
        names.sort_by(|a, b| {
            let name = |range: &std::ops::Range<usize>| &self.records[range.start + 1..range.end];
            name(a).cmp(name(b))
        });
        let records = names
            .into_iter()
            .flat_map(|range| self.records[range].iter().copied())
            .collect();
        Self {
            records,
            current: 0,
            next: 0,
        }
    }

    /// Goes on to the next name, if there is one.
    fn advance(&mut self) -> bool {
        if self.next >= self.records.len() {
            return false;
        }
        self.current = self.next;
        self.next += 1 + self.name().to_bytes_with_nul().len();
        true
    }

    fn name(&self) -> &CStr {
        let bytes = self.records.get(self.current + 1..).unwrap_or_default();
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }

    fn kind(&self) -> u32 {
        self.records
            .get(self.current)
            .map_or(0, |kind| u32::from(*kind) << 12)
    }

    fn at_last(&self) -> bool {
        self.next >= self.records.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use std::path::PathBuf;

    fn steps(root: &std::path::Path, mut configure: impl FnMut(Walk) -> Walk) -> Vec<String> {
        let (directory, name) = Tree::host().open_parent(root).unwrap();
        let start = Start {
            directory,
            name,
            kind: libc::S_IFDIR,
        };
        let mut walk = configure(Walk::new(start, b"T".to_vec(), ()));
        let mut steps = Vec::new();
        let shown = |entry: Entry| String::from_utf8(entry.path.to_vec()).unwrap();
        while let Some(step) = walk.next() {
            steps.push(match step {
                Step::Found(entry) => format!("+{}", shown(entry)),
                Step::Left(entry) => format!("-{}", shown(entry)),
                Step::Failed(..) => "!".to_owned(),
            });
        }
        steps
    }

    fn scratch(name: &str) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("outboard-walk-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir(&root).unwrap();
        root
    }

    #[test]
    fn directories_are_found_before_and_left_after_what_is_in_them() {
        let root = scratch("order");
        std::fs::create_dir_all(root.join("b/c")).unwrap();
        std::fs::write(root.join("b/a"), "").unwrap();
        std::fs::write(root.join("d"), "").unwrap();
        let all = steps(&root, |walk| walk.sorted(|_, _| true));
        std::fs::remove_dir_all(&root).unwrap();
        let expected = [
            "+T", "+T/b", "+T/b/a", "+T/b/c", "-T/b/c", "-T/b", "+T/d", "-T",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn filters() {
        let root = scratch("filter");
        std::fs::create_dir_all(root.join("b/c")).unwrap();
        std::fs::write(root.join("d"), "").unwrap();
        let some = steps(&root, |walk| walk.sorted(|_, kind| kind == libc::S_IFDIR));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(some, ["+T", "+T/b", "+T/b/c", "-T/b/c", "-T/b", "-T"]);
    }
}
