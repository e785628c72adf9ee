// SPDX-License-Identifier: GPL-2.0-only
//! File systems of Macintosh computers: HFS, HFS+ and APFS.

use super::found::Probe;
use crate::block::{fetch, format_uuid, Block};
use crate::source::Source;
use md5::{Digest, Md5};

const HFS: u16 = 0x4244;
const HFS_PLUS: u16 = 0x482b;
const HFSX: u16 = 0x4858;
/// In a volume's attributes: unmounted.
const UNMOUNTED: u32 = 1 << 8;
/// The namespace in which Mac OS makes UUIDs from the identifiers of volumes.
const NAMESPACE: [u8; 16] = [
    0xb3, 0xe2, 0x0f, 0x39, 0xf2, 0x92, 0x11, 0xd6, 0x97, 0xa4, 0x00, 0x30, 0x65, 0x43, 0xec, 0xac,
];
/// Offset of the description of the catalog's file in the volume header of HFS+.
const CATALOG: usize = 272;
/// Extents that the description of a file has.
const EXTENTS: usize = 8;
/// The number of the directory above the root.
const ROOT_PARENT: u32 = 1;
/// A leaf of a B-tree.
const LEAF: u8 = 0xff;
/// Bytes of the description at the start of a node.
const NODE_HEAD: usize = 14;

/// The UUID of a volume, of version 3, from the 8 bytes of its identifier. `None`: it has none.
fn uuid(block: &Block, offset: usize) -> Option<String> {
    let id = block.bytes(offset, 8);
    if id.iter().all(|&byte| byte == 0) {
        return None;
    }
    let hash = Md5::new().chain_update(NAMESPACE).chain_update(id);
    let mut bytes: [u8; 16] = hash.finalize().into();
    bytes[6] = 0x30 | bytes[6] & 0x0f;
    bytes[8] = 0x80 | bytes[8] & 0x3f;
    Some(format_uuid(bytes))
}

/// Reads a node of the catalog of HFS+. `start`: where the volume begins.
fn catalog_node(
    source: &(impl Source + ?Sized),
    header: &Block,
    start: u64,
    number: u64,
    size: u64,
) -> Option<Block> {
    let unit = u64::from(header.be32(40));
    let mut offset = number.checked_mul(size)?;
    for index in 0..EXTENTS {
        let extent = CATALOG + 16 + 8 * index;
        let length = u64::from(header.be32(extent + 4)).checked_mul(unit)?;
        if offset < length {
            let place = u64::from(header.be32(extent)).checked_mul(unit)?;
            let place = start.checked_add(place)?.checked_add(offset)?;
            return fetch(source, place, size as usize);
        }
        offset -= length;
    }
    None
}

/// The label of HFS+ is the name of the root directory: the first entry of the catalog.
fn label(source: &(impl Source + ?Sized), header: &Block, start: u64) -> Option<String> {
    let head = catalog_node(source, header, start, 0, 512)?;
    let size = u64::from(head.be16(NODE_HEAD + 18));
    if size < 512 {
        return None;
    }
    let first = u64::from(head.be32(NODE_HEAD + 10));
    let leaf = catalog_node(source, header, start, first, size)?;
    let is_root =
        leaf.byte(8) == LEAF && leaf.be16(10) > 0 && leaf.be32(NODE_HEAD + 2) == ROOT_PARENT;
    let length = usize::from(leaf.be16(NODE_HEAD + 6));
    if !is_root || length > 255 {
        return None;
    }
    leaf.utf16_be(NODE_HEAD + 8, 2 * length)
}

pub(super) fn hfsplus(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let mut start = 0;
    let mut block = fetch(source, 1024, 512)?;
    if block.be16(0) == HFS && matches!(block.be16(124), HFS_PLUS | HFSX) {
        let unit = u64::from(block.be32(20));
        start = u64::from(block.be16(28)) * 512 + u64::from(block.be16(126)).checked_mul(unit)?;
        block = fetch(source, start.checked_add(1024)?, 512)?;
    }
    if !matches!(block.be16(0), HFS_PLUS | HFSX) || !matches!(block.be16(2), 4 | 5) {
        return None;
    }
    Some(
        Probe::file_system("hfsplus")
            .label(label(source, &block, start))
            .uuid(uuid(&block, 104))
            .blocks(block.be32(44).into(), block.be32(40).into())
            .state(block.be32(4) & UNMOUNTED != 0, "not unmounted"),
    )
}

pub(super) fn hfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 1024, 512)?;
    let size = u64::from(block.be32(20));
    if block.be16(0) != HFS || size == 0 || size % 512 != 0 {
        return None;
    }
    Some(
        Probe::file_system("hfs")
            .label(block.pascal(36, 27))
            .uuid(uuid(&block, 116))
            .blocks(block.be16(18).into(), size)
            .state(u32::from(block.be16(10)) & UNMOUNTED != 0, "not unmounted"),
    )
}

/// The superblock of a container of APFS. Its volumes and their labels are deeper inside.
pub(super) fn apfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 0, 128)?;
    let size = u64::from(block.le32(36));
    if !block.has(32, b"NXSB") || !size.is_power_of_two() || !(4096..=65536).contains(&size) {
        return None;
    }
    let probe = Probe::file_system("apfs").uuid(block.uuid(72));
    Some(probe.blocks(block.le64(40), size))
}
