// SPDX-License-Identifier: GPL-2.0-only
//! GUID partition tables (UEFI). The header at sector 1 counts; if it is damaged, its copy in the
//! last sector does. Without a protective MBR the GPT is ignored: a newer table has replaced it.

use super::names::gpt_type_name;
use super::{Partition, Table, TableKind, MOST};
use crate::block::{fetch, Block};
use crate::source::Source;

const HEADER: usize = 92;
const LARGEST_HEADER: u32 = 4096;

struct Header {
    block: Block,
    sector: u64,
}

/// CRC-32 as GPT uses it (IEEE 802.3).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

impl Header {
    fn read(source: &(impl Source + ?Sized), number: u64, sector: u64) -> Option<Self> {
        let offset = number.checked_mul(sector)?;
        let size = fetch(source, offset, HEADER)?.le32(12);
        if !(HEADER as u32..=LARGEST_HEADER).contains(&size) {
            return None;
        }
        let block = fetch(source, offset, size as usize)?;
        let mut bytes = block.bytes(0, size as usize).to_vec();
        bytes[16..20].fill(0);
        let good = block.has(0, b"EFI PART")
            && block.le32(16) == crc32(&bytes)
            && block.le64(24) == number;
        good.then_some(Self { block, sector })
    }

    /// The entries, if their checksum is right.
    fn entries(&self, source: &(impl Source + ?Sized)) -> Option<(Block, usize)> {
        let size = self.block.le32(84) as usize;
        let count = self.block.le32(80) as usize;
        if !(128..=4096).contains(&size) || count > 4 * MOST {
            return None;
        }
        let offset = self.block.le64(72).checked_mul(self.sector)?;
        let entries = fetch(source, offset, size * count)?;
        (crc32(entries.bytes(0, entries.len())) == self.block.le32(88)).then_some((entries, size))
    }
}

/// Whether the MBR protects a GPT. As in Linux, one of its entries must have type 0xEE and begin at
/// sector 1.
fn is_protected(source: &(impl Source + ?Sized)) -> bool {
    fetch(source, 0, 512).is_some_and(|mbr| {
        let protects = |at: usize| mbr.byte(at + 4) == 0xee && mbr.le32(at + 8) == 1;
        mbr.le16(510) == 0xaa55 && (0..4).any(|index| protects(446 + index * 16))
    })
}

pub(super) fn read(source: &(impl Source + ?Sized), sector: u64) -> Option<Table> {
    if !is_protected(source) {
        return None;
    }
    let find = |number: u64| {
        let header = Header::read(source, number, sector)?;
        let (entries, size) = header.entries(source)?;
        Some((header, entries, size))
    };
    let last = (source.size() / sector).checked_sub(1)?;
    let mut warnings = Vec::new();
    let (header, entries, size) = match find(1) {
        Some(found) => found,
        None => {
            warnings.push("the GPT is damaged; its copy at the end is used".to_owned());
            find(last)?
        }
    };
    let mut table = Table::new(TableKind::Gpt, header.block.guid(56));
    table.warnings = warnings;
    for (index, at) in (0..entries.len()).step_by(size).enumerate().take(MOST) {
        if let Some(partition) = partition(&entries, at, index as u32 + 1, sector) {
            table.partitions.push(partition);
        }
    }
    Some(table)
}

fn partition(entries: &Block, at: usize, number: u32, sector: u64) -> Option<Partition> {
    let type_id = entries.guid(at)?;
    let (first, last) = (entries.le64(at + 32), entries.le64(at + 40));
    let sectors = last.checked_sub(first)?.checked_add(1)?;
    Some(Partition {
        number,
        start: first.checked_mul(sector)?,
        size: sectors.checked_mul(sector)?,
        type_name: gpt_type_name(&type_id),
        type_id,
        name: entries.utf16(at + 56, 72),
        uuid: entries.guid(at + 16),
        extended: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A disk of 100 sectors whose partition 2 is sectors 40 to 79.
    fn disk() -> Vec<u8> {
        let mut image = vec![0u8; 100 * 512];
        image[450] = 0xee;
        image[454] = 1;
        put(&mut image, 510, &[0x55, 0xaa]);
        let entry = 2 * 512 + 128;
        put(&mut image, entry, &[1; 16]);
        put(&mut image, entry + 16, &[2; 16]);
        put(&mut image, entry + 32, &40u64.to_le_bytes());
        put(&mut image, entry + 40, &79u64.to_le_bytes());
        put(&mut image, entry + 56, &[b'r', 0, b'o', 0]);
        let entries = crc32(&image[1024..1024 + 4 * 128]);
        for (number, at) in [(1u64, 512), (99, 99 * 512)] {
            put(&mut image, at, b"EFI PART");
            put(&mut image, at + 12, &92u32.to_le_bytes());
            put(&mut image, at + 24, &number.to_le_bytes());
            put(&mut image, at + 72, &2u64.to_le_bytes());
            put(&mut image, at + 80, &4u32.to_le_bytes());
            put(&mut image, at + 84, &128u32.to_le_bytes());
            put(&mut image, at + 88, &entries.to_le_bytes());
            let crc = crc32(&image[at..at + 92]);
            put(&mut image, at + 16, &crc.to_le_bytes());
        }
        image
    }

    #[test]
    fn check_value_of_the_crc() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn reads_entries_with_their_numbers() {
        let table = read(disk().as_slice(), 512).unwrap();
        assert_eq!(table.partitions.len(), 1);
        let partition = &table.partitions[0];
        assert_eq!(
            (partition.number, partition.start, partition.size),
            (2, 40 * 512, 40 * 512)
        );
        assert_eq!(partition.name.as_deref(), Some("ro"));
    }

    #[test]
    fn an_mbr_that_does_not_protect_it_counts() {
        for (at, value) in [(450, 0x83), (450, 0), (454, 2), (510, 0)] {
            let mut image = disk();
            image[at] = value;
            assert!(read(image.as_slice(), 512).is_none(), "{at} {value}");
        }
        let mut hybrid = disk();
        hybrid.copy_within(446..462, 462);
        hybrid[450] = 0x83;
        assert!(read(hybrid.as_slice(), 512).is_some());
    }

    #[test]
    fn falls_back_to_the_copy() {
        let mut image = disk();
        image[512] = 0;
        let table = read(image.as_slice(), 512).unwrap();
        assert_eq!(table.partitions.len(), 1);
        assert_eq!(table.warnings.len(), 1);
        image[99 * 512] = 0;
        assert!(read(image.as_slice(), 512).is_none());
    }
}
