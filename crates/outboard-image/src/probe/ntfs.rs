// SPDX-License-Identifier: GPL-2.0-only
//! NTFS. Label and state are attributes of the file $Volume, record 3 of the master file table.

use super::found::Probe;
use crate::block::{fetch, Block};
use crate::source::Source;

const VOLUME_RECORD: u64 = 3;
const VOLUME_NAME: u32 = 0x60;
const VOLUME_INFORMATION: u32 = 0x70;
const DIRTY: u16 = 1;

/// A count of clusters, or minus the binary logarithm of a size in bytes.
fn clusters(value: u8, cluster: u64) -> Option<u64> {
    match value as i8 {
        count @ 1.. => cluster.checked_mul(count as u64),
        shift @ -31..=-1 => Some(1 << -i32::from(shift)),
        _ => None,
    }
}

/// The resident value of the record's first attribute of this type: offset and length.
fn attribute(record: &Block, kind: u32) -> Option<(usize, usize)> {
    let mut at = usize::from(record.le16(20));
    while at + 24 <= record.len() && record.le32(at) != u32::MAX {
        if record.le32(at) == kind && record.byte(at + 8) == 0 {
            return Some((
                at + usize::from(record.le16(at + 20)),
                record.le32(at + 16) as usize,
            ));
        }
        match record.le32(at + 4) as usize {
            length if length >= 24 => at = at.checked_add(length)?,
            _ => return None,
        }
    }
    None
}

fn volume_record(source: &(impl Source + ?Sized), boot: &Block, cluster: u64) -> Option<Block> {
    let size = clusters(boot.byte(64), cluster)?;
    if !(512..=65536).contains(&size) {
        return None;
    }
    let table = boot.le64(48).checked_mul(cluster)?;
    let record = fetch(
        source,
        table.checked_add(VOLUME_RECORD * size)?,
        size as usize,
    )?;
    record.has(0, b"FILE").then_some(record)
}

pub(super) fn ntfs(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let boot = fetch(source, 0, 512)?;
    let sector = u64::from(boot.le16(11));
    if !boot.has(3, b"NTFS    ") || !(256..=4096).contains(&sector) {
        return None;
    }
    let cluster = match boot.byte(13) {
        count @ 1..=0x80 => sector * u64::from(count),
        shift => 1u64
            .checked_shl(256 - u32::from(shift))?
            .checked_mul(sector)?,
    };
    let id = boot.le64(72);
    // A copy of the boot sector follows the counted sectors. An image without it is whole: the copy
    // has nothing of its own.
    let counted = boot.le64(40);
    let sectors = if source.size() / sector == counted {
        counted
    } else {
        counted.saturating_add(1)
    };
    let mut probe = Probe::file_system("ntfs")
        .uuid((id != 0).then(|| format!("{id:016X}")))
        .blocks(sectors, sector);
    probe.block_size = Some(cluster);
    if let Some(record) = volume_record(source, &boot, cluster) {
        if let Some((at, length)) = attribute(&record, VOLUME_NAME) {
            probe.label = record.utf16(at, length);
        }
        if let Some((at, _)) = attribute(&record, VOLUME_INFORMATION) {
            probe = probe.state(record.le16(at + 10) & DIRTY == 0, "marked as dirty");
        }
    }
    Some(probe)
}
