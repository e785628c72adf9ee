// SPDX-License-Identifier: GPL-2.0-only
//! Files that a command leaves out: the patterns of `--exclude`, with the rules of GNU tar.

use crate::glob::Pattern;
use outboard_error::{Error, Result};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Patterns of the shell. A pattern matches a path from its start or from after any slash on, with
/// everything below; `*` matches slashes too.
#[derive(Clone, Debug, Default)]
pub struct Exclusion {
    patterns: Vec<Pattern>,
}

impl Exclusion {
    /// Parses patterns of a command line; slashes at their ends do not count.
    pub fn parse(patterns: &[OsString]) -> Result<Self> {
        let pattern = |text: &OsString| {
            let bytes = text.as_bytes();
            if bytes.contains(&0) {
                return Err(Error::Usage("a pattern has a NUL in it".to_owned()));
            }
            let end = bytes.iter().rposition(|&byte| byte != b'/');
            let end = end.map_or(bytes.len(), |end| end + 1);
            Ok(Pattern::new(&bytes[..end], false))
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
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| pattern.matches_inside(path))
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
        assert!(excludes("?", "./\u{e9}/b".as_bytes()));
        assert!(excludes("a?", b"./a\xff/b"));
        assert!(Exclusion::parse(&["a\0".into()]).is_err());
        assert!(!Exclusion::default().excludes(b"a"));
    }
}
