// SPDX-License-Identifier: GPL-2.0-only
//! Two trees side by side: pairs of files that have the same path.
//!
//! Commands that visit one tree share [`outboard::walk`]. Here each step opens two directories and
//! merges their names. A directory is entered only if the other tree has one at the same path.

use super::contents::{same_contents, Pair};
use super::difference::{Difference, Value, What};
use super::{is_excluded, Comparison, Ignored};
use outboard::{Fd, PathFd, ReadDir};
use outboard_transfer::cp::queue::Queue;
use outboard_transfer::other_forms;
use std::collections::{BTreeSet, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// Pairs of files whose contents wait to be compared.
const WAITING: usize = 256;

/// Two directories with the same path.
struct Directories {
    open: [Arc<Fd>; 2],
    /// The name in them; empty: they themselves.
    name: CString,
    path: Vec<u8>,
}

struct Walk<'a> {
    comparison: &'a Comparison<'a>,
    queue: &'a Queue<Pair>,
    waiting: Vec<Directories>,
    /// Directories of both trees that were entered: a broken image may have several names for one.
    entered: HashSet<(usize, u64, u64)>,
}

/// Compares everything, contents with so many threads.
pub fn run(comparison: &Comparison, threads: u32) {
    let queue = Queue::new(WAITING);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(pair) = queue.take() {
                    same_contents(comparison, &pair);
                }
            });
        }
        let mut walk = Walk {
            comparison,
            queue: &queue,
            waiting: Vec::new(),
            entered: HashSet::new(),
        };
        walk.all();
        queue.close();
    });
}

/// Calls for both trees. Reports the first error, and returns nothing then.
fn both<T>(
    comparison: &Comparison,
    path: &[u8],
    mut get: impl FnMut(usize) -> io::Result<T>,
) -> Option<[T; 2]> {
    let mut side = |index: usize| {
        let tell = |error| {
            comparison
                .findings
                .trouble(&comparison.sides[index], path, &error);
        };
        get(index).map_err(tell).ok()
    };
    let left = side(0);
    let right = side(1);
    Some([left?, right?])
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        b"" => name.to_vec(),
        directory => [directory, b"/", name].concat(),
    }
}

impl Walk<'_> {
    fn all(&mut self) {
        let sides = &self.comparison.sides;
        let Some([left, right]) = both(self.comparison, b"", |index| {
            sides[index].root.duplicate().map(Arc::new)
        }) else {
            return;
        };
        self.pair(&[left, right], c"", Vec::new());
        while let Some(directories) = self.waiting.pop() {
            if self.comparison.interrupt.asked() {
                return;
            }
            self.directories(&directories);
        }
    }

    fn differ(&self, path: &[u8], what: What) {
        let path = path.to_vec();
        let difference = Difference { path, what };
        self.comparison.findings.differ(difference);
    }

    /// Notes that the files differ in `value`, if they do.
    fn compare(&self, path: &[u8], stats: [&libc::stat; 2], value: impl Fn(&libc::stat) -> Value) {
        let values = stats.map(value);
        if values[0] != values[1] {
            self.differ(path, What::Values(values));
        }
    }

    fn directories(&mut self, directories: &Directories) {
        let Directories { open, name, path } = directories;
        let comparison = self.comparison;
        let Some([left, right]) = both(comparison, path, |index| {
            let name = if name.is_empty() {
                c"."
            } else {
                name.as_c_str()
            };
            let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
            let directory = open[index].open_at(name, flags, 0)?;
            let stat = directory.stat()?;
            if !self.entered.insert((index, stat.st_dev, stat.st_ino)) {
                return Err(io::Error::other("the directory has two names"));
            }
            Ok((names(directory.duplicate()?)?, Arc::new(directory)))
        }) else {
            return;
        };
        let ((left, left_open), (right, right_open)) = (left, right);
        let open = [left_open, right_open];
        for name in left.union(&right) {
            if is_excluded(comparison.options, name.to_bytes()) {
                continue;
            }
            let path = join(path, name.to_bytes());
            match (left.contains(name), right.contains(name)) {
                (true, true) => self.pair(&open, name, path),
                (in_left, _) => self.differ(&path, What::OnlyIn(usize::from(!in_left))),
            }
        }
    }

    /// Compares two files of the same name.
    fn pair(&mut self, open: &[Arc<Fd>; 2], name: &CStr, path: Vec<u8>) {
        let comparison = self.comparison;
        let Some(files) = both(comparison, &path, |index| {
            let file = match name.is_empty() {
                true => PathFd::new(open[index].duplicate()?)?,
                false => open[index].open_path_at(name)?,
            };
            Ok((file.stat()?, file))
        }) else {
            return;
        };
        let [(left, _), (right, _)] = &files;
        let types = [left, right].map(|stat| stat.st_mode & libc::S_IFMT);
        if types[0] != types[1] {
            return self.differ(&path, What::Values(types.map(Value::Type)));
        }
        self.metadata(&path, left, right, types[0]);
        if !comparison.options.ignore.contains(&Ignored::Xattrs) {
            self.attributes(&path, [&files[0].1, &files[1].1]);
        }
        match types[0] {
            libc::S_IFDIR => self.waiting.push(Directories {
                open: open.clone(),
                name: name.to_owned(),
                path,
            }),
            libc::S_IFREG if left.st_size != right.st_size => {
                self.compare(&path, [left, right], |stat| Value::Size(stat.st_size));
            }
            libc::S_IFREG if left.st_size > 0 => {
                self.queue.give(Pair {
                    files: files.map(|(_, file)| file),
                    path,
                });
            }
            libc::S_IFLNK => self.targets(&path, [&files[0].1, &files[1].1]),
            libc::S_IFBLK | libc::S_IFCHR => {
                self.compare(&path, [left, right], |stat| Value::Device(stat.st_rdev));
            }
            _ => {}
        }
    }

    fn metadata(&self, path: &[u8], left: &libc::stat, right: &libc::stat, kind: u32) {
        let options = self.comparison.options;
        let stats = [left, right];
        // The mode of a symbolic link means nothing.
        if kind != libc::S_IFLNK && !options.ignore.contains(&Ignored::Modes) {
            self.compare(path, stats, |stat| Value::Mode(stat.st_mode & 0o7777));
        }
        if !options.ignore.contains(&Ignored::Owners) {
            self.compare(path, stats, |stat| Value::Owner {
                user: stat.st_uid,
                group: stat.st_gid,
            });
        }
        if options.times {
            self.compare(path, stats, |stat| Value::Modified {
                seconds: stat.st_mtime,
                part: stat.st_mtime_nsec,
            });
        }
    }

    fn targets(&self, path: &[u8], files: [&PathFd; 2]) {
        let targets = both(self.comparison, path, |index| files[index].read_link());
        let Some(targets) = targets else { return };
        if targets[0] != targets[1] {
            let values = targets.map(|target| Value::Target(target.into_bytes()));
            self.differ(path, What::Values(values));
        }
    }

    fn attributes(&self, path: &[u8], files: [&PathFd; 2]) {
        let lists = both(self.comparison, path, |index| attribute_names(files[index]));
        let Some([left, right]) = lists else { return };
        for name in left.union(&right) {
            let get = |index: usize| match [&left, &right][index].contains(name) {
                true => files[index].xattr(name).map(Some),
                false => Ok(None),
            };
            let Some(values) = both(self.comparison, path, get) else {
                continue;
            };
            if values[0] != values[1] {
                let name = name.to_bytes().to_vec();
                self.differ(path, What::Attribute { name, values });
            }
        }
    }
}

/// A file system without attributes has none.
fn attribute_names(file: &PathFd) -> io::Result<BTreeSet<CString>> {
    match file.xattrs() {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(BTreeSet::new()),
        other => {
            let mut names = other?;
            other_forms::leave_out(&mut names);
            Ok(names.into_iter().collect())
        }
    }
}

fn names(directory: Fd) -> io::Result<BTreeSet<CString>> {
    ReadDir::new(directory)
        .map(|entry| Ok(entry?.file_name_c().to_owned()))
        .collect()
}
