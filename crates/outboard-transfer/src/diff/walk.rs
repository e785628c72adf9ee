// SPDX-License-Identifier: GPL-2.0-only
//! Goes through two trees side by side, and compares files that have the same path.

use super::comparison::Comparison;
use super::contents::{same_contents, CompareBuffers, FilePair};
use super::difference::{ComparedValue, Difference, What};
use crate::cp::queue::Queue;
use crate::operand::base_name;
use crate::other_forms;
use outboard::walk::{Entry, PairStep, PairWalk};
use outboard::{explained, PathFd};
use outboard_error::format::escaped;
use outboard_error::reason;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;

/// Pairs of files whose contents wait to be compared.
const WAITING: usize = 256;

/// The thread that compares all but contents.
struct Comparer<'a> {
    comparison: &'a Comparison<'a>,
    /// Files whose contents are to be compared.
    queue: &'a Queue<FilePair>,
}

/// Compares everything, contents with so many threads.
pub(super) fn run(comparison: &Comparison, threads: u32) {
    let queue = Queue::new(WAITING);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut buffers = CompareBuffers::new();
                while let Some(pair) = queue.take() {
                    same_contents(comparison, &pair, &mut buffers);
                }
            });
        }
        let comparer = Comparer {
            comparison,
            queue: &queue,
        };
        comparer.trees();
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
        let tell = |error| comparison.trouble(index, path, &error);
        get(index).map_err(tell).ok()
    };
    let left = side(0);
    let right = side(1);
    Some([left?, right?])
}

impl Comparer<'_> {
    fn trees(&self) {
        let comparison = self.comparison;
        let Some(starts) = both(comparison, b"", |index| comparison.sides[index].start()) else {
            return;
        };
        let excluded = |path: &[u8]| comparison.options.excludes(base_name(path));
        let mut walk = PairWalk::new(starts, comparison.interrupt.clone());
        while let Some(step) = walk.next() {
            match step {
                PairStep::Both(entries) => {
                    let path = entries[0].path;
                    let excluded = !path.is_empty() && excluded(path);
                    if excluded || !self.pair(&entries) {
                        walk.skip();
                    }
                }
                PairStep::Only(side, path) if !excluded(path) => {
                    self.differ(path, What::OnlyIn(side));
                }
                PairStep::Only(..) => {}
                PairStep::Failed(side, path, error) => comparison.trouble(side, path, &error),
            }
        }
    }

    fn differ(&self, path: &[u8], what: What) {
        let path = path.to_vec();
        let difference = Difference { path, what };
        self.comparison.findings.differ(difference);
    }

    /// Notes that the files differ in `value`, if they do.
    fn compare(
        &self,
        path: &[u8],
        stats: [&libc::stat; 2],
        value: impl Fn(&libc::stat) -> ComparedValue,
    ) {
        let values = stats.map(value);
        if values[0] != values[1] {
            self.differ(path, What::Values(values));
        }
    }

    /// Compares two files of the same path. Returns whether both are directories.
    fn pair(&self, entries: &[Entry; 2]) -> bool {
        let comparison = self.comparison;
        let path = entries[0].path;
        let Some(files) = both(comparison, path, |index| {
            let Entry {
                directory, name, ..
            } = &entries[index];
            let file = if name.is_empty() {
                PathFd::new(directory.duplicate()?)?
            } else {
                directory.open_path_at(name)?
            };
            Ok((file.stat()?, file))
        }) else {
            return false;
        };
        let [(left, _), (right, _)] = &files;
        let types = [left, right].map(|stat| stat.st_mode & libc::S_IFMT);
        if types[0] != types[1] {
            self.differ(path, What::Values(types.map(ComparedValue::Type)));
            return false;
        }
        self.metadata(path, left, right, types[0]);
        if comparison.options.xattrs {
            self.attributes(path, [&files[0].1, &files[1].1]);
        }
        match types[0] {
            libc::S_IFREG if left.st_size == right.st_size && left.st_size > 0 => {
                self.queue.give(FilePair {
                    files: files.map(|(_, file)| file),
                    path: path.to_vec(),
                });
            }
            libc::S_IFREG => {
                // A size means nothing if the contents are hidden: Linux shows 0 for compressed
                // files of HFS+.
                let find = |index: usize| self.check_hidden(&files[index].1, &files[index].0);
                if both(comparison, path, find).is_some() {
                    self.compare(path, [left, right], |stat| {
                        ComparedValue::Size(stat.st_size)
                    });
                }
            }
            libc::S_IFLNK => self.targets(path, [&files[0].1, &files[1].1]),
            libc::S_IFBLK | libc::S_IFCHR => {
                self.compare(path, [left, right], |stat| {
                    ComparedValue::Device(stat.st_rdev)
                });
            }
            _ => {}
        }
        types[0] == libc::S_IFDIR
    }

    /// An error if the contents of a regular file are hidden. A file that cannot be opened passes:
    /// the caller compares only its size.
    fn check_hidden(&self, file: &PathFd, stat: &libc::stat) -> io::Result<()> {
        match file.open(libc::O_RDONLY | libc::O_NONBLOCK) {
            Ok(opened) => self.comparison.hidden.find(&opened, stat).map(drop),
            Err(_) => Ok(()),
        }
    }

    fn metadata(&self, path: &[u8], left: &libc::stat, right: &libc::stat, kind: u32) {
        let options = self.comparison.options;
        let stats = [left, right];
        // The mode of a symbolic link means nothing.
        if kind != libc::S_IFLNK && options.modes {
            self.compare(path, stats, |stat| {
                ComparedValue::Mode(stat.st_mode & 0o7777)
            });
        }
        if options.owners {
            self.compare(path, stats, |stat| ComparedValue::Owner {
                user: stat.st_uid,
                group: stat.st_gid,
            });
        }
        if options.times {
            self.compare(path, stats, |stat| ComparedValue::Modified {
                seconds: stat.st_mtime,
                part: stat.st_mtime_nsec,
            });
        }
    }

    fn targets(&self, path: &[u8], files: [&PathFd; 2]) {
        let targets = both(self.comparison, path, |index| files[index].read_link());
        let Some(targets) = targets else { return };
        if targets[0] != targets[1] {
            let values = targets.map(|target| ComparedValue::Target(target.into_bytes()));
            self.differ(path, What::Values(values));
        }
    }

    fn attributes(&self, path: &[u8], files: [&PathFd; 2]) {
        let lists = both(self.comparison, path, |index| attribute_names(files[index]));
        let Some([left, right]) = lists else { return };
        for name in left.union(&right) {
            let get = |index: usize| {
                if [&left, &right][index].contains(name) {
                    files[index].xattr(name).map(Some).map_err(|error| {
                        let why = reason(&error);
                        explained(error, format!("{}: {why}", escaped(name.to_bytes())))
                    })
                } else {
                    Ok(None)
                }
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
