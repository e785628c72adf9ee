// SPDX-License-Identifier: GPL-2.0-only
//! A GPT that can be changed and written again, for sectors of any size.
//!
//! The bytes that no change concerns stay: attributes and names of other partitions, and fields
//! that are unknown. The MBR stays if it has partitions of its own (a hybrid MBR).

use super::gpt::{self, HEADER};
use super::mbr;
use super::table::MOST;
use crate::block::fetch;
use crate::fault::Fault;
use crate::source::{watched, Source};
use std::io;

/// Entries of a new table, and the bytes of each: the size that the UEFI specification asks for.
const ENTRIES: usize = 128;
const ENTRY: usize = 128;
const REVISION: u32 = 0x0001_0000;
const MBR: usize = 512;
/// UTF-16 units of a name.
const NAME: usize = 36;
/// The attribute of a partition that old firmware boots from.
const LEGACY_BOOT: u64 = 1 << 2;

/// A partition of a new entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GptEntry {
    /// The GUID of its type, as the table stores it.
    pub kind: [u8; 16],
    /// Its own GUID.
    pub id: [u8; 16],
    /// Its first sector, and its last.
    pub place: (u64, u64),
    /// Its name: at most 36 units of UTF-16 are kept.
    pub name: String,
    /// Old firmware is to boot from it.
    pub boot: bool,
}

/// The places, header and entries of a GPT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GptLayout {
    sector_size: u64,
    /// Sectors of the disk.
    sectors: u64,
    mbr: Vec<u8>,
    /// The bytes of a header. Its places and checksums are set when it is written.
    header: Vec<u8>,
    entries: Vec<u8>,
    entry_size: usize,
    /// The block at which the entries of the first header begin.
    entries_at: u64,
    first_usable: u64,
    last_usable: u64,
    /// The sector of the copy of the header. The copy of the entries ends before it.
    copy: u64,
}

/// The bytes of a GUID as a GPT stores them: the first three fields are little-endian.
pub fn guid_bytes(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.split('-').collect();
    let mut bytes = [0; 16];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    Some(bytes)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u64::from_le_bytes(*field))
}

impl GptLayout {
    /// An empty table for a disk of so many bytes. `None`: the disk is too small for one.
    pub fn new(sector_size: u64, size: u64, id: [u8; 16]) -> Option<Self> {
        let sectors = size.checked_div(sector_size)?;
        let span = ((ENTRIES * ENTRY) as u64).div_ceil(sector_size);
        let mut header = vec![0; HEADER];
        put(&mut header, 0, b"EFI PART");
        put(&mut header, 8, &REVISION.to_le_bytes());
        put(&mut header, 12, &(HEADER as u32).to_le_bytes());
        put(&mut header, 56, &id);
        put(&mut header, 80, &(ENTRIES as u32).to_le_bytes());
        put(&mut header, 84, &(ENTRY as u32).to_le_bytes());
        let mut layout = Self {
            sector_size,
            sectors,
            mbr: mbr::protective(),
            header,
            entries: vec![0; ENTRIES * ENTRY],
            entry_size: ENTRY,
            entries_at: 2,
            first_usable: 2 + span,
            last_usable: 0,
            copy: 0,
        };
        layout.move_copy(sectors.checked_sub(1)?)?;
        (layout.first_usable <= layout.last_usable).then_some(layout)
    }

    /// The GPT of a disk for sectors of this size. `None`: it has none.
    pub fn read(source: &(impl Source + ?Sized), sector_size: u64) -> io::Result<Option<Self>> {
        watched(source, |source| Self::find(source, sector_size))
    }

    fn find(source: &(impl Source + ?Sized), sector_size: u64) -> Option<Self> {
        let sectors = source.size().checked_div(sector_size)?;
        let last = sectors.checked_sub(1)?;
        let (header, entries, entry_size, is_copy) = match gpt::locate(source, 1, sector_size) {
            Some((header, entries, size)) => (header, entries, size, false),
            None => {
                let (header, entries, size) = gpt::locate(source, last, sector_size)?;
                (header, entries, size, true)
            }
        };
        Some(Self {
            sector_size,
            sectors,
            mbr: fetch(source, 0, MBR)?.bytes(0, MBR).to_vec(),
            entries_at: if is_copy { 2 } else { header.le64(72) },
            first_usable: header.le64(40),
            last_usable: header.le64(48),
            copy: if is_copy { last } else { header.le64(32) },
            header: header.bytes(0, header.len()).to_vec(),
            entries: entries.bytes(0, entries.len()).to_vec(),
            entry_size,
        })
    }

    /// Bytes of a sector.
    pub fn sector_size(&self) -> u64 {
        self.sector_size
    }

    /// Bytes of the disk, in whole sectors.
    pub fn disk_size(&self) -> u64 {
        self.sectors * self.sector_size
    }

    /// The first and the last sector that partitions may have.
    pub fn usable(&self) -> (u64, u64) {
        (self.first_usable, self.last_usable)
    }

    /// Sectors of the entries.
    fn span(&self) -> u64 {
        (self.entries.len() as u64).div_ceil(self.sector_size)
    }

    fn entry(&self, index: usize) -> &[u8] {
        &self.entries[index * self.entry_size..][..self.entry_size]
    }

    fn entry_mut(&mut self, number: u32) -> Option<&mut [u8]> {
        let index = (number as usize).checked_sub(1)?;
        let start = index.checked_mul(self.entry_size)?;
        self.entries.get_mut(start..start + self.entry_size)
    }

    fn count(&self) -> usize {
        (self.entries.len() / self.entry_size).min(MOST)
    }

    fn is_used(&self, index: usize) -> bool {
        self.entry(index)[..16] != [0; 16]
    }

    /// The first and last sectors of all partitions, with their numbers.
    pub fn places(&self) -> Vec<(u32, u64, u64)> {
        let used = (0..self.count()).filter(|&index| self.is_used(index));
        used.map(|index| {
            let entry = self.entry(index);
            (index as u32 + 1, le64(entry, 32), le64(entry, 40))
        })
        .collect()
    }

    /// Adds a partition, with the least free number. `None`: there is no free entry.
    pub fn add(&mut self, new: &GptEntry) -> Option<u32> {
        let number = (0..self.count()).find(|&index| !self.is_used(index))? as u32 + 1;
        let bytes = self.entry_mut(number)?;
        bytes.fill(0);
        put(bytes, 0, &new.kind);
        put(bytes, 16, &new.id);
        put(bytes, 32, &new.place.0.to_le_bytes());
        put(bytes, 40, &new.place.1.to_le_bytes());
        let attributes = if new.boot { LEGACY_BOOT } else { 0 };
        put(bytes, 48, &attributes.to_le_bytes());
        for (index, unit) in new.name.encode_utf16().take(NAME).enumerate() {
            put(bytes, 56 + 2 * index, &unit.to_le_bytes());
        }
        Some(number)
    }

    /// Removes a partition. Its bytes on the disk stay.
    pub fn delete(&mut self, number: u32) {
        if let Some(entry) = self.entry_mut(number) {
            entry.fill(0);
        }
    }

    /// Gives a partition another size. `None`: it has no such partition, or no room for it.
    pub fn set_size(&mut self, number: u32, sectors: u64) -> Option<()> {
        let places = self.places();
        let (_, first, _) = *places.iter().find(|(other, _, _)| *other == number)?;
        let last = first.checked_add(sectors.checked_sub(1)?)?;
        let is_hit = |&(other, start, end): &(u32, u64, u64)| {
            other != number && first <= end && start <= last
        };
        if last > self.last_usable || places.iter().any(is_hit) {
            return None;
        }
        put(self.entry_mut(number)?, 40, &last.to_le_bytes());
        Some(())
    }

    /// Moves the copy to the end of the disk. `None`: the disk is too small.
    pub fn move_copy_to_end(&mut self) -> Option<()> {
        self.move_copy(self.sectors.checked_sub(1)?)
    }

    /// Moves the copy to where the last partition ends. `None`: there is no room.
    pub fn move_copy_to_partitions(&mut self) -> Option<()> {
        let ends = self.places().into_iter().map(|(_, _, last)| last);
        let last = ends.max().unwrap_or(0).max(self.first_usable);
        self.move_copy(last.checked_add(self.span())?.checked_add(1)?)
    }

    fn move_copy(&mut self, copy: u64) -> Option<()> {
        self.last_usable = copy.checked_sub(self.span())?.checked_sub(1)?;
        self.copy = copy;
        Some(())
    }

    /// The bytes to write, with their offsets, in the order in which they are to be written: the
    /// copy, then the table, so that a power cut leaves one of both whole. An error: the table, or
    /// its copy, would overwrite a partition or lie outside of the disk.
    pub fn pieces(&self) -> Result<Vec<(u64, Vec<u8>)>, Fault> {
        let copied = self.copy.checked_sub(self.span());
        let copied = copied.filter(|&at| self.copy < self.sectors && at > self.entries_at);
        let copied = copied.ok_or_else(|| {
            Fault::damaged("the copy of its GPT has no place on the disk".to_owned())
        })?;
        let end = self.entries_at.saturating_add(self.span());
        let is_hit = |&(_, first, last): &(u32, u64, u64)| first < end || last >= copied;
        let is_long = self.header.len() as u64 > self.sector_size;
        if self.entries_at < 2 || end > copied || is_long {
            return Err(Fault::damaged("its GPT has no place on the disk"));
        }
        if let Some((number, _, _)) = self.places().into_iter().find(is_hit) {
            let text = format!("partition {number} overlaps the GPT");
            return Err(Fault::damaged(text));
        }
        Ok(vec![
            self.piece(copied, &self.entries),
            self.piece(self.copy, &self.header_at(self.copy, 1, copied)),
            self.piece(self.entries_at, &self.entries),
            self.piece(1, &self.header_at(1, self.copy, self.entries_at)),
            (0, mbr::covering(&self.mbr, self.sectors)),
        ])
    }

    /// Whole sectors.
    fn piece(&self, sector: u64, bytes: &[u8]) -> (u64, Vec<u8>) {
        let mut whole = bytes.to_vec();
        whole.resize(whole.len().next_multiple_of(self.sector_size as usize), 0);
        (sector * self.sector_size, whole)
    }

    fn header_at(&self, own: u64, other: u64, entries: u64) -> Vec<u8> {
        let mut header = self.header.clone();
        let places = [own, other, self.first_usable, self.last_usable];
        for (index, place) in places.into_iter().enumerate() {
            put(&mut header, 24 + 8 * index, &place.to_le_bytes());
        }
        put(&mut header, 72, &entries.to_le_bytes());
        put(
            &mut header,
            88,
            &crc32fast::hash(&self.entries).to_le_bytes(),
        );
        put(&mut header, 16, &[0; 4]);
        let checksum = crc32fast::hash(&header);
        put(&mut header, 16, &checksum.to_le_bytes());
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::read_table;

    const SECTOR: u64 = 4096;

    fn entry(first: u64, last: u64) -> GptEntry {
        GptEntry {
            kind: [1; 16],
            id: [2; 16],
            place: (first, last),
            name: "root fs".to_owned(),
            boot: true,
        }
    }

    fn disk(size: u64, layout: &GptLayout) -> Vec<u8> {
        let mut disk = vec![0; size as usize];
        write(&mut disk, layout);
        disk
    }

    fn write(disk: &mut [u8], layout: &GptLayout) {
        for (offset, bytes) in layout.pieces().unwrap() {
            put(disk, offset as usize, &bytes);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for sector in [512, SECTOR] {
            let size = 256 * sector;
            let mut layout = GptLayout::new(sector, size, [9; 16]).unwrap();
            assert_eq!(layout.add(&entry(40, 99)), Some(1));
            assert_eq!(layout.add(&entry(100, 120)), Some(2));
            let disk = disk(size, &layout);
            let table = read_table(disk.as_slice()).unwrap().unwrap();
            assert_eq!(table.sector_size, sector);
            let partition = &table.partitions[0];
            assert_eq!(
                (partition.start, partition.size),
                (40 * sector, 60 * sector)
            );
            assert_eq!(partition.name.as_deref(), Some("root fs"));
            assert!(table.warnings.is_empty());
            let again = GptLayout::read(disk.as_slice(), sector).unwrap().unwrap();
            assert_eq!(again.pieces().unwrap(), layout.pieces().unwrap());
            let mut no_first = disk.clone();
            no_first[sector as usize] = 0;
            let copied = GptLayout::read(no_first.as_slice(), sector);
            let copied = copied.unwrap().unwrap();
            assert_eq!(copied.pieces().unwrap(), layout.pieces().unwrap());
        }
    }

    #[test]
    fn a_disk_needs_room_for_both_tables() {
        assert!(GptLayout::new(SECTOR, 11 * SECTOR, [9; 16]).is_none());
        let least = GptLayout::new(SECTOR, 12 * SECTOR, [9; 16]).unwrap();
        assert_eq!(least.usable(), (6, 6));
        assert!(GptLayout::new(SECTOR, 0, [9; 16]).is_none());
        assert!(GptLayout::new(0, 1 << 20, [9; 16]).is_none());
    }

    #[test]
    fn sizes_stay_among_the_others() {
        let mut layout = GptLayout::new(SECTOR, 256 * SECTOR, [9; 16]).unwrap();
        layout.add(&entry(40, 99));
        layout.add(&entry(100, 120));
        assert_eq!(layout.set_size(1, 61), None, "the next one begins there");
        assert_eq!(layout.set_size(2, 151), Some(()));
        assert_eq!(layout.set_size(2, 152), None, "the copy lies there");
        for (number, sectors) in [(3, 1), (0, 1), (1, 0), (1, u64::MAX)] {
            assert_eq!(layout.set_size(number, sectors), None);
        }
        layout.delete(1);
        assert_eq!(layout.places(), [(2, 100, 250)]);
        assert_eq!(layout.add(&entry(40, 50)), Some(1));
    }

    #[test]
    fn the_copy_moves() {
        let mut layout = GptLayout::new(SECTOR, 256 * SECTOR, [9; 16]).unwrap();
        layout.add(&entry(40, 99));
        layout.move_copy_to_partitions().unwrap();
        assert_eq!((layout.last_usable, layout.copy), (99, 104));
        // The disk is cut there, and grows again.
        let mut image = disk(256 * SECTOR, &layout);
        image.truncate(105 * SECTOR as usize);
        image[SECTOR as usize] = 0;
        let table = read_table(image.as_slice()).unwrap().unwrap();
        assert_eq!((table.partitions.len(), table.damaged), (1, false));
        image.resize(300 * SECTOR as usize, 0);
        assert!(GptLayout::read(image.as_slice(), SECTOR).unwrap().is_none());
        write(&mut image, &layout);
        let mut grown = GptLayout::read(image.as_slice(), SECTOR).unwrap().unwrap();
        grown.move_copy_to_end().unwrap();
        write(&mut image, &grown);
        assert_eq!(image[458..462], 299u32.to_le_bytes(), "the protective MBR");
    }

    #[test]
    fn a_hybrid_mbr_and_unknown_bytes_stay() {
        let mut layout = GptLayout::new(SECTOR, 256 * SECTOR, [9; 16]).unwrap();
        layout.add(&entry(40, 99));
        let mut image = disk(256 * SECTOR, &layout);
        image.copy_within(446..462, 462);
        image[466] = 0x83;
        image[0] = 0x33;
        // The protective entry ends before the other partition, as gdisk makes it.
        put(&mut image, 458, &39u32.to_le_bytes());
        let mbr = image[..512].to_vec();
        let mut hybrid = GptLayout::read(image.as_slice(), SECTOR).unwrap().unwrap();
        hybrid.entries[127] = 7;
        hybrid.set_size(1, 10).unwrap();
        write(&mut image, &hybrid);
        assert_eq!(image[..512], mbr);
        let again = GptLayout::read(image.as_slice(), SECTOR).unwrap().unwrap();
        assert_eq!(again.entries[127], 7);
        assert_eq!(again.entry(0)[..32], [[1; 16], [2; 16]].concat());
    }

    #[test]
    fn nothing_is_written_over_a_partition() {
        let layout = GptLayout::new(SECTOR, 256 * SECTOR, [9; 16]).unwrap();
        for (first, last) in [(5, 99), (0, 0), (40, 251), (40, u64::MAX)] {
            let mut bad = layout.clone();
            bad.add(&entry(first, last));
            assert!(bad.pieces().is_err(), "{first} {last}");
        }
        for (entries_at, copy) in [
            (0, 255),
            (1, 255),
            (2, 256),
            (2, u64::MAX),
            (2, 0),
            (2, 9),
            (u64::MAX, 255),
            (250, 255),
        ] {
            let bad = GptLayout {
                entries_at,
                copy,
                ..layout.clone()
            };
            assert!(bad.pieces().is_err(), "{entries_at} {copy}");
        }
    }

    #[test]
    fn guids_are_those_of_the_table() {
        let text = "0FC63DAF-8483-4772-8E79-3D69D8477DE4";
        let bytes = guid_bytes(text).unwrap();
        assert_eq!(bytes[..6], [0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84]);
        let shown = crate::block::Block::from(bytes.to_vec()).guid(0).unwrap();
        assert_eq!(shown, text.to_ascii_lowercase());
        for bad in ["", "0FC63DAF", "0FC63DAF-8483-4772-8E79-3D69D8477DEX"] {
            assert_eq!(guid_bytes(bad), None, "{bad}");
        }
    }
}
