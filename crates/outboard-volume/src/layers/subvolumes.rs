// SPDX-License-Identifier: GPL-2.0-only
//! Subvolumes and snapshots of btrfs, read from its tree of trees by an ioctl.

use outboard::{BtrfsKey, Fd};
use std::collections::BTreeMap;
use std::io;

const TREE_OF_TREES: u64 = 1;
/// The top tree, which contains all others.
const TOP: u64 = 5;
/// First and last number of subvolumes.
const NUMBERS: (u64, u64) = (256, u64::MAX - 255);
const ROOT_ITEM: u8 = 132;
const ROOT_BACKREF: u8 = 144;
/// Most levels of nested subvolumes.
const DEEPEST: usize = 64;
/// The name of the top subvolume in places.
const TOP_NAME: &[u8] = b"/";
/// Before the number of a subvolume, as in options of mount.
const NUMBER: &str = "subvolid=";

/// A subvolume that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subvolume {
    pub number: u64,
    /// Path from the top, as `btrfs subvolume list` prints it.
    pub path: Vec<u8>,
    pub snapshot: bool,
    pub read_only: bool,
}

/// The entry of a subvolume in the tree of trees.
#[derive(Default)]
struct SubvolumeEntry {
    exists: bool,
    snapshot: bool,
    read_only: bool,
    /// The tree and the directory that contain it, and its name there.
    place: Option<(u64, u64, Vec<u8>)>,
}

fn le64(bytes: &[u8], offset: usize) -> u64 {
    let field = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    field.copied().map_or(0, u64::from_le_bytes)
}

impl SubvolumeEntry {
    /// Parses `struct btrfs_root_item`.
    fn take_root(&mut self, item: &[u8]) {
        let parent = item.get(263..279).unwrap_or_default();
        let references = le64(item, 216) as u32;
        self.exists = references > 0;
        self.read_only = le64(item, 208) & 1 != 0;
        self.snapshot = parent.iter().any(|&byte| byte != 0);
    }

    /// Parses `struct btrfs_root_ref` of the containing tree.
    fn take_place(&mut self, tree: u64, item: &[u8]) {
        let name = item.get(18..).unwrap_or_default();
        let length = (le64(item, 10) >> 48) as usize;
        let name = &name[..length.min(name.len())];
        self.place = Some((tree, le64(item, 0), name.to_vec()));
    }
}

fn entries(file: &Fd) -> io::Result<BTreeMap<u64, SubvolumeEntry>> {
    let mut entries: BTreeMap<u64, SubvolumeEntry> = BTreeMap::new();
    let mut from = Some(BtrfsKey {
        object: NUMBERS.0,
        ..BtrfsKey::default()
    });
    while let Some(key) = from {
        let items = file.btrfs_items(TREE_OF_TREES, key, NUMBERS.1)?;
        // A damaged tree may return items outside of the requested range.
        from = items
            .last()
            .and_then(|(last, _)| last.next())
            .filter(|next| *next > key);
        for (key, item) in items {
            let entry = entries.entry(key.object).or_default();
            match key.kind {
                ROOT_ITEM => entry.take_root(&item),
                ROOT_BACKREF => entry.take_place(key.offset, &item),
                _ => {}
            }
        }
    }
    Ok(entries)
}

/// Path of the subvolume; `None` if no directory refers to it.
fn path(
    file: &Fd,
    entries: &BTreeMap<u64, SubvolumeEntry>,
    number: u64,
    depth: usize,
) -> Option<Vec<u8>> {
    if number == TOP {
        return Some(Vec::new());
    }
    let entry = entries.get(&number).filter(|_| depth < DEEPEST)?;
    let (tree, directory, name) = entry.place.as_ref()?;
    let mut path = path(file, entries, *tree, depth + 1)?;
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend(file.btrfs_path(*tree, *directory).ok()?);
    path.extend(name);
    Some(path)
}

/// The subvolumes of a file system. `file`: any file in it.
pub fn list(file: &Fd) -> io::Result<Vec<Subvolume>> {
    let entries = entries(file)?;
    let subvolume = |(&number, entry): (&u64, &SubvolumeEntry)| {
        Some(Subvolume {
            number,
            path: path(file, &entries, number, 0)?,
            snapshot: entry.snapshot,
            read_only: entry.read_only,
        })
    };
    let all = entries.iter().filter(|(_, entry)| entry.exists);
    Ok(all.filter_map(subvolume).collect())
}

/// The ways to write the name of a subvolume: its path, with a slash before it, its number. A later
/// one is for a path that would be read as something else.
pub fn forms(subvolume: &Subvolume) -> [Vec<u8>; 3] {
    [
        subvolume.path.clone(),
        [TOP_NAME, &subvolume.path].concat(),
        format!("{NUMBER}{}", subvolume.number).into_bytes(),
    ]
}

/// The number of the subvolume of this name.
pub fn find(subvolumes: &[Subvolume], name: &[u8]) -> Option<u64> {
    if name == TOP_NAME {
        return Some(TOP);
    }
    let found = (0..3).find_map(|form| {
        let mut subvolumes = subvolumes.iter();
        subvolumes.find(|subvolume| forms(subvolume)[form] == name)
    });
    found.map(|found| found.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_subvolumes() {
        let subvolume = |number, path: &[u8]| Subvolume {
            number,
            path: path.to_vec(),
            snapshot: false,
            read_only: false,
        };
        let all = [
            subvolume(256, b"1"),
            subvolume(257, b"a:/b"),
            subvolume(258, b"subvolid=256"),
        ];
        for (name, number) in [
            (b"1".as_slice(), Some(256)),
            (b"/1", Some(256)),
            (b"subvolid=257", Some(257)),
            (b"subvolid=256", Some(258)),
            (b"/", Some(TOP)),
            (b"2", None),
        ] {
            assert_eq!(find(&all, name), number);
        }
    }
}
