// SPDX-License-Identifier: GPL-2.0-only
//! File systems that are written once: squashfs, erofs, cramfs, romfs.

use super::found::{block_size, EndianField, Probe};
use crate::block::fetch;
use crate::source::Source;

pub(super) fn squashfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 0, 96)?;
    if !block.has(0, b"hsqs") || block.le16(28) != 4 {
        return None;
    }
    let mut probe = Probe::file_system("squashfs");
    probe.size = Some(block.le64(40));
    probe.block_size = Some(block.le32(12).into());
    Some(probe)
}

pub(super) fn erofs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 1024, 128)?;
    if block.le32(0) != 0xe0f5_e1e2 {
        return None;
    }
    Some(
        Probe::file_system("erofs")
            .label(block.text(64, 16))
            .uuid(block.uuid(48))
            .blocks(block.le32(36).into(), block_size(1, block.byte(12).into())),
    )
}

pub(super) fn cramfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 0, 76)?;
    let order = EndianField::of(&block, 0, 0x28cd_3d45)?;
    if !block.has(16, b"Compressed ROMFS") {
        return None;
    }
    let mut probe = Probe::file_system("cramfs").label(block.text(48, 16));
    probe.size = Some(order.get32(&block, 4).into());
    Some(probe)
}

pub(super) fn romfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 0, 32)?;
    if !block.has(0, b"-rom1fs-") {
        return None;
    }
    let mut probe = Probe::file_system("romfs").label(block.text(16, 16));
    probe.size = Some(block.be32(8).into());
    Some(probe)
}
