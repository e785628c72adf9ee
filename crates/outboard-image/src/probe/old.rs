// SPDX-License-Identifier: GPL-2.0-only
//! File systems of other and older systems.

use super::found::{block_size, EndianField, Probe};
use crate::block::fetch;
use crate::source::Source;

pub(super) fn hpfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 16 * 512, 1024)?;
    if block.le32(0) != 0xf995_e849 || block.le32(4) != 0xfa53_e9c5 {
        return None;
    }
    Some(
        Probe::file_system("hpfs")
            .blocks(block.le32(16).into(), 512)
            .state(block.byte(512 + 8) & 1 == 0, "not unmounted"),
    )
}

/// Names the variants as the kernel's option `ufstype` does.
pub(super) fn ufs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    const UFS1: u32 = 0x0001_1954;
    const UFS2: u32 = 0x1954_0119;
    const MAGIC: usize = 1372;
    [65536, 8192, 0, 262_144].into_iter().find_map(|offset| {
        let block = fetch(source, offset, MAGIC + 4)?;
        let (order, second) = EndianField::of(&block, MAGIC, UFS2)
            .map(|order| (order, true))
            .or_else(|| EndianField::of(&block, MAGIC, UFS1).map(|order| (order, false)))?;
        let fragments = if second {
            order.get64(&block, 1080)
        } else {
            order.get32(&block, 36).into()
        };
        let id = (order.get32(&block, 144), order.get32(&block, 148));
        let mut probe = Probe::file_system("ufs")
            .label(block.text(680, 32).filter(|_| second))
            .uuid((id != (0, 0)).then(|| format!("{:08x}{:08x}", id.0, id.1)))
            .blocks(fragments, order.get32(&block, 52).into());
        probe.block_size = Some(order.get32(&block, 48).into());
        probe.detail = match (second, order.big) {
            (true, _) => "ufs2",
            (false, true) => "sun",
            (false, false) => "44bsd",
        }
        .to_owned();
        Some(probe)
    })
}

pub(super) fn befs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    [512, 0].into_iter().find_map(|offset| {
        let block = fetch(source, offset, 512)?;
        let order = EndianField::of(&block, 32, 0x4246_5331)?;
        if order.get32(&block, 68) != 0xdd12_1031 {
            return None;
        }
        Some(
            Probe::file_system("befs")
                .label(block.text(0, 32))
                .blocks(order.get64(&block, 48), order.get32(&block, 40).into())
                .state(
                    order.get32(&block, 84) == 0x434c_454e,
                    "the journal has to be replayed",
                ),
        )
    })
}

pub(super) fn qnx4(source: &(impl Source + ?Sized)) -> Option<Probe> {
    const DIRECTORY: u16 = 0o040000;
    let block = fetch(source, 512, 64)?;
    let root = block.has(0, b"/\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    (root && block.le16(50) & 0o170000 == DIRECTORY).then(|| Probe::file_system("qnx4"))
}

pub(super) fn qnx6(source: &(impl Source + ?Sized)) -> Option<Probe> {
    [0x2000, 0].into_iter().find_map(|offset| {
        let block = fetch(source, offset, 512)?;
        let order = EndianField::of(&block, 0, 0x6819_1122)?;
        Some(Probe::file_system("qnx6").uuid(block.uuid(32)).blocks(
            order.get32(&block, 60).into(),
            order.get32(&block, 48).into(),
        ))
    })
}

pub(super) fn omfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 0, 288)?;
    if block.be32(272) != 0xc299_3d87 {
        return None;
    }
    Some(Probe::file_system("omfs").blocks(block.be64(264), block.be32(276).into()))
}

pub(super) fn vxfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    [1024, 8192].into_iter().find_map(|offset| {
        let block = fetch(source, offset, 64)?;
        let order = EndianField::of(&block, 0, 0xa501_fcf5)?;
        (2..=4)
            .contains(&order.get32(&block, 4))
            .then(|| Probe::file_system("vxfs"))
    })
}

pub(super) fn efs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 512, 92)?;
    if !matches!(block.be32(28), 0x0007_2959 | 0x0007_295a) {
        return None;
    }
    Some(
        Probe::file_system("efs")
            .label(block.text(32, 6))
            .blocks(block.be32(0).into(), 512)
            .state(block.be16(20) == 0, "not unmounted"),
    )
}

pub(super) fn bfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 0, 512)?;
    let (start, end) = (block.le32(4), block.le32(8));
    if block.le32(0) != 0x1bad_face || start < 512 || end <= start {
        return None;
    }
    let mut probe = Probe::file_system("bfs");
    probe.size = Some(u64::from(end) + 1);
    Some(probe)
}

/// System V releases 2 and 4, and Xenix.
pub(super) fn sysv(source: &(impl Source + ?Sized)) -> Option<Probe> {
    [
        512u64,
        1024,
        9 * 1024 + 512,
        15 * 1024 + 512,
        18 * 1024 + 512,
    ]
    .into_iter()
    .find_map(|offset| {
        let block = fetch(source, offset, 512)?;
        let order = EndianField::of(&block, 504, 0xfd18_7e20)?;
        let kind = order.get32(&block, 508);
        (1..=3).contains(&kind).then(|| {
            let mut probe = Probe::file_system("sysv");
            probe.block_size = Some(block_size(512, kind - 1));
            probe
        })
    })
    .or_else(|| {
        let block = fetch(source, 1024, 1024)?;
        EndianField::of(&block, 1016, 0x002b_5544)?;
        Some(Probe::file_system("xenix"))
    })
}

pub(super) fn adfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    const RECORD: usize = 0x1c0;
    let block = fetch(source, 0xc00, 512)?;
    let sum = block.bytes(0, 511).iter().rev().fold(0u32, |sum, &byte| {
        (sum & 0xff) + (sum >> 8) + u32::from(byte)
    });
    let shift = block.byte(RECORD);
    if sum as u8 != block.byte(511) || !(8..=10).contains(&shift) || block.byte(RECORD + 1) == 0 {
        return None;
    }
    // As Linux does. The sum has one byte only, which is right by chance in noise, too.
    let identifier_bits = block.byte(RECORD + 4);
    let reserved = block.bytes(RECORD + 52, 8);
    if !(shift + 3..=19).contains(&identifier_bits) || reserved.iter().any(|&byte| byte != 0) {
        return None;
    }
    let mut probe = Probe::file_system("adfs").label(block.text(RECORD + 22, 10));
    probe.size = Some(block.le32(RECORD + 16).into());
    probe.block_size = Some(block_size(1, shift.into()));
    Some(probe)
}

/// The root block is in the middle of the disk.
pub(super) fn affs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let boot = fetch(source, 0, 4)?;
    if !boot.has(0, b"DOS") || boot.byte(3) > 7 {
        return None;
    }
    let mut probe = Probe::file_system("affs");
    for size in [512u64, 1024, 2048, 4096] {
        let count = source.size() / size;
        let middle = count.div_ceil(2);
        let Some(root) = fetch(source, middle.saturating_mul(size), size as usize) else {
            continue;
        };
        let end = size as usize;
        if root.be32(0) == 2 && root.be32(end - 4) == 1 {
            return Some(
                probe
                    .label(root.pascal(end - 80, 30))
                    .blocks(count, size)
                    .state(root.be32(end - 200) != 0, "not unmounted"),
            );
        }
    }
    probe.block_size = Some(512);
    Some(probe)
}

pub(super) fn minix(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 1024, 32)?;
    let third = block.le16(24) == 0x4d5a;
    let magic = block.le16(16);
    let (zones, maps, shift, size) = match magic {
        0x137f | 0x138f => (block.le16(2).into(), 4, block.le16(10), 1024),
        0x2468 | 0x2478 => (block.le32(20), 4, block.le16(10), 1024),
        _ if third => (block.le32(20), 6, block.le16(12), block.le16(28)),
        _ => return None,
    };
    if zones == 0 || block.le16(maps) == 0 || block.le16(maps + 2) == 0 || shift > 10 {
        return None;
    }
    let zone = block_size(size.into(), shift.into());
    let probe = Probe::file_system("minix").blocks(zones.into(), zone);
    Some(if third {
        probe
    } else {
        probe.state(block.le16(18) & 3 == 1, "not unmounted")
    })
}
