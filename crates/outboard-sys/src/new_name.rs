// SPDX-License-Identifier: GPL-2.0-only
//! Names that a driver would change.
//!
//! | driver | keeps names in | writes `?`, without an error, in the place of |
//! |---|---|---|
//! | udf, SMB | UTF-16 | bytes that are not UTF-8 |
//! | hfsplus | UCS-2 | the same, and characters above U+FFFF |
//!
//! UDF even makes a second file of a name that there is already. Other drivers refuse such names.

use crate::explained;
use std::ffi::CStr;
use std::io;

/// Kinds of file systems, as statfs(2) returns them.
const UDF: i64 = 0x1501_3346;
const HFSPLUS: i64 = 0x482b;
const SHARES: [i64; 2] = [0xff53_4d42, 0xfe53_4d42];

/// The last character of UCS-2.
const LAST: char = '\u{ffff}';

/// Whether every driver keeps a name as it is, or refuses it.
pub(crate) fn is_kept_everywhere(name: &CStr) -> bool {
    let text = name.to_str();
    text.is_ok_and(|text| text.chars().all(|character| character <= LAST))
}

/// Whether it is the kind of a mounted SMB share.
pub(crate) fn is_share(kind: i64) -> bool {
    SHARES.contains(&(kind & 0xffff_ffff))
}

/// An error, EILSEQ, if the driver of a file system of this kind would change such a name, which
/// some driver changes.
pub(crate) fn check(kind: i64, name: &CStr) -> io::Result<()> {
    let kept = match kind {
        HFSPLUS => "UTF-8 with characters up to U+FFFF",
        kind if name.to_str().is_err() && (kind == UDF || is_share(kind)) => "UTF-8",
        _ => return Ok(()),
    };
    Err(explained(
        io::Error::from_raw_os_error(libc::EILSEQ),
        format!("this file system has only names in {kept}"),
    ))
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
}
