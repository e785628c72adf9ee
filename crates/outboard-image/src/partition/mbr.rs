// SPDX-License-Identifier: GPL-2.0-only
//! PC partition tables: four primary partitions, one of which may hold a chain of logical ones.

use super::names::mbr_type_name;
use super::table::{sector_sizes, Partition, Table, TableKind, MOST};
use crate::block::{fetch, Block};
use crate::probe::{recognise, Class, Probe};
use crate::source::{Slice, Source};
use std::collections::HashSet;

const ENTRIES: usize = 446;
const ENTRY: usize = 16;
/// The type of an entry that only says: this disk has a GPT.
const PROTECTIVE: u8 = 0xee;
/// Most links of a chain of logical partitions to follow.
const CHAIN: usize = 128;
const FIRST_LOGICAL: u32 = 5;

#[derive(Clone, Copy)]
struct MbrEntry {
    flag: u8,
    kind: u8,
    first: u64,
    sectors: u64,
}

fn entry(block: &Block, index: usize) -> MbrEntry {
    let at = ENTRIES + index * ENTRY;
    MbrEntry {
        flag: block.byte(at),
        kind: block.byte(at + 4),
        first: block.le32(at + 8).into(),
        sectors: block.le32(at + 12).into(),
    }
}

impl MbrEntry {
    fn used(&self) -> bool {
        self.kind != 0 && self.sectors != 0
    }

    fn extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85)
    }
}

/// A FAT, exFAT or NTFS boot sector ends like an MBR, but has no partitions in it.
fn is_boot_sector(block: &Block) -> bool {
    let jump = matches!(block.byte(0), 0xeb | 0xe9);
    let named = block.has(3, b"NTFS    ") || block.has(3, b"EXFAT   ");
    let sector = block.le16(11);
    let fat = (512..=4096).contains(&sector)
        && sector.is_power_of_two()
        && block.byte(13).is_power_of_two()
        && block.le16(14) != 0
        && matches!(block.byte(16), 1 | 2)
        && matches!(block.byte(21), 0xf0 | 0xf8..=0xff);
    jump && (named || fat)
}

/// The sector of an MBR, and its used entries with their numbers.
fn primary(source: &(impl Source + ?Sized)) -> Option<(Block, Vec<(u32, MbrEntry)>)> {
    let block = fetch(source, 0, 512)?;
    if block.le16(510) != 0xaa55 || is_boot_sector(&block) {
        return None;
    }
    let all = (0..4).map(|index| (index as u32 + 1, entry(&block, index)));
    let (used, unused): (Vec<_>, Vec<_>) = all.partition(|(_, entry)| entry.used());
    let flags = used.iter().chain(&unused).map(|(_, entry)| entry.flag);
    let good = !used.is_empty()
        && flags.into_iter().all(|flag| flag & 0x7f == 0)
        && used.iter().all(|(_, entry)| entry.first != 0);
    good.then_some((block, used))
}

/// An MBR's protection of a GPT.
pub(super) enum Protection {
    /// The disk has one.
    Whole,
    /// It should, but the entry is not where it belongs.
    Odd,
}

/// `None`: no entry of this disk speaks of a GPT.
pub(super) fn protection(source: &(impl Source + ?Sized)) -> Option<Protection> {
    let block = fetch(source, 0, 512)?;
    let is_whole = |entry: MbrEntry| entry.kind == PROTECTIVE && entry.first == 1;
    if block.le16(510) == 0xaa55 && (0..4).any(|index| is_whole(entry(&block, index))) {
        return Some(Protection::Whole);
    }
    let (_, entries) = primary(source)?;
    let mut kinds = entries.iter().map(|(_, entry)| entry.kind);
    kinds
        .any(|kind| kind == PROTECTIVE)
        .then_some(Protection::Odd)
}

/// The bytes of an MBR that only says: this disk has a GPT.
pub(super) fn protective() -> Vec<u8> {
    let mut bytes = vec![0; 512];
    // As the UEFI specification has it: it begins behind the MBR, and has all cylinders.
    bytes[ENTRIES..ENTRIES + 8].copy_from_slice(&[0, 0, 2, 0, PROTECTIVE, 0xff, 0xff, 0xff]);
    bytes[ENTRIES + 8] = 1;
    bytes[510..].copy_from_slice(&[0x55, 0xaa]);
    bytes
}

/// The bytes of an MBR of a disk with so many sectors. One with partitions of its own stays as it
/// is.
pub(super) fn covering(bytes: &[u8], sectors: u64) -> Vec<u8> {
    let block = Block::from(bytes.to_vec());
    let mut covering = bytes.to_vec();
    let used = |&index: &usize| entry(&block, index).kind != 0;
    let mut used = (0..4).filter(used);
    if let (Some(index), None) = (used.next(), used.next()) {
        let rest = u32::try_from(sectors.saturating_sub(1)).unwrap_or(u32::MAX);
        let at = ENTRIES + index * ENTRY + 12;
        covering[at..at + 4].copy_from_slice(&rest.to_le_bytes());
    }
    covering
}

/// Reads the table. Nothing in it tells the size of a sector. It is the disk's own, unless all
/// partitions lie inside of the disk with another size only, or contents fit to another size only.
pub(super) fn read(source: &(impl Source + ?Sized)) -> Option<Table> {
    let (block, entries) = primary(source)?;
    let sizes = sector_sizes(source).into_iter();
    let mut tables: Vec<Table> = sizes
        .filter_map(|sector| read_with(source, &block, &entries, sector))
        .collect();
    let lies_inside = |table: &Table| {
        let end = |partition: &Partition| partition.start.saturating_add(partition.size);
        let mut partitions = table.partitions.iter();
        partitions.all(|partition| end(partition) <= source.size())
    };
    if tables.iter().any(lies_inside) {
        tables.retain(lies_inside);
    }
    let known = |table: &Table| contents(source, table).next().is_some();
    let fits = |table: &Table| contents(source, table).any(|(size, found)| belongs(size, &found));
    let chosen = match tables.as_slice() {
        [first, others @ ..] if !others.is_empty() && !known(first) => {
            others.iter().position(fits).map_or(0, |index| index + 1)
        }
        _ => 0,
    };
    (chosen < tables.len()).then(|| tables.swap_remove(chosen))
}

/// Contents of the partitions, with their sizes.
fn contents<'a>(
    source: &'a (impl Source + ?Sized),
    table: &'a Table,
) -> impl Iterator<Item = (u64, Probe)> + 'a {
    let partitions = table.partitions.iter();
    let with_contents = partitions.filter(|partition| !partition.extended);
    with_contents.filter_map(move |partition| {
        let slice = Slice::new(source, partition.start, partition.size);
        Some((partition.size, recognise(&slice)?))
    })
}

/// Whether a partition of this size was made for its contents: a file system fills it, but for a
/// sixteenth of it at most, or it is one layer without a size, such as LUKS. The copy of a
/// superblock, of a file system that was on the disk before, has another size.
fn belongs(size: u64, found: &Probe) -> bool {
    match found.size {
        Some(has) => has <= size && has >= size - size / 16,
        None => found.class == Class::Container,
    }
}

/// The table, if all partitions begin inside of the disk with sectors of this size.
fn read_with(
    source: &(impl Source + ?Sized),
    block: &Block,
    entries: &[(u32, MbrEntry)],
    sector: u64,
) -> Option<Table> {
    let is_inside = |entry: &MbrEntry| entry.first.saturating_mul(sector) < source.size();
    if !entries.iter().all(|(_, entry)| is_inside(entry)) {
        return None;
    }
    let disk = block.le32(440);
    let id = (disk != 0).then(|| format!("{disk:08x}"));
    let mut table = Table::new(TableKind::Mbr, id, sector);
    for (number, entry) in entries {
        let partition = partition(*entry, entry.first, *number, sector, disk);
        table.partitions.push(partition);
    }
    let mut number = FIRST_LOGICAL;
    for (_, extended) in entries.iter().filter(|(_, entry)| entry.extended()) {
        number = read_chain(source, extended, number, disk, &mut table);
    }
    Some(table)
}

/// Follows a chain of logical partitions, and numbers them from `number` on. Returns the next
/// number. As in Linux, each entry with sectors takes a number, even if it is no partition for this
/// program; the third and the fourth one of a link only if they lie inside of it.
fn read_chain(
    source: &(impl Source + ?Sized),
    extended: &MbrEntry,
    mut number: u32,
    disk: u32,
    table: &mut Table,
) -> u32 {
    let (base, end) = (extended.first, extended.first + extended.sectors);
    let (mut at, mut room) = (base, extended.sectors);
    let mut seen = HashSet::new();
    while seen.len() < CHAIN && seen.insert(at) {
        let Some(block) = fetch(source, at.saturating_mul(table.sector_size), 512) else {
            break;
        };
        if block.le16(510) != 0xaa55 {
            break;
        }
        let entries = [0, 1, 2, 3].map(|index| entry(&block, index));
        for (index, entry) in entries.iter().enumerate() {
            let first = at + entry.first;
            let is_inside = entry.first + entry.sectors <= room
                && (base..=end).contains(&(first + entry.sectors));
            if entry.sectors == 0 || entry.extended() || index >= 2 && !is_inside {
                continue;
            }
            if number as usize > MOST {
                return number;
            }
            if entry.used() && entry.kind != PROTECTIVE {
                let found = partition(*entry, first, number, table.sector_size, disk);
                table.partitions.push(found);
            }
            number += 1;
        }
        let mut links = entries.iter().filter(|entry| entry.used());
        match links.find(|entry| entry.extended()) {
            Some(next) => (at, room) = (base + next.first, next.sectors),
            None => return number,
        }
    }
    table
        .warnings
        .push("the chain of logical partitions is damaged".to_owned());
    number
}

fn partition(entry: MbrEntry, first: u64, number: u32, sector: u64, disk: u32) -> Partition {
    Partition {
        number,
        start: first.saturating_mul(sector),
        size: entry.sectors.saturating_mul(sector),
        type_id: format!("0x{:02x}", entry.kind),
        type_name: mbr_type_name(entry.kind),
        name: None,
        uuid: (disk != 0).then(|| format!("{disk:08x}-{number:02x}")),
        extended: entry.extended(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(image: &mut [u8], sector: usize, index: usize, kind: u8, first: u32, sectors: u32) {
        let at = sector * 512 + ENTRIES + index * ENTRY;
        image[at + 4] = kind;
        image[at + 8..at + 12].copy_from_slice(&first.to_le_bytes());
        image[at + 12..at + 16].copy_from_slice(&sectors.to_le_bytes());
        image[sector * 512 + 510..][..2].copy_from_slice(&[0x55, 0xaa]);
    }

    fn disk() -> Vec<u8> {
        let mut image = vec![0u8; 200 * 512];
        put(&mut image, 0, 1, 0x83, 10, 20);
        put(&mut image, 0, 3, 0x05, 100, 100);
        put(&mut image, 100, 0, 0x83, 1, 9);
        put(&mut image, 100, 1, 0x05, 50, 50);
        put(&mut image, 150, 0, 0x82, 2, 8);
        image
    }

    #[test]
    fn primary_and_logical_partitions() {
        let table = read(disk().as_slice()).unwrap();
        let found: Vec<(u32, u64, u64)> = table
            .partitions
            .iter()
            .map(|p| (p.number, p.start / 512, p.size / 512))
            .collect();
        assert_eq!(
            found,
            [(2, 10, 20), (4, 100, 100), (5, 101, 9), (6, 152, 8)]
        );
        assert!(table.warnings.is_empty());
        assert!(table.partitions[1].extended);
    }

    #[test]
    fn a_protective_entry_in_the_chain_is_no_partition() {
        let mut image = disk();
        put(&mut image, 100, 0, PROTECTIVE, 1, 9);
        assert_eq!(numbers(&image), [2, 4, 6]);
    }

    fn numbers(image: &[u8]) -> Vec<u32> {
        let table = read(image).unwrap();
        table.partitions.iter().map(|p| p.number).collect()
    }

    /// Linux's own numbers for such tables.
    #[test]
    fn odd_chains_are_numbered_as_by_linux() {
        // An entry without a type, two partitions in one link, and more that lie inside or not.
        let mut image = disk();
        put(&mut image, 100, 0, 0, 1, 9);
        assert_eq!(numbers(&image), [2, 4, 6]);
        let mut image = disk();
        put(&mut image, 150, 1, 0x83, 20, 8);
        put(&mut image, 150, 2, 0x83, 30, 8);
        put(&mut image, 150, 3, 0x83, 40, 11);
        assert_eq!(numbers(&image), [2, 4, 5, 6, 7, 8]);
        // A second chain.
        let mut image = disk();
        put(&mut image, 0, 2, 0x0f, 40, 30);
        put(&mut image, 40, 0, 0x83, 1, 5);
        assert_eq!(numbers(&image), [2, 3, 4, 5, 6, 7]);
        let starts: Vec<u64> = read(image.as_slice()).unwrap().partitions[3..]
            .iter()
            .map(|p| p.start / 512)
            .collect();
        assert_eq!(starts, [41, 101, 152]);
    }

    #[test]
    fn a_chain_that_is_a_ring_ends() {
        let mut image = disk();
        put(&mut image, 150, 1, 0x05, 0, 1);
        let table = read(image.as_slice()).unwrap();
        assert_eq!(table.partitions.len(), 4);
        assert_eq!(table.warnings.len(), 1);
    }

    #[test]
    fn no_table_in_boot_code_or_nonsense() {
        let mut image = disk();
        image[446] = 0x33;
        assert!(read(image.as_slice()).is_none());
        assert!(read([0u8; 512].as_slice()).is_none());
        assert!(read([0u8; 10].as_slice()).is_none());
    }

    #[test]
    fn contents_tell_the_size_of_a_sector() {
        let mut image = vec![0u8; 300 * 4096];
        put(&mut image, 0, 0, 0x83, 10, 20);
        let table = read(image.as_slice()).unwrap();
        assert_eq!((table.sector_size, table.partitions[0].start), (512, 5120));
        // An ext4 where the partition is on a disk with sectors of 4096 bytes.
        let superblock = 10 * 4096 + 1024;
        image[superblock + 56..][..2].copy_from_slice(&[0x53, 0xef]);
        assert_eq!(read(image.as_slice()).unwrap().sector_size, 512);
        image[superblock + 4] = 80;
        let table = read(image.as_slice()).unwrap();
        let partition = &table.partitions[0];
        assert_eq!((table.sector_size, partition.start), (4096, 40960));
        assert_eq!(partition.size, 20 * 4096);
        put(&mut image, 0, 1, 0x83, 500, 1800);
        assert_eq!(read(image.as_slice()).unwrap().sector_size, 512);
    }

    #[test]
    fn layers_tell_the_size_of_a_sector() {
        let mut image = vec![0u8; 300 * 4096];
        put(&mut image, 0, 0, 0x83, 10, 20);
        assert_eq!(read(image.as_slice()).unwrap().sector_size, 512);
        image[10 * 4096..][..8].copy_from_slice(b"LUKS\xba\xbe\0\x02");
        let found = recognise(&Slice::new(image.as_slice(), 40960, 81920));
        assert_eq!(found.map(|probe| probe.kind), Some("crypto_LUKS"));
        assert_eq!(read(image.as_slice()).unwrap().sector_size, 4096);
    }

    #[test]
    fn a_chain_of_larger_sectors() {
        let mut image = vec![0u8; 200 * 4096];
        let small = disk();
        for sector in [0usize, 100, 150] {
            image[sector * 4096..][..512].copy_from_slice(&small[sector * 512..][..512]);
        }
        // An ext4 fills partition 5: sectors 101 to 109.
        let superblock = 101 * 4096 + 1024;
        image[superblock + 56..][..2].copy_from_slice(&[0x53, 0xef]);
        image[superblock + 4] = 36;
        let table = read(image.as_slice()).unwrap();
        assert_eq!(table.sector_size, 4096);
        let found: Vec<(u32, u64, u64)> = table
            .partitions
            .iter()
            .map(|p| (p.number, p.start / 4096, p.size / 4096))
            .collect();
        assert_eq!(
            found,
            [(2, 10, 20), (4, 100, 100), (5, 101, 9), (6, 152, 8)]
        );
        assert!(table.warnings.is_empty());
    }
}
