// SPDX-License-Identifier: GPL-2.0-only
//! The bytes of a directory. Each block has entries of 12 bytes, then the names of these entries;
//! all names are sorted by their bytes.

use super::block_file::BLOCK;

/// Bytes of an entry without its name.
const ENTRY: usize = 12;

/// An entry: the name, the number of the inode, its `S_IF*`.
pub(super) struct StoredEntry<'a> {
    pub(super) name: &'a [u8],
    pub(super) number: u64,
    pub(super) kind: u32,
}

/// The numbers of entries in each block, for names in their order, and the bytes of all blocks.
pub(super) fn blocks<'a>(names: impl Iterator<Item = &'a [u8]>) -> (Vec<usize>, u64) {
    let (mut counts, mut used) = (Vec::new(), BLOCK as usize);
    for name in names {
        let needed = ENTRY + name.len();
        if used + needed > BLOCK as usize {
            counts.push(0);
            used = 0;
        }
        used += needed;
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
    }
    let full = counts.len().saturating_sub(1) as u64;
    (counts, full * BLOCK + used as u64)
}

/// The bytes of a directory with these entries, in the order of their names.
pub(super) fn bytes(entries: &[StoredEntry]) -> Vec<u8> {
    let (counts, size) = blocks(entries.iter().map(|entry| entry.name));
    let mut bytes = Vec::with_capacity(size as usize);
    let mut rest = entries;
    for count in counts {
        bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
        let (here, behind) = rest.split_at(count);
        put_block(here, &mut bytes);
        rest = behind;
    }
    bytes
}

fn put_block(entries: &[StoredEntry], bytes: &mut Vec<u8>) {
    let mut name_at = entries.len() * ENTRY;
    for entry in entries {
        bytes.extend(entry.number.to_le_bytes());
        bytes.extend((name_at as u16).to_le_bytes());
        bytes.extend([kind_number(entry.kind), 0]);
        name_at += entry.name.len();
    }
    entries.iter().for_each(|entry| bytes.extend(entry.name));
}

/// The number of a kind of file, as Linux's directories store it.
fn kind_number(kind: u32) -> u8 {
    match kind {
        libc::S_IFREG => 1,
        libc::S_IFDIR => 2,
        libc::S_IFCHR => 3,
        libc::S_IFBLK => 4,
        libc::S_IFIFO => 5,
        libc::S_IFSOCK => 6,
        libc::S_IFLNK => 7,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_directories_have_several_blocks() {
        let names: Vec<Vec<u8>> = (0..300)
            .map(|number| vec![b'a'; 1 + number % 255])
            .collect();
        let entry = |name| StoredEntry {
            name,
            number: 7,
            kind: libc::S_IFREG,
        };
        let entries: Vec<_> = names.iter().map(|name| entry(name.as_slice())).collect();
        let (counts, size) = blocks(names.iter().map(Vec::as_slice));
        assert_eq!(counts.iter().sum::<usize>(), names.len());
        assert!(counts.len() > 5);
        assert_eq!(bytes(&entries).len() as u64, size);
    }
}
