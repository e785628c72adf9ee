// SPDX-License-Identifier: GPL-2.0-only
//! Parts of HFS+ files that Linux's driver does not show: contents that macOS has compressed, and
//! resource forks. The catalog, a tree, says which files have them, by the numbers that Linux shows
//! as inodes.

use crate::block::{fetch, Block};
use crate::source::{watched, Source};
use std::collections::BTreeMap;
use std::io;

/// The offset of a volume's header.
const HEADER: u64 = 1024;
/// The offsets of forks in it.
const EXTENTS_FORK: usize = 192;
const CATALOG_FORK: usize = 272;
/// The number of the catalog file.
const CATALOG: u32 = 4;
/// The kind of a node with records, and of a file's record.
const LEAF: u8 = 0xff;
const FILE: u16 = 2;
/// UF_COMPRESSED in a file's flags.
const COMPRESSED: u8 = 0x20;
/// Bytes of an entry of Apple's partition table, and most entries.
const SECTOR: u64 = 512;
const MOST_PARTITIONS: u64 = 256;
/// Most files that are kept.
const MOST: usize = 1 << 24;

/// The attributes of a file that Linux does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenForks {
    /// Its contents are compressed: Linux shows an empty file.
    pub compressed: bool,
    /// It has a resource fork with bytes in it.
    pub resource: bool,
}

/// A file of the volume's own: the offset of its blocks in the volume, and their number.
struct Tree {
    /// The offset at which the volume begins.
    base: u64,
    block: u64,
    /// First block and number of blocks.
    extents: Vec<(u32, u32)>,
    node: u64,
    first_leaf: u32,
    nodes: u64,
}

/// The eight extents at this place.
fn extents(block: &Block, at: usize) -> Vec<(u32, u32)> {
    (0..8)
        .map(|index| (block.be32(at + 8 * index), block.be32(at + 8 * index + 4)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

impl Tree {
    fn open(
        source: &(impl Source + ?Sized),
        base: u64,
        block: u64,
        extents: Vec<(u32, u32)>,
    ) -> Option<Self> {
        let mut tree = Self {
            base,
            block,
            extents,
            node: 512,
            first_leaf: 0,
            nodes: 1,
        };
        let header = tree.node(source, 0)?;
        tree.node = u64::from(header.be16(32));
        tree.first_leaf = header.be32(24);
        let blocks: u64 = tree
            .extents
            .iter()
            .map(|(_, count)| u64::from(*count))
            .sum();
        let bytes = blocks.checked_mul(block)?.min(source.size());
        let good = tree.node.is_power_of_two() && (512..=32768).contains(&tree.node);
        tree.nodes = good.then(|| bytes / tree.node)?;
        Some(tree)
    }

    /// Reads a node, whose blocks need not follow each other.
    fn node(&self, source: &(impl Source + ?Sized), number: u32) -> Option<Block> {
        let mut bytes = Vec::new();
        let start = u64::from(number).checked_mul(self.node)?;
        while (bytes.len() as u64) < self.node {
            let offset = start.checked_add(bytes.len() as u64)?;
            let room = self.block - offset % self.block;
            let length = room.min(self.node - bytes.len() as u64);
            let piece = fetch(source, self.place(offset)?, length as usize)?;
            bytes.extend_from_slice(piece.bytes(0, piece.len()));
        }
        Some(Block::from(bytes))
    }

    fn place(&self, offset: u64) -> Option<u64> {
        let mut left = offset / self.block;
        for &(start, count) in &self.extents {
            if left < u64::from(count) {
                let block = u64::from(start) + left;
                let place = block
                    .checked_mul(self.block)?
                    .checked_add(offset % self.block)?;
                return self.base.checked_add(place);
            }
            left -= u64::from(count);
        }
        None
    }

    /// Calls `see` with each record: its node, and where its key and its data begin. `None`: not
    /// all of them can be read.
    fn records(
        &self,
        source: &(impl Source + ?Sized),
        mut see: impl FnMut(&Block, usize, usize),
    ) -> Option<()> {
        let mut number = self.first_leaf;
        for _ in 0..self.nodes {
            if number == 0 {
                return Some(());
            }
            let node = self.node(source, number)?;
            if node.byte(8) != LEAF {
                return None;
            }
            for index in 0..usize::from(node.be16(10)) {
                let offset = node.len().checked_sub(2 * (index + 1))?;
                let key = usize::from(node.be16(offset));
                let data = key + 2 + usize::from(node.be16(key)).next_multiple_of(2);
                see(&node, key, data);
            }
            number = node.be32(0);
        }
        (number == 0).then_some(())
    }
}

/// The offset of the first partition of HFS, if there is Apple's partition table. Linux's driver
/// looks for it, too.
fn partition(source: &(impl Source + ?Sized)) -> Option<u64> {
    let mut count = 1;
    let mut number = 1;
    while number <= count {
        let entry = fetch(source, SECTOR * number, SECTOR as usize)?;
        if !entry.has(0, b"PM") {
            return None;
        }
        if entry.has(48, b"Apple_HFS") {
            return Some(SECTOR * u64::from(entry.be32(8)));
        }
        count = u64::from(entry.be32(4)).min(MOST_PARTITIONS);
        number += 1;
    }
    None
}

/// The offset of a volume: it may be in a partition, or wrapped in an HFS volume.
fn base(source: &(impl Source + ?Sized)) -> Option<u64> {
    let header = fetch(source, HEADER, 512)?;
    if !header.has(0, b"BD") || !header.has(124, b"H+") {
        let whole = header.has(0, b"H+") || header.has(0, b"HX");
        return Some(if whole {
            0
        } else {
            partition(source).unwrap_or(0)
        });
    }
    let blocks = u64::from(header.be16(126)).checked_mul(u64::from(header.be32(20)))?;
    blocks.checked_add(512 * u64::from(header.be16(28)))
}

/// The files of which Linux does not show all, by their inode numbers. `None`: this is no HFS+, or
/// its catalog is damaged. An error: a read failed.
pub fn hidden_forks(
    source: &(impl Source + ?Sized),
) -> io::Result<Option<BTreeMap<u32, HiddenForks>>> {
    watched(source, |source| find(source))
}

fn find(source: &(impl Source + ?Sized)) -> Option<BTreeMap<u32, HiddenForks>> {
    let base = base(source)?;
    let header = fetch(source, base.checked_add(HEADER)?, 512)?;
    if !header.has(0, b"H+") && !header.has(0, b"HX") {
        return None;
    }
    let block = u64::from(header.be32(40));
    if !block.is_power_of_two() || block < 512 {
        return None;
    }
    let mut parts = extents(&header, CATALOG_FORK + 16);
    let had: u64 = parts.iter().map(|(_, count)| u64::from(*count)).sum();
    if had < u64::from(header.be32(CATALOG_FORK + 12)) {
        let overflow = extents(&header, EXTENTS_FORK + 16);
        let tree = Tree::open(source, base, block, overflow)?;
        tree.records(source, |node, key, data| {
            if node.byte(key + 2) == 0 && node.be32(key + 4) == CATALOG {
                parts.extend(extents(node, data));
            }
        })?;
    }
    let mut files = BTreeMap::new();
    let tree = Tree::open(source, base, block, parts)?;
    tree.records(source, |node, _, data| {
        let hidden = HiddenForks {
            compressed: node.byte(data + 41) & COMPRESSED != 0,
            resource: node.be64(data + 168) > 0,
        };
        let is_file = node.be16(data) == FILE;
        if is_file && hidden != HiddenForks::default() && files.len() < MOST {
            files.insert(node.be32(data + 8), hidden);
        }
    })?;
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 4096;

    fn good(source: &[u8]) -> Option<BTreeMap<u32, HiddenForks>> {
        hidden_forks(source).unwrap()
    }

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// A file's record with its key.
    fn file(number: u32, flags: u8, resource: u64) -> Vec<u8> {
        let mut bytes = vec![0; 8 + 248];
        put(&mut bytes, 0, &6u16.to_be_bytes());
        put(&mut bytes, 8, &FILE.to_be_bytes());
        put(&mut bytes, 8 + 8, &number.to_be_bytes());
        bytes[8 + 41] = flags;
        put(&mut bytes, 8 + 168, &resource.to_be_bytes());
        bytes
    }

    fn leaf(next: u32, records: &[Vec<u8>]) -> Vec<u8> {
        let mut node = vec![0; BLOCK];
        put(&mut node, 0, &next.to_be_bytes());
        node[8] = LEAF;
        put(&mut node, 10, &(records.len() as u16).to_be_bytes());
        let mut at = 14;
        for (index, record) in records.iter().enumerate() {
            put(
                &mut node,
                BLOCK - 2 * (index + 1),
                &(at as u16).to_be_bytes(),
            );
            put(&mut node, at, record);
            at += record.len();
        }
        node
    }

    /// A volume whose catalog is in the blocks 2, 5 and 4.
    fn volume() -> Vec<u8> {
        let mut bytes = vec![0; 8 * BLOCK];
        put(&mut bytes, 1024, b"H+");
        put(&mut bytes, 1024 + 40, &(BLOCK as u32).to_be_bytes());
        put(&mut bytes, 1024 + CATALOG_FORK + 12, &3u32.to_be_bytes());
        for (index, extent) in [(2u32, 1u32), (5, 1), (4, 1)].iter().enumerate() {
            let at = 1024 + CATALOG_FORK + 16 + 8 * index;
            put(&mut bytes, at, &extent.0.to_be_bytes());
            put(&mut bytes, at + 4, &extent.1.to_be_bytes());
        }
        put(&mut bytes, 2 * BLOCK + 24, &1u32.to_be_bytes());
        put(&mut bytes, 2 * BLOCK + 32, &(BLOCK as u16).to_be_bytes());
        let first = [file(20, 0, 0), file(21, COMPRESSED, 0)];
        put(&mut bytes, 5 * BLOCK, &leaf(2, &first));
        put(&mut bytes, 4 * BLOCK, &leaf(0, &[file(22, 0, 5)]));
        bytes
    }

    #[test]
    fn all_leaves_are_read() {
        let found = good(&volume()).unwrap();
        let compressed = HiddenForks {
            compressed: true,
            resource: false,
        };
        let resource = HiddenForks {
            compressed: false,
            resource: true,
        };
        assert_eq!(found, BTreeMap::from([(21, compressed), (22, resource)]));
    }

    #[test]
    fn a_volume_in_a_partition() {
        let volume = volume();
        let mut disk = vec![0; 4 * BLOCK];
        for (number, kind) in [(1, b"Apple_pmap".as_slice()), (2, b"Apple_HFS")] {
            let at = number * 512;
            put(&mut disk, at, b"PM");
            put(&mut disk, at + 4, &2u32.to_be_bytes());
            put(&mut disk, at + 8, &32u32.to_be_bytes());
            put(&mut disk, at + 48, kind);
        }
        disk.extend(&volume);
        let found = good(&disk);
        assert!(found.is_some());
        assert_eq!(found, good(&volume));
    }

    #[test]
    fn damaged_catalogs() {
        let whole = volume();
        let mut circle = whole.clone();
        put(&mut circle, 4 * BLOCK, &1u32.to_be_bytes());
        assert_eq!(good(&circle), None);
        assert_eq!(good(&whole[..4 * BLOCK]), None);
        // Nothing panics, whatever a byte says.
        let places = (1024..1536).chain(2 * BLOCK..2 * BLOCK + 64);
        for place in places
            .chain(5 * BLOCK..5 * BLOCK + 64)
            .chain(6 * BLOCK - 8..6 * BLOCK)
        {
            let mut changed = whole.clone();
            changed[place] ^= 0xff;
            good(&changed);
        }
    }

    /// A volume with a block that cannot be read.
    struct BadBlock(Vec<u8>, u64);

    impl Source for BadBlock {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let block = BLOCK as u64;
            let end = offset + buffer.len() as u64;
            if offset < (self.1 + 1) * block && end > self.1 * block {
                return Err(io::Error::from_raw_os_error(5));
            }
            self.0.as_slice().read_at(buffer, offset)
        }
    }

    #[test]
    fn a_failed_read_is_an_error() {
        for block in [0, 2, 5, 4] {
            let found = hidden_forks(&BadBlock(volume(), block));
            assert_eq!(found.unwrap_err().raw_os_error(), Some(5), "{block}");
        }
        assert!(hidden_forks(&BadBlock(volume(), 3)).unwrap().is_some());
    }
}
