// SPDX-License-Identifier: GPL-2.0-only
//! Paths with wildcards, as the shell expands them: `*`, `?` and `[...]` in any name of a path, a
//! `\` before what is meant as it is. A wildcard matches no slash, and no dot at the start of a
//! name. A path that exists as it is written is no pattern.
//!
//! Symbolic links of a hostile image can make a short pattern match without end. So both the names
//! that are read and the memory for matches have a limit.

use crate::glob::Pattern;
use outboard::{Fd, Tree};
use outboard_sandbox::interrupt::Interrupt;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Most names of directories that one pattern is compared with.
const MOST_NAMES: usize = 10_000_000;
/// Most bytes of all paths that match.
const MOST_BYTES: usize = 256 << 20;

/// Why a pattern has no paths.
#[derive(Debug)]
pub enum Unresolved {
    /// No file matches it.
    NoMatch,
    /// It is compared with more names, or matches more paths, than there is room for.
    TooMany,
    /// The user wants to stop.
    Interrupted,
    /// A directory cannot be read.
    Unreadable(PathBuf, io::Error),
}

/// Whether a path may be a pattern.
pub fn has_wildcards(path: &Path) -> bool {
    is_pattern(path.as_os_str().as_bytes())
}

fn is_pattern(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// The paths that a pattern means, in the order of their bytes. Paths are relative to `base`.
pub fn expand(
    tree: &Tree,
    base: &Path,
    pattern: &Path,
    interrupt: &Interrupt,
) -> Result<Vec<PathBuf>, Unresolved> {
    Search {
        tree,
        base,
        interrupt,
        names: MOST_NAMES,
        bytes: MOST_BYTES,
    }
    .run(pattern)
}

/// A part of a pattern.
enum PatternPart {
    /// Names and slashes as they are.
    Text(Vec<u8>),
    /// One name. `hidden`: a dot at its start is written out.
    Name { pattern: Pattern, hidden: bool },
}

/// Splits a pattern into names with wildcards and what is between those.
fn split(pattern: &[u8]) -> Vec<PatternPart> {
    let mut parts = Vec::new();
    let mut text = Vec::new();
    for piece in pattern.split_inclusive(|&byte| byte == b'/') {
        let name = piece.strip_suffix(b"/").unwrap_or(piece);
        if !is_pattern(name) {
            text.extend_from_slice(piece);
            continue;
        }
        if !text.is_empty() {
            parts.push(PatternPart::Text(std::mem::take(&mut text)));
        }
        parts.push(PatternPart::Name {
            pattern: Pattern::new(name, false),
            hidden: name.starts_with(b".") || name.starts_with(b"\\."),
        });
        text.extend_from_slice(&piece[name.len()..]);
    }
    if !text.is_empty() {
        parts.push(PatternPart::Text(text));
    }
    parts
}

struct Search<'a> {
    tree: &'a Tree,
    base: &'a Path,
    interrupt: &'a Interrupt,
    /// Names and bytes that are left of the limits.
    names: usize,
    bytes: usize,
}

impl Search<'_> {
    fn run(&mut self, pattern: &Path) -> Result<Vec<PathBuf>, Unresolved> {
        if self.exists(pattern.as_os_str().as_bytes()) {
            return Ok(vec![pattern.to_owned()]);
        }
        let mut found = vec![Vec::new()];
        let mut checked = true;
        for part in split(pattern.as_os_str().as_bytes()) {
            match part {
                PatternPart::Text(text) => {
                    found = found
                        .into_iter()
                        .map(|path| [path, text.clone()].concat())
                        .collect();
                    checked = false;
                }
                PatternPart::Name { pattern, hidden } => {
                    found = self.next(found, &pattern, hidden)?;
                    checked = true;
                }
            }
        }
        if !checked {
            found.retain(|path| self.exists(path));
        }
        if found.is_empty() {
            return Err(Unresolved::NoMatch);
        }
        found.sort_unstable();
        let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
        Ok(found.into_iter().map(path).collect())
    }

    /// Adds a name that matches to each of these directories.
    fn next(
        &mut self,
        directories: Vec<Vec<u8>>,
        pattern: &Pattern,
        hidden: bool,
    ) -> Result<Vec<Vec<u8>>, Unresolved> {
        let mut found = Vec::new();
        for directory in directories {
            self.check_interrupt()?;
            let read = self.matches(&directory, pattern, hidden, &mut found);
            match read {
                Err(Unresolved::Unreadable(_, error)) if is_no_directory(&error) => {}
                other => other?,
            }
        }
        Ok(found)
    }

    fn matches(
        &mut self,
        directory: &[u8],
        pattern: &Pattern,
        hidden: bool,
        found: &mut Vec<Vec<u8>>,
    ) -> Result<(), Unresolved> {
        let path = self.full(directory);
        let unreadable = |error| Unresolved::Unreadable(path.clone(), error);
        for entry in self.tree.read_dir(&path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().as_bytes();
            self.names = self.names.checked_sub(1).ok_or(Unresolved::TooMany)?;
            if self.names % 1024 == 0 {
                self.check_interrupt()?;
            }
            if name.starts_with(b".") && !hidden || !pattern.matches(name) {
                continue;
            }
            let length = directory.len() + name.len();
            self.bytes = self.bytes.checked_sub(length).ok_or(Unresolved::TooMany)?;
            found.push([directory, name].concat());
        }
        Ok(())
    }

    fn check_interrupt(&self) -> Result<(), Unresolved> {
        if self.interrupt.asked() {
            Err(Unresolved::Interrupted)
        } else {
            Ok(())
        }
    }

    fn full(&self, path: &[u8]) -> PathBuf {
        self.base.join(OsStr::from_bytes(path))
    }

    /// Whether there is a file of this name, also if it is a symbolic link that leads nowhere.
    fn exists(&self, path: &[u8]) -> bool {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let opened: io::Result<Fd> = self.tree.open_fd(&self.full(path), flags, 0);
        opened.is_ok()
    }
}

/// Whether a path cannot lead on: it is no directory, or a link that leads nowhere.
fn is_no_directory(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::HostTree;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn tree() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for name in ["etc", "etc/a.d", "etc/b.d", ".hidden"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        for name in [
            "etc/x.conf",
            "etc/y.conf",
            "etc/.z.conf",
            "etc/a.d/x",
            "etc/b.d/x",
            "etc/b.d/y",
            ".hidden/x",
            "a*b",
            "axb",
            "back\\slash",
        ] {
            fs::write(directory.path().join(name), b"").unwrap();
        }
        symlink("nowhere", directory.path().join("etc/dangling")).unwrap();
        directory
    }

    fn found(directory: &Path, pattern: &str) -> Vec<String> {
        let expanded = expand(
            HostTree.as_tree(),
            directory,
            Path::new(pattern),
            &Interrupt::default(),
        );
        match expanded {
            Ok(paths) => paths
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
            Err(Unresolved::NoMatch) => Vec::new(),
            Err(other) => panic!("{pattern}: {other:?}"),
        }
    }

    #[test]
    fn patterns_are_expanded_in_order() {
        let directory = tree();
        for (pattern, expected) in [
            ("etc/*.conf", vec!["etc/x.conf", "etc/y.conf"]),
            ("etc/.*.conf", vec!["etc/.z.conf"]),
            ("*/x.conf", vec!["etc/x.conf"]),
            ("etc/*.d/x", vec!["etc/a.d/x", "etc/b.d/x"]),
            ("etc/?.d/[xy]", vec!["etc/a.d/x", "etc/b.d/x", "etc/b.d/y"]),
            ("etc/[!a].d/*", vec!["etc/b.d/x", "etc/b.d/y"]),
            ("etc/*.d/", vec!["etc/a.d/", "etc/b.d/"]),
            ("etc/dang*", vec!["etc/dangling"]),
            ("etc//*.d//x", vec!["etc//a.d//x", "etc//b.d//x"]),
            (".h*/x", vec![".hidden/x"]),
            ("back\\sla??", vec![]),
            ("back\\\\sla??", vec!["back\\slash"]),
        ] {
            assert_eq!(found(directory.path(), pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn nothing_matches() {
        let directory = tree();
        for pattern in [
            "*.none",
            "etc/*/none",
            "etc/x.conf/*",
            "none/*",
            "*/dangling/*",
        ] {
            assert!(found(directory.path(), pattern).is_empty(), "{pattern}");
        }
    }

    #[test]
    fn a_name_as_it_is_comes_first() {
        let directory = tree();
        assert_eq!(found(directory.path(), "a*b"), ["a*b"]);
        assert_eq!(found(directory.path(), "a\\*b"), ["a*b"]);
        assert_eq!(found(directory.path(), "a?b"), ["a*b", "axb"]);
    }

    #[test]
    fn loops_of_links_end() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..100 {
            symlink(".", directory.path().join(number.to_string())).unwrap();
        }
        let mut search = Search {
            tree: HostTree.as_tree(),
            base: directory.path(),
            interrupt: &Interrupt::default(),
            names: 100_000,
            bytes: MOST_BYTES,
        };
        let pattern = Path::new("*/*/*/*/*/*/*/*/*/*");
        assert!(matches!(search.run(pattern), Err(Unresolved::TooMany)));
        (search.names, search.bytes) = (MOST_NAMES, 10_000);
        assert!(matches!(search.run(pattern), Err(Unresolved::TooMany)));
    }
}
