// SPDX-License-Identifier: GPL-2.0-only
//! Queries of the trees of btrfs. The file is any of the file system.

use crate::system::pointer_mut;
use crate::Fd;
use std::ffi::CStr;
use std::io;

/// `_IOWR(0x94, 17, struct btrfs_ioctl_search_args)`.
const TREE_SEARCH: usize = 0xd000_9411;
/// `_IOWR(0x94, 18, struct btrfs_ioctl_ino_lookup_args)`.
const INO_LOOKUP: usize = 0xd000_9412;
const ITEMS: usize = 3992;
const NAME: usize = 4080;
/// Of an item in the kernel's answer.
const HEADER: usize = 32;

#[repr(C)]
struct Search {
    tree: u64,
    first_object: u64,
    last_object: u64,
    first_offset: u64,
    last_offset: u64,
    first_transaction: u64,
    last_transaction: u64,
    first_kind: u32,
    last_kind: u32,
    count: u32,
    unused: [u32; 9],
    items: [u8; ITEMS],
}

#[repr(C)]
struct Lookup {
    tree: u64,
    object: u64,
    name: [u8; NAME],
}

/// The key of an item in a tree. Items are sorted in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BtrfsKey {
    /// Object id.
    pub object: u64,
    /// Type of the item.
    pub kind: u8,
    /// Its meaning depends on the type.
    pub offset: u64,
}

impl BtrfsKey {
    /// The least key after this one.
    pub fn next(self) -> Option<Self> {
        if let Some(offset) = self.offset.checked_add(1) {
            return Some(Self { offset, ..self });
        }
        if let Some(kind) = self.kind.checked_add(1) {
            return Some(Self {
                kind,
                offset: 0,
                ..self
            });
        }
        let object = self.object.checked_add(1)?;
        Some(Self {
            object,
            ..Self::default()
        })
    }
}

/// Items from the kernel's answer.
fn items(mut bytes: &[u8], count: u32) -> Vec<(BtrfsKey, Vec<u8>)> {
    let mut items = Vec::new();
    let field = |bytes: &[u8], offset: usize| {
        let field = bytes.get(offset..).and_then(|rest| rest.first_chunk());
        field.copied().map_or(0, u64::from_ne_bytes)
    };
    for _ in 0..count {
        let kind_and_length = field(bytes, 24);
        let length = (kind_and_length >> 32) as usize;
        let Some(data) = bytes.get(HEADER..).and_then(|rest| rest.get(..length)) else {
            break;
        };
        let key = BtrfsKey {
            object: field(bytes, 8),
            kind: kind_and_length as u8,
            offset: field(bytes, 16),
        };
        items.push((key, data.to_vec()));
        bytes = &bytes[HEADER + length..];
    }
    items
}

impl Fd {
    /// The next items of a tree, from a key on to the end of an object. None at all: there are no
    /// more.
    pub fn btrfs_items(
        &self,
        tree: u64,
        from: BtrfsKey,
        last_object: u64,
    ) -> io::Result<Vec<(BtrfsKey, Vec<u8>)>> {
        let mut search = Search {
            tree,
            first_object: from.object,
            last_object,
            first_offset: from.offset,
            last_offset: u64::MAX,
            first_transaction: 0,
            last_transaction: u64::MAX,
            first_kind: u32::from(from.kind),
            last_kind: u32::from(u8::MAX),
            count: u32::MAX,
            unused: [0; 9],
            items: [0; ITEMS],
        };
        // SAFETY: `search` has the size and layout of the kernel's structure and outlives the call.
        unsafe {
            self.call(
                libc::SYS_ioctl,
                [TREE_SEARCH, pointer_mut(&mut search), 0, 0, 0],
            )
        }?;
        Ok(items(&search.items, search.count))
    }

    /// The path of a directory inside of its tree, with a slash at its end; none for the tree's
    /// root.
    pub fn btrfs_path(&self, tree: u64, directory: u64) -> io::Result<Vec<u8>> {
        let mut lookup = Lookup {
            tree,
            object: directory,
            name: [0; NAME],
        };
        // SAFETY: `lookup` has the size and layout of the kernel's structure and outlives the call.
        unsafe {
            self.call(
                libc::SYS_ioctl,
                [INO_LOOKUP, pointer_mut(&mut lookup), 0, 0, 0],
            )
        }?;
        let path = CStr::from_bytes_until_nul(&lookup.name);
        Ok(path.map_err(io::Error::other)?.to_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn structures_have_the_sizes_that_the_requests_say() {
        assert_eq!(size_of::<Search>(), TREE_SEARCH >> 16 & 0x3fff);
        assert_eq!(size_of::<Lookup>(), INO_LOOKUP >> 16 & 0x3fff);
        assert_eq!(std::mem::offset_of!(Search, items), 104);
    }

    #[test]
    fn keys_follow_each_other() {
        let key = |object, kind, offset| BtrfsKey {
            object,
            kind,
            offset,
        };
        assert_eq!(key(5, 1, 7).next(), Some(key(5, 1, 8)));
        assert_eq!(key(5, 1, u64::MAX).next(), Some(key(5, 2, 0)));
        assert_eq!(key(5, 255, u64::MAX).next(), Some(key(6, 0, 0)));
        assert_eq!(key(u64::MAX, 255, u64::MAX).next(), None);
    }

    #[test]
    fn items_that_lie_are_left() {
        let mut bytes = [0; 80];
        bytes[8] = 5;
        bytes[24] = 132;
        bytes[28] = 3;
        bytes[35 + 28..35 + 32].fill(0xff);
        let found = items(&bytes, 9);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.object, found[0].0.kind), (5, 132));
        assert_eq!(found[0].1.len(), 3);
    }
}
