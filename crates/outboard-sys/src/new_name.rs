// SPDX-License-Identifier: GPL-2.0-only
//! Names that a driver would change.
//!
//! | driver | keeps names in | writes `?`, without an error, in the place of |
//! |---|---|---|
//! | udf, SMB | UTF-16 | bytes that are not UTF-8 |
//! | hfsplus | UCS-2 | the same, and characters above U+FFFF |
//!
//! hfs cuts names, without an error, at 31 bytes. UDF changes targets of symbolic links as it
//! changes names.
//!
//! UDF even makes a second file of a name that there is already. Other drivers refuse such names.

use crate::explained;
use std::ffi::CStr;
use std::io;

/// Kinds of file systems, as statfs(2) returns them.
const UDF: i64 = 0x1501_3346;
const HFS: i64 = 0x4244;
const HFSPLUS: i64 = 0x482b;
const SHARES: [i64; 2] = [0xff53_4d42, 0xfe53_4d42];

/// The last character of UCS-2.
const LAST: char = '\u{ffff}';

/// Most bytes of a name on hfs.
const LONGEST_OF_HFS: usize = 31;

/// Whether every driver keeps a name as it is, or refuses it.
pub(crate) fn is_kept_everywhere(name: &CStr) -> bool {
    is_short(name) && is_ucs2(name)
}

/// Whether hfs keeps the whole name, which may be the last one of a path.
fn is_short(path: &CStr) -> bool {
    let mut names = path.to_bytes().rsplit(|&byte| byte == b'/');
    names.next().is_none_or(|name| name.len() <= LONGEST_OF_HFS)
}

fn is_ucs2(name: &CStr) -> bool {
    let text = name.to_str();
    text.is_ok_and(|text| text.chars().all(|character| character <= LAST))
}

/// Whether it is the kind of a mounted SMB share.
pub(crate) fn is_share(kind: i64) -> bool {
    SHARES.contains(&(kind & 0xffff_ffff))
}

/// An error, EILSEQ or ENAMETOOLONG, if the driver of a file system of this kind would change such
/// a name.
pub(crate) fn check(kind: i64, name: &CStr) -> io::Result<()> {
    let is_utf8 = name.to_str().is_ok();
    match kind {
        HFS if !is_short(name) => {
            let names = format!("names of up to {LONGEST_OF_HFS} bytes");
            Err(has_only(libc::ENAMETOOLONG, &names))
        }
        HFSPLUS if !is_ucs2(name) => Err(has_only(
            libc::EILSEQ,
            "names in UTF-8 with characters up to U+FFFF",
        )),
        kind if !is_utf8 && (kind == UDF || is_share(kind)) => {
            Err(has_only(libc::EILSEQ, "names in UTF-8"))
        }
        _ => Ok(()),
    }
}

/// An error, EILSEQ, if the driver of a file system of this kind would change such a target of a
/// symbolic link.
pub(crate) fn check_target(kind: i64, target: &CStr) -> io::Result<()> {
    if kind == UDF && target.to_str().is_err() {
        Err(has_only(libc::EILSEQ, "targets of links in UTF-8"))
    } else {
        Ok(())
    }
}

fn has_only(code: i32, what: &str) -> io::Error {
    explained(
        io::Error::from_raw_os_error(code),
        format!("this file system has only {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_kept() {
        assert!(is_kept_everywhere(c"a\u{20ac}"));
        assert!(!is_kept_everywhere(c"\u{1f600}") && !is_kept_everywhere(c"a\xff"));
        let kept = |kind, name| check(kind, name).is_ok();
        assert!(!kept(UDF, c"a\xff") && kept(UDF, c"\u{1f600}"));
        assert!(!kept(HFSPLUS, c"a\xff") && !kept(HFSPLUS, c"\u{1f600}"));
        assert!(!kept(0xff53_4d42, c"a\xff") && kept(0xef53, c"a\xff"));
    }

    #[test]
    fn names_that_are_too_long_for_hfs() {
        let (longest, longer) = (
            c"0123456789012345678901234567890",
            c"01234567890123456789012345678901",
        );
        assert!(is_kept_everywhere(longest) && !is_kept_everywhere(longer));
        assert!(
            check(HFS, longest).is_ok() && check(HFS, c"a/0123456789012345678901234567890").is_ok()
        );
        let error = check(HFS, longer).expect_err("it is cut");
        assert_eq!(crate::errno(&error), Some(libc::ENAMETOOLONG));
        assert!(check(HFSPLUS, longer).is_ok() && check(UDF, longer).is_ok());
    }

    #[test]
    fn targets_that_are_kept() {
        assert!(check_target(UDF, c"a\xff").is_err() && check_target(UDF, c"a/b").is_ok());
        assert!(check_target(0xef53, c"a\xff").is_ok());
    }
}
