// SPDX-License-Identifier: GPL-2.0-only
//! The words of `--bind`: HOST:/PATH, with `:ro` for reading only.

use outboard_volume::host_bind::HostBind;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The host's path ends at the last ":/". It may have colons.
pub fn parse_bind(text: OsString) -> Result<HostBind, String> {
    let bytes = text.as_bytes();
    let (bytes, read_only) = match bytes.strip_suffix(b":ro") {
        Some(rest) => (rest, true),
        None => (bytes.strip_suffix(b":rw").unwrap_or(bytes), false),
    };
    let place = bytes.windows(2).rposition(|pair| pair == b":/");
    let path = |bytes| OsStr::from_bytes(bytes).into();
    match place {
        Some(place) if place > 0 && place + 2 < bytes.len() => Ok(HostBind {
            source: path(&bytes[..place]),
            target: path(&bytes[place + 1..]),
            read_only,
        }),
        _ => Err("use HOST:/PATH or HOST:/PATH:ro, as in ./site:/srv/site:ro".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, String, bool)> {
        let bind = parse_bind(text.into()).ok()?;
        let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
        Some((text(bind.source), text(bind.target), bind.read_only))
    }

    #[test]
    fn words_are_read() {
        let bind = |source: &str, target: &str, read_only| {
            Some((source.to_owned(), target.to_owned(), read_only))
        };
        assert_eq!(parsed("a:/b"), bind("a", "/b", false));
        assert_eq!(parsed("/a/b:/c:ro"), bind("/a/b", "/c", true));
        assert_eq!(parsed("a:/b:rw"), bind("a", "/b", false));
        assert_eq!(parsed("a:b:/c:/d"), bind("a:b:/c", "/d", false));
        for wrong in ["", "a", "a:b", ":/b", "a:/", "a:ro", "/a:"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
