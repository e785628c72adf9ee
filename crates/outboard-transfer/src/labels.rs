// SPDX-License-Identifier: GPL-2.0-only
//! SELinux labels of files, from a policy's `file_contexts`. A line has a regular expression for
//! whole paths, an optional kind of file, and the label. Expressions without special characters go
//! first; of several that match, the last one counts.

use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use regex::bytes::Regex;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// One line.
#[derive(Debug)]
struct Rule {
    pattern: String,
    /// Literal beginning of all matching paths: it rules out most paths without the expression.
    beginning: Vec<u8>,
    exact: bool,
    compiled: OnceLock<Option<Regex>>,
    /// `S_IF*` of the files that the line is for; `None`: all.
    kind: Option<u32>,
    /// `None`: such files get no label.
    label: Option<CString>,
}

/// The rules of a file of labels.
#[derive(Debug)]
pub struct Labels {
    /// In order of precedence.
    rules: Vec<Rule>,
}

fn kind(text: &str) -> Option<u32> {
    Some(match text {
        "--" => libc::S_IFREG,
        "-d" => libc::S_IFDIR,
        "-l" => libc::S_IFLNK,
        "-c" => libc::S_IFCHR,
        "-b" => libc::S_IFBLK,
        "-p" => libc::S_IFIFO,
        "-s" => libc::S_IFSOCK,
        _ => return None,
    })
}

/// The literal beginning of an expression, and whether that is the whole expression.
fn beginning(pattern: &str) -> (Vec<u8>, bool) {
    let mut text = Vec::new();
    let bytes = pattern.as_bytes();
    let mut at = 0;
    // An alternative (`|`) may replace the beginning itself.
    if pattern.contains('|') {
        return (text, false);
    }
    while at < bytes.len() {
        match bytes[at] {
            b'?' | b'*' | b'{' => {
                text.pop();
                return (text, false);
            }
            b'+' | b'.' | b'[' | b'(' | b')' | b'^' | b'$' => return (text, false),
            b'\\' => match bytes.get(at + 1) {
                Some(next) if next.is_ascii_punctuation() => {
                    text.push(*next);
                    at += 1;
                }
                _ => return (text, false),
            },
            byte => text.push(byte),
        }
        at += 1;
    }
    (text, true)
}

impl Rule {
    fn parse(line: &str) -> std::result::Result<Self, &'static str> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (pattern, only, label) = match words[..] {
            [pattern, label] => (pattern, None, label),
            [pattern, only, label] => (
                pattern,
                Some(kind(only).ok_or("the kind of file is none of -- -d -l -c -b -p -s")?),
                label,
            ),
            _ => return Err("a line has a path, perhaps a kind of file, and a label"),
        };
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_:,.-".contains(&byte);
        let label = match label {
            "<<none>>" => None,
            label if label.bytes().all(safe) => CString::new(label).ok(),
            _ => return Err("the label has characters that no label has"),
        };
        let (beginning, exact) = beginning(pattern);
        Ok(Self {
            pattern: pattern.to_owned(),
            beginning,
            exact,
            compiled: OnceLock::new(),
            kind: only,
            label,
        })
    }

    fn compile(&self) -> std::result::Result<Regex, regex::Error> {
        Regex::new(&format!("^(?:{})$", self.pattern))
    }

    fn fits(&self, path: &[u8], mode: u32) -> bool {
        if self.kind.is_some_and(|kind| kind != mode & libc::S_IFMT) {
            return false;
        }
        if self.exact {
            return self.beginning == path;
        }
        // Each expression was compiled once when the file was read.
        path.starts_with(&self.beginning)
            && self
                .compiled
                .get_or_init(|| self.compile().ok())
                .as_ref()
                .is_some_and(|regex| regex.is_match(path))
    }
}

impl Labels {
    /// Reads a policy's `file_contexts`.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = escaped(path.as_os_str().as_bytes());
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::failed(format!("cannot read {shown}"), &error))?;
        Self::parse(&text).map_err(|why| Error::Failed(format!("{shown}: {why}")))
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index + 1;
            let rule = Rule::parse(line).map_err(|why| format!("line {number}: {why}"))?;
            if !rule.exact {
                // Compiled again at its first use: thousands of compiled expressions would fill
                // memory.
                rule.compile().map_err(|_| {
                    format!(
                        "line {number}: \"{}\" is not a regular expression that can be used",
                        rule.pattern
                    )
                })?;
            }
            rules.push(rule);
        }
        rules.reverse();
        rules.sort_by_key(|rule| !rule.exact);
        Ok(Self { rules })
    }

    /// The label of a file. `path` is relative to the root of the file system.
    pub fn find(&self, path: &[u8], mode: u32) -> Option<&CString> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let path = [b"/", path].concat();
        self.rules
            .iter()
            .find(|rule| rule.fits(&path, mode))
            .and_then(|rule| rule.label.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u32 = libc::S_IFREG | 0o644;
    const DIRECTORY: u32 = libc::S_IFDIR | 0o755;

    fn found(labels: &Labels, path: &str, mode: u32) -> Option<String> {
        let label = labels.find(path.as_bytes(), mode)?;
        Some(label.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_last_that_fits_counts_and_exact_paths_go_first() {
        let labels = Labels::parse(
            "# comment\n\n/.*  a:b:default:s0\n/etc/passwd -- a:b:passwd:s0\n\
             /etc(/.*)? a:b:etc:s0\n\
             /dev/.* -d a:b:dev:s0\n/tmp/.* <<none>>\n/a\\.b a:b:dot:s0\n/x(y|z) a:b:xyz:s0\n",
        )
        .unwrap();
        assert_eq!(found(&labels, "", DIRECTORY).unwrap(), "a:b:default:s0");
        assert_eq!(found(&labels, "etc", DIRECTORY).unwrap(), "a:b:etc:s0");
        assert_eq!(found(&labels, "etc/x", FILE).unwrap(), "a:b:etc:s0");
        assert_eq!(found(&labels, "etc/passwd", FILE).unwrap(), "a:b:passwd:s0");
        assert_eq!(
            found(&labels, "etc/passwd", DIRECTORY).unwrap(),
            "a:b:etc:s0"
        );
        assert_eq!(found(&labels, "dev/x", FILE).unwrap(), "a:b:default:s0");
        assert_eq!(found(&labels, "dev/x", DIRECTORY).unwrap(), "a:b:dev:s0");
        assert_eq!(found(&labels, "tmp/x", FILE), None);
        assert_eq!(found(&labels, "a.b", FILE).unwrap(), "a:b:dot:s0");
        assert_eq!(found(&labels, "xz", FILE).unwrap(), "a:b:xyz:s0");
    }

    #[test]
    fn bad_lines_are_named() {
        for bad in [
            "/x",
            "/x -q a:b",
            "/x -- a:b c",
            "/( a:b",
            "/x a\u{7f}b",
            "/x a\"b",
        ] {
            let error = Labels::parse(&format!("/ok a:b\n{bad}\n")).unwrap_err();
            assert!(error.starts_with("line 2"), "{bad}: {error}");
        }
    }
}
