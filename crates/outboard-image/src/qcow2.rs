// SPDX-License-Identifier: GPL-2.0-only
//! The header of a qcow2 image: its backing file, and checks of its sizes. (docs/interop/qcow2 of
//! QEMU describes the format.)

use crate::block::{fetch, Block};
use crate::fault::{unless_unreadable, Fault};
use crate::source::{watched, Source};
use std::fmt::Display;
use std::io;

/// Bytes of the fields that all versions have, and those of version 3.
const LENGTH_2: usize = 72;
const LENGTH_3: usize = 104;
/// Most bytes of a backing file's name.
const NAME: usize = 1023;
/// Largest tables that are accepted, as in QEMU.
const L1_BYTES: u64 = 32 << 20;
const REFCOUNT_TABLE_BYTES: u64 = 8 << 20;
const SNAPSHOTS: u32 = 65536;
/// The bits of an L1 entry with the offset of the L2 table.
const L2_TABLE: u64 = 0x00ff_ffff_ffff_fe00;
/// Offsets have at most 56 bits.
const LARGEST: u64 = 1 << 56;
/// Most refcount blocks that a killed writer may have failed to add.
const MISSING_BLOCKS: u64 = 4;
/// Most refcount blocks to check for clusters behind the file's end.
const BLOCKS_BEYOND: usize = 16;
/// Most extensions of the header to read.
const EXTENSIONS: usize = 64;
const EXTENSION_BACKING_FORMAT: u32 = 0xe279_2aca;

/// The result of [`read`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Qcow2Header {
    /// Size of the disk in bytes.
    pub size: u64,
    /// Bytes of a cluster.
    pub cluster_size: u64,
    /// Name of the backing file.
    pub backing: Option<Vec<u8>>,
    /// Format of the backing file, such as "raw".
    pub backing_format: Option<Vec<u8>>,
    l1_table: u64,
    l1_entries: u32,
    refcount_table: u64,
    refcount_table_size: u64,
    /// Clusters per refcount block.
    counted_by_block: u64,
}

/// Bits of the incompatible features that mark a damaged image: the texts of the faults.
const MARKS: [&str; 2] = [
    "it was not closed well: let qemu-img check -r all IMAGE repair it",
    "it is marked as corrupt: let qemu-img check -r all IMAGE repair it",
];
/// The bits after those.
const FEATURES: [&str; 3] = [
    "its data is in another file",
    "its clusters are compressed in another way than by zlib",
    "it has extended L2 entries",
];

/// A feature of the format that is missing here.
fn without(feature: &str) -> Fault {
    Fault::unsupported(format!(
        "{feature}, which is not supported: convert it with qemu-img convert -O qcow2 IMAGE NEW"
    ))
}

fn check_features(block: &Block) -> Result<(), Fault> {
    if block.be32(32) != 0 {
        return Err(without("it is encrypted"));
    }
    let features = if block.be32(4) == 3 {
        block.be64(72)
    } else {
        0
    };
    let has = |bit: usize| features & 1 << bit != 0;
    for (bit, text) in MARKS.iter().enumerate() {
        if has(bit) {
            return Err(Fault::damaged(*text));
        }
    }
    for (bit, feature) in FEATURES.iter().enumerate() {
        if has(MARKS.len() + bit) {
            return Err(without(feature));
        }
    }
    match features {
        0 => Ok(()),
        _ => Err(Fault::unsupported(format!(
            "it has unknown features ({features:#x})"
        ))),
    }
}

/// A header that no program makes.
fn corrupt(what: impl Display) -> Fault {
    Fault::damaged(format!("its header is corrupt: {what}"))
}

/// Checks that tables lie in the file and are not too large.
fn check_tables(block: &Block, size: u64, cluster_size: u64, file: u64) -> Result<(), Fault> {
    let inside = |what: &str, offset: u64, length: u64, most: u64| {
        if offset % cluster_size != 0 || length > most {
            return Err(corrupt(format!("the {what} cannot be")));
        }
        match offset.checked_add(length) {
            Some(end) if end <= file => Ok(()),
            _ => Err(Fault::damaged(format!(
                "its {what} lies beyond the file's end: is it cut off?"
            ))),
        }
    };
    let entries = u64::from(block.be32(36));
    let covered = cluster_size * (cluster_size / 8);
    if size.div_ceil(covered) > entries {
        return Err(corrupt("the L1 table is too small for the disk"));
    }
    inside("L1 table", block.be64(40), entries * 8, L1_BYTES)?;
    let refcounts = u64::from(block.be32(56)) * cluster_size;
    if refcounts == 0 || block.be64(48) == 0 {
        return Err(corrupt("it has no refcount table"));
    }
    inside(
        "refcount table",
        block.be64(48),
        refcounts,
        REFCOUNT_TABLE_BYTES.max(cluster_size),
    )?;
    match block.be32(60) {
        0..=SNAPSHOTS => Ok(()),
        count => Err(corrupt(format!("{count} snapshots"))),
    }
}

/// The backing file's format, from an extension of the header.
fn backing_format(source: &(impl Source + ?Sized), start: u64, end: u64) -> Option<Vec<u8>> {
    let mut offset = start;
    for _ in 0..EXTENSIONS {
        let head = fetch(source, offset, 8)?;
        let (kind, length) = (head.be32(0), u64::from(head.be32(4)));
        if kind == 0 || offset + 8 + length > end {
            return None;
        }
        if kind == EXTENSION_BACKING_FORMAT {
            let length = length.min(64) as usize;
            return Some(fetch(source, offset + 8, length)?.bytes(0, length).to_vec());
        }
        offset += 8 + length.next_multiple_of(8);
    }
    None
}

/// Reads the header.
pub fn read(source: &(impl Source + ?Sized)) -> Result<Qcow2Header, Fault> {
    unless_unreadable(source, |source| parse(source))
}

fn parse(source: &(impl Source + ?Sized)) -> Result<Qcow2Header, Fault> {
    let cut = || Fault::damaged("its header is cut off");
    let version = fetch(source, 0, LENGTH_2).ok_or_else(cut)?.be32(4);
    let length = match version {
        2 => LENGTH_2,
        3 => LENGTH_3,
        _ => {
            let text = format!("version {version} of the format is not supported");
            return Err(Fault::Unsupported(text));
        }
    };
    let block = fetch(source, 0, length).ok_or_else(cut)?;
    check_features(&block)?;
    let bits = block.be32(20);
    if !(9..=21).contains(&bits) {
        return Err(corrupt(format!("clusters of 2^{bits} bytes")));
    }
    let (size, cluster_size) = (block.be64(24), 1u64 << bits);
    if size > LARGEST {
        return Err(corrupt(format!("a disk of {size} bytes")));
    }
    if version == 3 && (block.be32(96) > 6 || u64::from(block.be32(100)) > cluster_size) {
        return Err(corrupt("sizes of its fields"));
    }
    check_tables(&block, size, cluster_size, source.size())?;
    let mut header = Qcow2Header {
        size,
        cluster_size,
        backing: None,
        backing_format: None,
        l1_table: block.be64(40),
        l1_entries: block.be32(36),
        refcount_table: block.be64(48),
        refcount_table_size: u64::from(block.be32(56)) * cluster_size,
        counted_by_block: (cluster_size * 8) >> if version == 3 { block.be32(96) } else { 4 },
    };
    let (offset, length) = (block.be64(8), block.be32(16) as usize);
    if offset != 0 {
        if length > NAME || offset > cluster_size - NAME.min(cluster_size as usize) as u64 {
            return Err(corrupt("the backing file's name"));
        }
        let name = fetch(source, offset, length).ok_or_else(cut)?;
        header.backing = Some(name.bytes(0, length).to_vec());
        if version == 3 {
            header.backing_format = backing_format(source, block.be32(100).into(), cluster_size);
        }
    }
    Ok(header)
}

/// Whether a writer can find free clusters in the refcount table: its blocks lie in the file, each
/// appears once, and only blocks at the end are missing. A killed writer may have entered tables
/// that are not counted: they would be taken for free, and overwritten.
pub fn check_refcounts(source: &(impl Source + ?Sized), header: &Qcow2Header) -> Result<(), Fault> {
    unless_unreadable(source, |source| check_counts(source, header))
}

fn check_counts(source: &(impl Source + ?Sized), header: &Qcow2Header) -> Result<(), Fault> {
    let corrupt = || {
        Fault::damaged(
            "its reference counts are corrupt: let qemu-img check -r all IMAGE repair them",
        )
    };
    let size = header.refcount_table_size as usize;
    let table = fetch(source, header.refcount_table, size).ok_or_else(corrupt)?;
    let mut blocks: Vec<u64> = (0..size / 8).map(|entry| table.be64(entry * 8)).collect();
    while blocks.last() == Some(&0) {
        blocks.pop();
    }
    let needed = source
        .size()
        .div_ceil(header.cluster_size)
        .div_ceil(header.counted_by_block);
    if needed > blocks.len() as u64 + MISSING_BLOCKS {
        return Err(corrupt());
    }
    blocks.sort_unstable();
    let twice = blocks.windows(2).any(|pair| pair[0] == pair[1]);
    let good =
        |&block: &u64| block != 0 && block % header.cluster_size == 0 && block < source.size();
    if blocks.iter().all(good) && !twice && are_tables_counted(source, header, &table) {
        Ok(())
    } else {
        Err(corrupt())
    }
}

/// Whether the clusters of the L1 table and of all L2 tables have reference counts.
fn are_tables_counted(
    source: &(impl Source + ?Sized),
    header: &Qcow2Header,
    table: &Block,
) -> bool {
    let entries = u64::from(header.l1_entries);
    let Some(l1) = fetch(source, header.l1_table, entries as usize * 8) else {
        return false;
    };
    let own = (0..(entries * 8).div_ceil(header.cluster_size))
        .map(|index| header.l1_table / header.cluster_size + index);
    let places = (0..entries as usize).map(|index| l1.be64(index * 8) & L2_TABLE);
    let mut clusters: Vec<u64> = places
        .filter(|place| *place != 0)
        .map(|place| place / header.cluster_size)
        .chain(own)
        .collect();
    clusters.sort_unstable();
    let block_of = |cluster: &u64| cluster / header.counted_by_block;
    clusters
        .chunk_by(|one, other| block_of(one) == block_of(other))
        .all(|group| {
            let index = block_of(&group[0]);
            let place = if index < header.refcount_table_size / 8 {
                table.be64(index as usize * 8)
            } else {
                0
            };
            let block = fetch(source, place, header.cluster_size as usize);
            let is_counted = |block: &Block, cluster: &u64| {
                let bits = header.cluster_size * 8 / header.counted_by_block;
                is_count_set(block, cluster % header.counted_by_block * bits, bits)
            };
            place != 0
                && block
                    .is_some_and(|block| group.iter().all(|cluster| is_counted(&block, cluster)))
        })
}

/// Whether a count of this many bits is not zero. Counts smaller than a byte start at its lowest
/// bits.
fn is_count_set(block: &Block, start: u64, bits: u64) -> bool {
    let first = (start / 8) as usize;
    if bits < 8 {
        block.byte(first) >> (start % 8) & ((1 << bits) - 1) != 0
    } else {
        let bytes = block.bytes(first, (bits / 8) as usize);
        bytes.iter().any(|byte| *byte != 0)
    }
}

/// Whether clusters behind the file's end are in use. Reads only their counts.
pub fn is_cut(source: &(impl Source + ?Sized), header: &Qcow2Header) -> io::Result<bool> {
    watched(source, |source| ends_early(source, header))
}

fn ends_early(source: &(impl Source + ?Sized), header: &Qcow2Header) -> bool {
    let missing = source.size().div_ceil(header.cluster_size);
    let first = missing / header.counted_by_block;
    let bits = header.cluster_size * 8 / header.counted_by_block;
    let size = header.refcount_table_size as usize;
    let Some(table) = fetch(source, header.refcount_table, size) else {
        return true;
    };
    (first..header.refcount_table_size / 8)
        .map(|index| (index, table.be64(index as usize * 8)))
        .filter(|(_, block)| *block != 0)
        .take(BLOCKS_BEYOND)
        .any(|(index, block)| {
            let before = if index == first {
                missing % header.counted_by_block * bits
            } else {
                0
            };
            is_counted(source, block, header.cluster_size as usize, before)
        })
}

/// Whether a refcount block has a non-zero count after its first `before` bits, or is missing.
fn is_counted(source: &(impl Source + ?Sized), block: u64, size: usize, before: u64) -> bool {
    let Some(block) = fetch(source, block, size) else {
        return true;
    };
    let counts = block.bytes((before / 8) as usize, size);
    let (first, rest) = counts.split_first().unwrap_or((&0, &[]));
    first >> (before % 8) != 0 || rest.iter().any(|&count| count != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Vec<u8> {
        let mut bytes = vec![0u8; 4 << 16];
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..offset + value.len()].copy_from_slice(value);
        };
        put(0, b"QFI\xfb\0\0\0\x03");
        put(20, &16u32.to_be_bytes());
        put(24, &(1u64 << 30).to_be_bytes());
        put(36, &2u32.to_be_bytes());
        put(40, &(3u64 << 16).to_be_bytes());
        put(48, &(1u64 << 16).to_be_bytes());
        put(56, &1u32.to_be_bytes());
        put(96, &4u32.to_be_bytes());
        put(100, &104u32.to_be_bytes());
        put(8, &200u64.to_be_bytes());
        put(16, &4u32.to_be_bytes());
        put(200, b"base");
        put(104, &EXTENSION_BACKING_FORMAT.to_be_bytes());
        put(108, &3u32.to_be_bytes());
        put(112, b"raw");
        bytes
    }

    #[test]
    fn headers_are_read() {
        let header = read(image().as_slice()).unwrap();
        assert_eq!((header.size, header.cluster_size), (1 << 30, 65536));
        assert_eq!(header.backing.as_deref(), Some(&b"base"[..]));
        assert_eq!(header.backing_format.as_deref(), Some(&b"raw"[..]));
    }

    #[test]
    fn reference_counts_are_checked() {
        let check = |offset: usize, value: u64| {
            let mut bytes = image();
            bytes[65536..65544].copy_from_slice(&(2u64 << 16).to_be_bytes());
            // The L1 table is in cluster 3.
            bytes[(2 << 16) + 3 * 2 + 1] = 1;
            bytes[offset..offset + 8].copy_from_slice(&value.to_be_bytes());
            let header = read(bytes.as_slice()).unwrap();
            check_refcounts(bytes.as_slice(), &header)
        };
        assert_eq!(check(200, 0), Ok(()));
        for (offset, value) in [
            (65536, 1),
            (65536, 1 << 40),
            (65544, 2 << 16),
            (65552, 3 << 16),
            (2 << 16, 0),
            // L2 tables in clusters that are not counted, and where no counts are.
            (3 << 16, 1 << 16 | 1 << 63),
            ((3 << 16) + 8, 1 << 40),
        ] {
            assert!(check(offset, value).is_err(), "{offset} {value}");
        }
        assert_eq!(check((3 << 16) + 8, 3 << 16), Ok(()));
    }

    #[test]
    fn counts_of_all_widths() {
        let bytes = [0b0010_0000u8, 0, 0, 7];
        let block = fetch(bytes.as_slice(), 0, 4).unwrap();
        assert!(is_count_set(&block, 5, 1) && !is_count_set(&block, 4, 1));
        assert!(is_count_set(&block, 4, 4) && !is_count_set(&block, 0, 4));
        assert!(is_count_set(&block, 16, 16) && !is_count_set(&block, 8, 16));
    }

    #[test]
    fn a_cut_image_is_known() {
        // Counts of 16 bits are in cluster 2: one for each of the four clusters that there are, or
        // should be.
        let mut bytes = image();
        bytes[65536..65544].copy_from_slice(&(2u64 << 16).to_be_bytes());
        for cluster in 0..4 {
            bytes[(2 << 16) + cluster * 2 + 1] = 1;
        }
        bytes[40..48].copy_from_slice(&0u64.to_be_bytes());
        let is_cut = |length: usize| ends_early(&bytes[..length], &read(&bytes[..length]).unwrap());
        assert!(!is_cut(4 << 16) && !is_cut((3 << 16) + 1));
        assert!(is_cut(3 << 16));
        assert!(is_cut((2 << 16) + 1), "the counts themselves");
    }

    #[test]
    fn nonsense_is_refused() {
        for (offset, value, mentions) in [
            (4, 9u32, "version"),
            (20, 63, "clusters"),
            (24, u32::MAX, "a disk of"),
            (32, 1, "encrypted"),
            (36, 1, "too small"),
            (36, u32::MAX, "L1 table"),
            (40, 1, "L1 table"),
            (44, 0xffff_0000, "beyond"),
            (48, 1, "refcount table"),
            (56, u32::MAX, "refcount table"),
            (56, 0, "no refcount table"),
            (60, u32::MAX, "snapshots"),
            (76, 1, "closed well"),
            (76, 2, "corrupt"),
            (76, 4, "another file"),
            (76, 16, "extended L2"),
            (76, 64, "unknown"),
            (16, 5000, "name"),
            (12, u32::MAX, "name"),
            (100, u32::MAX, "fields"),
        ] {
            let mut bytes = image();
            bytes[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
            let error = read(bytes.as_slice()).unwrap_err();
            assert!(error.to_string().contains(mentions), "{offset}: {error}");
            let expected = [
                "version",
                "encrypted",
                "another file",
                "extended L2",
                "unknown",
            ];
            let unsupported = matches!(error, Fault::Unsupported(_));
            assert_eq!(
                unsupported,
                expected.contains(&mentions),
                "{offset}: {error}"
            );
        }
        for length in 0..200 {
            let _ = read(&image()[..length]);
        }
    }
}
