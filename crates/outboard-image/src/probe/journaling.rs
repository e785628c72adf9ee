// SPDX-License-Identifier: GPL-2.0-only
//! The larger Unix file systems: xfs, btrfs, bcachefs, f2fs, jfs, nilfs2, reiserfs.

use super::found::{block_size, Probe};
use crate::block::fetch;
use crate::btrfs;
use crate::source::Source;

/// Directories of version 2 whose names are compared as ASCII without case (`mkfs.xfs -n
/// version=ci`).
const XFS_VERSION_ASCII_CI: u16 = 0x4000;
const F2FS_CASEFOLD: u32 = 0x1000;
/// Offset of the second device's path in the superblock: behind the first device's path of 64 bytes
/// and its count of segments.
const F2FS_SECOND_DEVICE: usize = 2201 + 68;

pub(super) fn xfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 0, 512)?;
    let size = block.be32(4);
    if !block.has(0, b"XFSB") || !(512..=65536).contains(&size) || !size.is_power_of_two() {
        return None;
    }
    Some(
        Probe::file_system("xfs")
            .label(block.text(108, 12))
            .uuid(block.uuid(32))
            .folding(block.be16(100) & XFS_VERSION_ASCII_CI != 0)
            .blocks(block.be64(8), size.into()),
    )
}

pub(super) fn btrfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 65536, 4096)?;
    if !block.has(64, btrfs::MAGIC) {
        return None;
    }
    let mut probe = Probe::file_system("btrfs")
        .label(block.text(299, 256))
        .uuid(block.uuid(32))
        .state(block.le64(96) == 0, "a log has to be replayed");
    probe.size = Some(block.le64(112));
    probe.block_size = Some(block.le32(144).into());
    let devices = block.le64(136);
    if devices > 1 {
        // The size above is that of all; this one's own stands in what follows its number.
        probe.size = Some(block.le64(btrfs::DEVICE + 8));
        probe.detail = devices.to_string();
    }
    Some(probe)
}

pub(super) fn bcachefs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    const MAGIC: &[u8] = &[
        0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7,
        0xef,
    ];
    const OLD_MAGIC: &[u8] = &[
        0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d,
        0x81,
    ];
    let block = fetch(source, 4096, 512)?;
    if !block.has(24, MAGIC) && !block.has(24, OLD_MAGIC) {
        return None;
    }
    let mut probe = Probe::file_system("bcachefs")
        .label(block.text(72, 32))
        .uuid(block.uuid(56))
        .state(block.le64(144) & 2 != 0, "the journal has to be replayed");
    probe.block_size = Some(u64::from(block.le16(120)) * 512);
    Some(probe)
}

pub(super) fn f2fs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 1024, F2FS_SECOND_DEVICE + 1)?;
    if block.le32(0) != 0xf2f5_2010 {
        return None;
    }
    let mut probe = Probe::file_system("f2fs")
        .label(block.utf16(124, 1024))
        .uuid(block.uuid(108))
        .folding(block.le32(2180) & F2FS_CASEFOLD != 0)
        .blocks(block.le64(36), block_size(1, block.le32(16)));
    if block.byte(F2FS_SECOND_DEVICE) != 0 {
        // The count of blocks is that of all devices.
        probe.size = None;
    }
    Some(probe)
}

pub(super) fn jfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 32768, 184)?;
    if !block.has(0, b"JFS1") {
        return None;
    }
    let mut probe = Probe::file_system("jfs")
        .label(block.text(152, 16))
        .uuid(block.uuid(136))
        .state(block.le32(40) == 0, "the journal has to be replayed");
    probe.size = block.le64(8).checked_mul(block.le32(24).into());
    probe.block_size = Some(block.le32(16).into());
    Some(probe)
}

pub(super) fn nilfs2(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 1024, 1024)?;
    if block.le16(6) != 0x3434 || !(128..=1024).contains(&block.le16(8)) {
        return None;
    }
    let mut probe = Probe::file_system("nilfs2")
        .label(block.text(168, 80))
        .uuid(block.uuid(152))
        .state(block.le16(116) & 3 == 1, "not unmounted");
    probe.size = Some(block.le64(32));
    probe.block_size = Some(block_size(1024, block.le32(20)));
    Some(probe)
}

pub(super) fn reiserfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    [65536, 8192].into_iter().find_map(|offset| {
        let block = fetch(source, offset, 204)?;
        let known = [b"ReIsErFs\0".as_slice(), b"ReIsEr2Fs", b"ReIsEr3Fs"];
        if !known.iter().any(|magic| block.has(52, magic)) {
            return None;
        }
        Some(
            Probe::file_system("reiserfs")
                .label(block.text(100, 16))
                .uuid(block.uuid(84))
                .blocks(block.le32(0).into(), block.le16(44).into())
                .state(block.le16(50) == 1, "the journal has to be replayed"),
        )
    })
}
