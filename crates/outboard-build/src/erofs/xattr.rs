// SPDX-License-Identifier: GPL-2.0-only
//! The bytes of extended attributes, which follow an inode. Names are stored as the number of a
//! known prefix and the rest.

use std::ffi::{CStr, CString};

/// Bytes before the first attribute.
const HEADER: usize = 12;
/// Attributes begin at multiples of this.
const UNIT: usize = 4;
/// Bytes before the name of an attribute.
const ENTRY: usize = 4;
/// Most bytes of the attributes of an inode: their count of units has 16 bits.
const MOST: usize = HEADER + (u16::MAX as usize - 1) * UNIT;

/// Prefixes, and their numbers. The first one that fits counts.
const PREFIXES: [(&[u8], u8); 5] = [
    (b"system.posix_acl_access", 2),
    (b"system.posix_acl_default", 3),
    (b"user.", 1),
    (b"trusted.", 4),
    (b"security.", 6),
];

/// The attributes of a file.
pub(crate) type StoredXattrs = Vec<(CString, Vec<u8>)>;

/// The number of a name's prefix, and the rest of the name.
fn split(name: &CStr) -> Option<(u8, &[u8])> {
    let name = name.to_bytes();
    let find = |(prefix, number): &(&[u8], u8)| Some((*number, name.strip_prefix(*prefix)?));
    let (number, rest) = PREFIXES.iter().find_map(find)?;
    let is_list = number == 2 || number == 3;
    (rest.is_empty() == is_list && rest.len() <= 255).then_some((number, rest))
}

/// Whether an inode can have these attributes. Those of unknown kinds were left out.
pub(crate) fn fit(xattrs: &StoredXattrs) -> bool {
    let is_small = |(_, value): &(CString, Vec<u8>)| value.len() <= u16::MAX as usize;
    xattrs.iter().all(is_small) && size(xattrs) <= MOST
}

/// Whether attributes of this name can be stored.
pub(crate) fn is_known(name: &CStr) -> bool {
    split(name).is_some()
}

/// Bytes of all attributes; 0 without any.
pub(super) fn size(xattrs: &StoredXattrs) -> usize {
    let one = |(name, value): &(CString, Vec<u8>)| {
        let rest = split(name).map_or(0, |(_, rest)| rest.len());
        (ENTRY + rest + value.len()).next_multiple_of(UNIT)
    };
    if xattrs.is_empty() {
        0
    } else {
        HEADER + xattrs.iter().map(one).sum::<usize>()
    }
}

/// The count that an inode has of them: of units, and one for the header.
pub(super) fn count(xattrs: &StoredXattrs) -> u16 {
    match size(xattrs) {
        0 => 0,
        size => ((size - HEADER) / UNIT + 1) as u16,
    }
}

pub(super) fn bytes(xattrs: &StoredXattrs) -> Vec<u8> {
    if xattrs.is_empty() {
        return Vec::new();
    }
    let mut bytes = vec![0; HEADER];
    for (name, value) in xattrs {
        let (number, rest) = split(name).unwrap_or_default();
        bytes.extend([rest.len() as u8, number]);
        bytes.extend((value.len() as u16).to_le_bytes());
        bytes.extend(rest);
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_prefixes() {
        assert_eq!(split(c"user.a.b"), Some((1, &b"a.b"[..])));
        assert_eq!(split(c"system.posix_acl_access"), Some((2, &b""[..])));
        for unknown in [
            c"system.posix_acl_accessx",
            c"user.",
            c"nonsense",
            c"system.a",
        ] {
            assert_eq!(split(unknown), None);
        }
    }

    #[test]
    fn sizes_are_those_of_the_bytes() {
        let mut xattrs = StoredXattrs::new();
        for length in 0..9 {
            assert_eq!(bytes(&xattrs).len(), size(&xattrs));
            xattrs.push((c"user.name".to_owned(), vec![1; length]));
        }
        assert!(fit(&xattrs) && count(&xattrs) > 9);
        xattrs.push((c"user.large".to_owned(), vec![1; 70_000]));
        assert!(!fit(&xattrs));
    }
}
