// SPDX-License-Identifier: GPL-2.0-only
//! The metadata of VHD images, the format of Virtual PC and Hyper-V: fixed and dynamic disks.
//!
//! A fixed disk is followed by a footer of 512 bytes. A dynamic disk begins with a copy of its
//! footer and a header; a table says where each block of the disk is in the file, in sectors. A
//! block begins with a bitmap of the sectors that have data; the others are zero. Numbers are
//! big-endian.

use crate::block::{fetch, Block};
use crate::fault::{unless_unreadable, Fault};
use crate::source::Source;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;
/// Bytes of a footer.
pub const FOOTER: u64 = 512;
/// Bytes of the header of a dynamic disk.
pub const HEADER: u64 = 1024;
/// The entry of a block that is not in the file.
pub const FREE: u32 = u32::MAX;

const FOOTER_MAGIC: &[u8] = b"conectix";
const HEADER_MAGIC: &[u8] = b"cxsparse";
const FOOTER_CHECKSUM: usize = 64;
const HEADER_CHECKSUM: usize = 36;
/// The disk types.
const FIXED: u32 = 2;
const DYNAMIC: u32 = 3;
const DIFFERENCING: u32 = 4;
/// Entries of the largest table that is read: 64 MiB of memory. The format's own limit, 2040 GiB in
/// blocks of 2 MiB, is far below.
const MOST_BLOCKS: u32 = 1 << 24;
/// Cylinders, heads and sectors. With these, programs take the size in bytes, which no geometry
/// gives exactly.
const LARGEST_GEOMETRY: [u8; 4] = [0xff, 0xff, 16, 255];
const SMALLEST_BLOCK: u32 = 4 << 10;
const LARGEST_BLOCK: u32 = 256 << 20;

/// The fields of a footer and a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VhdLayout {
    /// Bytes of the disk.
    pub size: u64,
    /// `None`: a fixed disk.
    pub dynamic: Option<Dynamic>,
}

/// How a dynamic disk is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dynamic {
    /// The offset of the header.
    pub header: u64,
    /// The offset of the table of blocks.
    pub table: u64,
    /// Entries of the table.
    pub blocks: u32,
    /// Bytes of a block's data.
    pub block_size: u32,
}

/// The offsets of the blocks of a dynamic disk.
#[derive(Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The sector at which each block begins, with its bitmap; or [`FREE`].
    pub starts: Vec<u32>,
    /// The end of what the file has besides its last footer.
    pub end: u64,
    /// The file ends before its last block.
    pub is_cut: bool,
}

impl Dynamic {
    /// Bytes of the bitmap before a block's data: whole sectors.
    pub fn bitmap_size(&self) -> u64 {
        (u64::from(self.block_size) / SECTOR)
            .div_ceil(8)
            .next_multiple_of(SECTOR)
    }

    /// Bytes of a block in the file.
    pub fn stored_size(&self) -> u64 {
        self.bitmap_size() + u64::from(self.block_size)
    }

    /// Bytes of the table: whole sectors.
    pub fn table_size(&self) -> u64 {
        (u64::from(self.blocks) * 4).next_multiple_of(SECTOR)
    }
}

/// The one's complement of the sum of all bytes but the checksum itself.
fn checksum(bytes: &[u8], at: usize) -> u32 {
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    !(sum(&bytes[..at]) + sum(&bytes[at + 4..]))
}

fn has_good_checksum(block: &Block, at: usize) -> bool {
    block.be32(at) == checksum(block.bytes(0, block.len()), at)
}

/// A footer whose checksum is right.
fn footer_at(source: &(impl Source + ?Sized), offset: u64) -> Option<Block> {
    let footer = fetch(source, offset, FOOTER as usize)?;
    let is_good = footer.has(0, FOOTER_MAGIC) && has_good_checksum(&footer, FOOTER_CHECKSUM);
    is_good.then_some(footer)
}

fn last_footer(source: &(impl Source + ?Sized)) -> Option<Block> {
    footer_at(source, source.size().checked_sub(FOOTER)?)
}

/// Whether this is a fixed disk: those have no magic number at their beginning.
pub fn is_fixed(source: &(impl Source + ?Sized)) -> bool {
    last_footer(source).is_some_and(|footer| {
        let size = footer.be64(48).checked_add(FOOTER);
        footer.be32(60) == FIXED && size == Some(source.size())
    })
}

/// Reads the metadata. An error says what is wrong, after "a vhd image, but ".
pub fn read(source: &(impl Source + ?Sized)) -> Result<VhdLayout, Fault> {
    unless_unreadable(source, |source| parse(source))
}

fn parse(source: &(impl Source + ?Sized)) -> Result<VhdLayout, Fault> {
    let footer = footer_at(source, 0).or_else(|| last_footer(source));
    let footer = footer.ok_or_else(|| {
        Fault::damaged("neither its footer nor the copy of that has a good checksum")
    })?;
    let size = footer.be64(48) / SECTOR * SECTOR;
    let dynamic = match footer.be32(60) {
        FIXED => None,
        DYNAMIC => Some(read_header(source, footer.be64(16))?),
        DIFFERENCING => {
            return Err(Fault::unsupported(
                "it is a differencing disk, which has only what differs from another image: \
                 merge it into that one, with Hyper-V's Merge-VHD or vhd-util coalesce",
            ))
        }
        other => {
            let text = format!("its type is {other}, which is unknown");
            return Err(Fault::Unsupported(text));
        }
    };
    let room = match &dynamic {
        None => source.size().saturating_sub(FOOTER),
        Some(dynamic) => u64::from(dynamic.blocks) * u64::from(dynamic.block_size),
    };
    match size {
        0 => Err(Fault::damaged("its disk has no bytes")),
        _ if size > room => Err(Fault::damaged(format!(
            "its disk should have {size} bytes, for which there is no room in it: it has {room}"
        ))),
        _ => Ok(VhdLayout { size, dynamic }),
    }
}

fn read_header(source: &(impl Source + ?Sized), offset: u64) -> Result<Dynamic, Fault> {
    let header = fetch(source, offset, HEADER as usize).filter(|_| offset >= FOOTER);
    let header = header.ok_or_else(|| Fault::damaged("its header is not where the footer says"))?;
    if !header.has(0, HEADER_MAGIC) || !has_good_checksum(&header, HEADER_CHECKSUM) {
        return Err(Fault::damaged("its header has no good checksum"));
    }
    let dynamic = Dynamic {
        header: offset,
        table: header.be64(16),
        blocks: header.be32(28),
        block_size: header.be32(32),
    };
    let block_size = dynamic.block_size;
    let is_usable = (SMALLEST_BLOCK..=LARGEST_BLOCK).contains(&block_size);
    if !block_size.is_power_of_two() || !is_usable {
        let text = format!("its blocks have {block_size} bytes");
        return Err(Fault::Damaged(text));
    }
    if dynamic.blocks == 0 || dynamic.blocks > MOST_BLOCKS {
        let text = format!("its table has {} blocks", dynamic.blocks);
        return Err(Fault::Damaged(text));
    }
    let end = dynamic.table.checked_add(u64::from(dynamic.blocks) * 4);
    match end {
        Some(end) if end <= source.size() => Ok(dynamic),
        _ => Err(Fault::damaged("its table goes beyond the end of the file")),
    }
}

/// Reads the table of blocks. An error says what is wrong, as of [`read`]: nothing in the file may
/// be at the same place as something else.
pub fn read_blocks(source: &(impl Source + ?Sized), dynamic: &Dynamic) -> Result<Blocks, Fault> {
    unless_unreadable(source, |source| parse_blocks(source, dynamic))
}

fn parse_blocks(source: &(impl Source + ?Sized), dynamic: &Dynamic) -> Result<Blocks, Fault> {
    let length = dynamic.blocks as usize * 4;
    let table = fetch(source, dynamic.table, length)
        .ok_or_else(|| Fault::damaged("its table cannot be read"))?;
    let entries = 0..dynamic.blocks as usize;
    let starts: Vec<u32> = entries.map(|index| table.be32(index * 4)).collect();
    let mut used = vec![
        (0, FOOTER),
        (dynamic.header, HEADER),
        (dynamic.table, length as u64),
    ];
    let blocks = starts.iter().filter(|&&start| start != FREE);
    used.extend(blocks.map(|&start| (u64::from(start) * SECTOR, dynamic.stored_size())));
    used.sort_unstable();
    for pair in used.windows(2) {
        if pair[0].0 + pair[0].1 > pair[1].0 {
            return Err(Fault::damaged(format!(
                "two of its parts overlap, at byte {}: it is damaged",
                pair[1].0
            )));
        }
    }
    let end = used.last().map_or(0, |(start, length)| start + length);
    Ok(Blocks {
        starts,
        end: end.next_multiple_of(SECTOR),
        is_cut: end > source.size(),
    })
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// A footer for a disk of this size. `identity`: the disk's UUID.
pub fn footer(layout: &VhdLayout, identity: [u8; 16]) -> [u8; FOOTER as usize] {
    let mut bytes = [0; FOOTER as usize];
    let mut put = |offset: usize, value: &[u8]| put(&mut bytes, offset, value);
    put(0, FOOTER_MAGIC);
    // A reserved bit that is always set.
    put(8, &2u32.to_be_bytes());
    put(12, &0x1_0000u32.to_be_bytes());
    let header = layout.dynamic.map_or(u64::MAX, |dynamic| dynamic.header);
    put(16, &header.to_be_bytes());
    put(28, b"outb");
    put(36, b"Wi2k");
    put(40, &layout.size.to_be_bytes());
    put(48, &layout.size.to_be_bytes());
    put(56, &LARGEST_GEOMETRY);
    let kind = if layout.dynamic.is_some() {
        DYNAMIC
    } else {
        FIXED
    };
    put(60, &kind.to_be_bytes());
    put(68, &identity);
    let sum = checksum(&bytes, FOOTER_CHECKSUM);
    self::put(&mut bytes, FOOTER_CHECKSUM, &sum.to_be_bytes());
    bytes
}

/// The footer of an image.
pub fn footer_of(source: &(impl Source + ?Sized)) -> Option<[u8; FOOTER as usize]> {
    let footer = footer_at(source, 0).or_else(|| last_footer(source))?;
    footer.bytes(0, FOOTER as usize).try_into().ok()
}

/// A footer for a disk of another size.
pub fn resized(mut footer: [u8; FOOTER as usize], size: u64) -> [u8; FOOTER as usize] {
    put(&mut footer, 48, &size.to_be_bytes());
    put(&mut footer, 56, &LARGEST_GEOMETRY);
    let sum = checksum(&footer, FOOTER_CHECKSUM);
    put(&mut footer, FOOTER_CHECKSUM, &sum.to_be_bytes());
    footer
}

/// The header of a dynamic disk.
pub fn header(dynamic: &Dynamic) -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    put(&mut bytes, 0, HEADER_MAGIC);
    put(&mut bytes, 8, &u64::MAX.to_be_bytes());
    put(&mut bytes, 16, &dynamic.table.to_be_bytes());
    put(&mut bytes, 24, &0x1_0000u32.to_be_bytes());
    put(&mut bytes, 28, &dynamic.blocks.to_be_bytes());
    put(&mut bytes, 32, &dynamic.block_size.to_be_bytes());
    let sum = checksum(&bytes, HEADER_CHECKSUM);
    put(&mut bytes, HEADER_CHECKSUM, &sum.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests;
