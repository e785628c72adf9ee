// SPDX-License-Identifier: GPL-2.0-only
//! HFS and HFS+.

use super::Probe;
use crate::block::fetch;
use crate::source::Source;

const HFS: u16 = 0x4244;
const HFS_PLUS: u16 = 0x482b;
const HFSX: u16 = 0x4858;
/// In a volume's attributes: unmounted.
const UNMOUNTED: u32 = 1 << 8;

pub(super) fn hfsplus(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let mut block = fetch(source, 1024, 512)?;
    if block.be16(0) == HFS && matches!(block.be16(124), HFS_PLUS | HFSX) {
        let unit = u64::from(block.be32(20));
        let start =
            u64::from(block.be16(28)) * 512 + u64::from(block.be16(126)).checked_mul(unit)?;
        block = fetch(source, start.checked_add(1024)?, 512)?;
    }
    if !matches!(block.be16(0), HFS_PLUS | HFSX) || !matches!(block.be16(2), 4 | 5) {
        return None;
    }
    let id = block.be64(104);
    Some(
        Probe::file_system("hfsplus")
            .uuid((id != 0).then(|| format!("{id:016x}")))
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
            .blocks(block.be16(18).into(), size)
            .state(u32::from(block.be16(10)) & UNMOUNTED != 0, "not unmounted"),
    )
}
