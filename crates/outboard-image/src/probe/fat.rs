// SPDX-License-Identifier: GPL-2.0-only
//! FAT (12, 16 and 32 bits) and exFAT.

use super::found::{block_size, Probe};
use crate::block::{fetch, serial, Block};
use crate::source::Source;

const ENTRY: usize = 32;
const ATTRIBUTES: usize = 11;
const LONG_NAME: u8 = 0x0f;
const VOLUME_LABEL: u8 = 0x08;
/// Most bytes of a root directory in which the label is looked for.
const ROOT_LIMIT: u64 = 65536;

struct Fat {
    sector: u64,
    cluster: u64,
    fat_start: u64,
    fats: u64,
    fat_sectors: u64,
    root_entries: u64,
    sectors: u64,
    root_cluster: Option<u64>,
}

impl Fat {
    fn parse(boot: &Block) -> Option<Self> {
        let sector = boot.le16(11);
        let good = matches!(boot.byte(0), 0xeb | 0xe9)
            && boot.le16(510) == 0xaa55
            && (512..=4096).contains(&sector)
            && sector.is_power_of_two()
            && boot.byte(13).is_power_of_two()
            && boot.le16(14) != 0
            && boot.byte(16) != 0
            && matches!(boot.byte(21), 0xf0 | 0xf8..=0xff);
        if !good {
            return None;
        }
        let wide = boot.le16(22) == 0;
        let fat_sectors = if wide {
            boot.le32(36)
        } else {
            boot.le16(22).into()
        };
        let sectors = match boot.le16(19) {
            0 => boot.le32(32),
            small => small.into(),
        };
        if fat_sectors == 0 || sectors == 0 {
            return None;
        }
        Some(Self {
            sector: sector.into(),
            cluster: boot.byte(13).into(),
            fat_start: boot.le16(14).into(),
            fats: boot.byte(16).into(),
            fat_sectors: fat_sectors.into(),
            root_entries: boot.le16(17).into(),
            sectors: sectors.into(),
            root_cluster: wide.then(|| boot.le32(44).into()),
        })
    }

    /// The root directory, or its first cluster: offset and length in bytes.
    fn root(&self) -> (u64, u64) {
        let after_fats = self.fat_start + self.fats * self.fat_sectors;
        match self.root_cluster {
            Some(cluster) => {
                let sector = after_fats + cluster.saturating_sub(2) * self.cluster;
                (sector * self.sector, self.cluster * self.sector)
            }
            None => (after_fats * self.sector, self.root_entries * ENTRY as u64),
        }
    }
}

fn label_in(root: &Block) -> Option<String> {
    for at in (0..root.len()).step_by(ENTRY) {
        let attributes = root.byte(at + ATTRIBUTES);
        match root.byte(at) {
            0 => return None,
            0xe5 => {}
            _ if attributes & LONG_NAME == LONG_NAME => {}
            _ if attributes & VOLUME_LABEL != 0 => return root.text(at, 11),
            _ => {}
        }
    }
    None
}

pub(super) fn vfat(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let boot = fetch(source, 0, 512)?;
    let fat = Fat::parse(&boot)?;
    let extended = if fat.root_cluster.is_some() { 64 } else { 36 };
    let signed = matches!(boot.byte(extended + 2), 0x28 | 0x29);
    let (offset, length) = fat.root();
    let label = fetch(source, offset, length.min(ROOT_LIMIT) as usize)
        .and_then(|root| label_in(&root))
        .or_else(|| boot.text(extended + 7, 11).filter(|_| signed))
        .filter(|label| label != "NO NAME");
    Some(
        Probe::file_system("vfat")
            .label(label)
            .uuid(serial(boot.le32(extended + 3)).filter(|_| signed))
            .blocks(fat.sectors, fat.sector)
            .state(boot.byte(extended + 1) & 1 == 0, "not unmounted"),
    )
}

pub(super) fn exfat(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let boot = fetch(source, 0, 512)?;
    if !boot.has(3, b"EXFAT   ") || boot.le16(510) != 0xaa55 {
        return None;
    }
    let sector = block_size(1, boot.byte(108).into());
    let cluster = block_size(sector, boot.byte(109).into());
    let root = u64::from(boot.le32(88)).checked_mul(sector)?.checked_add(
        u64::from(boot.le32(96))
            .saturating_sub(2)
            .checked_mul(cluster)?,
    )?;
    let label = fetch(source, root, cluster.min(ROOT_LIMIT) as usize).and_then(|root| {
        let at = (0..root.len())
            .step_by(ENTRY)
            .take_while(|&at| root.byte(at) != 0)
            .find(|&at| root.byte(at) == 0x83)?;
        root.utf16(at + 2, usize::from(root.byte(at + 1).min(11)) * 2)
    });
    Some(
        Probe::file_system("exfat")
            .label(label)
            .uuid(serial(boot.le32(100)))
            .blocks(boot.le64(72), sector)
            .state(boot.le16(106) & 2 == 0, "not unmounted"),
    )
}
