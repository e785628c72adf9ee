// SPDX-License-Identifier: GPL-2.0-only
//! Files that a command leaves out: the patterns of `--exclude`, with the rules of GNU tar.

use outboard::matches;
use outboard_error::{Error, Result};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

/// Patterns of the shell. A pattern matches a path from its start or from after any slash on, with
/// everything below; `*` matches slashes too.
#[derive(Clone, Debug, Default)]
pub struct Exclusion {
    patterns: Vec<CString>,
}

impl Exclusion {
    /// Parses patterns of a command line; slashes at their ends do not count.
    pub fn parse(patterns: &[OsString]) -> Result<Self> {
        let pattern = |text: &OsString| {
            let bytes = text.as_bytes();
            let end = bytes.iter().rposition(|&byte| byte != b'/');
            CString::new(&bytes[..end.map_or(bytes.len(), |end| end + 1)])
                .map_err(|_| Error::Usage("a pattern has a NUL in it".to_owned()))
        };
        let patterns = patterns.iter().map(pattern).collect::<Result<_>>()?;
        Ok(Self { patterns })
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a path is left out.
    pub fn excludes(&self, path: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let slashes = path.iter().enumerate().filter(|(_, &byte)| byte == b'/');
        let starts = std::iter::once(0).chain(slashes.map(|(slash, _)| slash + 1));
        starts
            .filter_map(|start| CString::new(&path[start..]).ok())
            .any(|rest| self.patterns.iter().any(|pattern| matches(pattern, &rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusion() {
        let excludes = |pattern: &str, path: &[u8]| {
            let patterns = [OsString::from(pattern)];
            Exclusion::parse(&patterns).unwrap().excludes(path)
        };
        assert!(excludes("*.o", b"./a/b.o"));
        assert!(excludes("b", b"./a/b"));
        assert!(excludes("b//", b"./a/b"));
        assert!(excludes("./a", b"./a/b"));
        assert!(excludes("a/*", b"./a/b"));
        assert!(!excludes("b", b"./a/bc"));
        assert!(!excludes("b*", b"./ab"));
        assert!(Exclusion::parse(&["a\0".into()]).is_err());
        assert!(!Exclusion::default().excludes(b"a"));
    }
}
