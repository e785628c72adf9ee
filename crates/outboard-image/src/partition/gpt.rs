// SPDX-License-Identifier: GPL-2.0-only
//! GUID partition tables (UEFI). The header at sector 1 counts; if it is damaged, its copy in the
//! last sector does. Without a protective MBR the GPT is ignored: a newer table has replaced it.
//!
//! The header's place tells the size of a sector. Candidates are tried in this order, and the first
//! one whose header and entries have right checksums counts:
//!
//! | | place | reason |
//! |---|---|---|
//! | 1 | sector 1 of the disk's own size | Linux and firmware see this one |
//! | 2 | sector 1 of the other size | the disk was copied to a file, or a file to a disk |
//! | 3 | the last sector of the disk's own size | |
//! | 4 | the last sector of the other size | |
//!
//! A first header thus wins over any copy: a copy may be what is left of an older table.

use super::mbr;
use super::names::gpt_type_name;
use super::table::{sector_sizes, Partition, Table, TableKind, MOST};
use crate::block::{fetch, Block};
use crate::source::Source;

/// Least bytes of a header.
pub(super) const HEADER: usize = 92;
const LARGEST_HEADER: u32 = 4096;

struct Header {
    block: Block,
    sector: u64,
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
            && block.le32(16) == crc32fast::hash(&bytes)
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
        (crc32fast::hash(entries.bytes(0, entries.len())) == self.block.le32(88))
            .then_some((entries, size))
    }
}

/// The header in this sector, its entries, and the bytes of each, if all checksums are right.
pub(super) fn locate(
    source: &(impl Source + ?Sized),
    number: u64,
    sector: u64,
) -> Option<(Block, Block, usize)> {
    let header = Header::read(source, number, sector)?;
    let (entries, size) = header.entries(source)?;
    Some((header.block, entries, size))
}

/// The table whose header, or the copy of it, is in this sector.
fn find(source: &(impl Source + ?Sized), number: u64, sector: u64) -> Option<Table> {
    let (header, entries, size) = locate(source, number, sector)?;
    let mut table = Table::new(TableKind::Gpt, header.guid(56), sector);
    for (index, at) in (0..entries.len()).step_by(size).enumerate().take(MOST) {
        if let Some(partition) = partition(&entries, at, index as u32 + 1, sector) {
            table.partitions.push(partition);
        }
    }
    Some(table)
}

/// Finds the GPT that an MBR announces. As in Linux, an entry of type 0xEE must begin at sector 1.
/// No entry of this type is a partition: where the GPT cannot be read, the table is damaged.
pub(super) fn read(source: &(impl Source + ?Sized)) -> Option<Table> {
    let protection = mbr::protection(source)?;
    let sizes = sector_sizes(source);
    let first = |&sector: &u64| find(source, 1, sector);
    let copy = |&sector: &u64| find(source, (source.size() / sector).checked_sub(1)?, sector);
    let good = matches!(protection, mbr::Protection::Whole);
    let mut firsts = sizes.iter().filter_map(first).filter(|_| good);
    if let Some(mut table) = firsts.next() {
        if let Some(other) = firsts.next() {
            table.warnings.push(format!(
                "there is a second GPT, for sectors of {} bytes: that for sectors of {} bytes is \
                 used",
                other.sector_size, table.sector_size
            ));
        }
        return Some(table);
    }
    let found = sizes.iter().find_map(copy).filter(|_| good);
    let is_copy = found.is_some();
    let mut table = found.unwrap_or_else(|| Table::new(TableKind::Gpt, None, sizes[0]));
    table.damaged = !is_copy;
    table.warnings.push(
        if is_copy {
            "the GPT is damaged; its copy at the end is used"
        } else {
            "the GPT and its copy at the end are damaged"
        }
        .to_owned(),
    );
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
        disk_of(512)
    }

    fn disk_of(sector: usize) -> Vec<u8> {
        let mut image = vec![0u8; 100 * sector];
        image[450] = 0xee;
        image[454] = 1;
        put(&mut image, 510, &[0x55, 0xaa]);
        let entry = 2 * sector + 128;
        put(&mut image, entry, &[1; 16]);
        put(&mut image, entry + 16, &[2; 16]);
        put(&mut image, entry + 32, &40u64.to_le_bytes());
        put(&mut image, entry + 40, &79u64.to_le_bytes());
        put(&mut image, entry + 56, &[b'r', 0, b'o', 0]);
        let entries = crc32fast::hash(&image[2 * sector..2 * sector + 4 * 128]);
        for (number, at) in [(1u64, sector), (99, 99 * sector)] {
            put(&mut image, at, b"EFI PART");
            put(&mut image, at + 12, &92u32.to_le_bytes());
            put(&mut image, at + 24, &number.to_le_bytes());
            put(&mut image, at + 72, &2u64.to_le_bytes());
            put(&mut image, at + 80, &4u32.to_le_bytes());
            put(&mut image, at + 84, &128u32.to_le_bytes());
            put(&mut image, at + 88, &entries.to_le_bytes());
            let crc = crc32fast::hash(&image[at..at + 92]);
            put(&mut image, at + 16, &crc.to_le_bytes());
        }
        image
    }

    #[test]
    fn reads_entries_with_their_numbers() {
        let table = read(disk().as_slice()).unwrap();
        assert_eq!(table.partitions.len(), 1);
        let partition = &table.partitions[0];
        assert_eq!(
            (partition.number, partition.start, partition.size),
            (2, 40 * 512, 40 * 512)
        );
        assert_eq!(partition.name.as_deref(), Some("ro"));
    }

    #[test]
    fn sectors_have_the_size_that_the_header_shows() {
        for damaged in [false, true] {
            let mut image = disk_of(4096);
            image[4096] ^= u8::from(damaged);
            let table = read(image.as_slice()).unwrap();
            let partition = &table.partitions[0];
            assert_eq!((table.sector_size, partition.number), (4096, 2));
            assert_eq!((partition.start, partition.size), (40 * 4096, 40 * 4096));
        }
    }

    /// A table for sectors of another size, with entries where those of the first do not lie.
    fn with_second_table(sector: usize, other: usize) -> Vec<u8> {
        let mut image = disk_of(sector);
        image.resize(100 * 4096, 0);
        let mut second = disk_of(other);
        second.resize(100 * 4096, 0);
        let (at, entries) = (50 * 4096, 2 * other);
        image[at..at + 512].copy_from_slice(&second[entries..entries + 512]);
        put(&mut image, other, &second[other..other + 92]);
        put(&mut image, other + 72, &((at / other) as u64).to_le_bytes());
        fix(&mut image, other);
        image
    }

    fn fix(image: &mut [u8], header: usize) {
        put(image, header + 16, &[0; 4]);
        let crc = crc32fast::hash(&image[header..header + 92]);
        put(image, header + 16, &crc.to_le_bytes());
    }

    /// A disk with sectors of 4096 bytes.
    struct LargeSectors(Vec<u8>);

    impl Source for LargeSectors {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn sector_size(&self) -> u64 {
            4096
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
            self.0.as_slice().read_at(buffer, offset)
        }
    }

    #[test]
    fn of_two_tables_that_of_the_own_size_counts() {
        for (sector, other) in [(4096, 512), (512, 4096)] {
            let mut image = with_second_table(sector, other);
            let table = read(image.as_slice()).unwrap();
            assert_eq!((table.sector_size, table.warnings.len()), (512, 1));
            let table = read(&LargeSectors(image.clone())).unwrap();
            assert_eq!((table.sector_size, table.warnings.len()), (4096, 1));
            // A wrong checksum of the header or of the entries: the other one is the only one.
            for at in [512, 50 * 4096 + 32] {
                let mut damaged = image.clone();
                let place = if at == 512 || other == 512 {
                    at
                } else {
                    1024 + 129
                };
                damaged[place] ^= 1;
                let table = read(damaged.as_slice()).unwrap();
                assert_eq!((table.sector_size, table.warnings.len()), (4096, 0), "{at}");
            }
            image[4096] ^= 1;
            let table = read(&LargeSectors(image)).unwrap();
            assert_eq!((table.sector_size, table.warnings.len()), (512, 0));
        }
    }

    #[test]
    fn a_first_header_counts_more_than_a_copy() {
        let mut image = disk_of(4096);
        // The copy of a table for sectors of 512 bytes that was here before.
        let old = disk();
        let last = image.len() / 512 - 1;
        put(&mut image, 512 * last, &old[99 * 512..]);
        put(&mut image, 512 * last + 24, &(last as u64).to_le_bytes());
        put(&mut image, 512 * last + 72, &100u64.to_le_bytes());
        image[100 * 512..100 * 512 + 512].copy_from_slice(&old[1024..1536]);
        fix(&mut image, 512 * last);
        assert_eq!(read(image.as_slice()).unwrap().sector_size, 4096);
        image[4096] ^= 1;
        assert_eq!(read(image.as_slice()).unwrap().sector_size, 512);
    }

    #[test]
    fn entries_of_other_sizes() {
        for (size, good) in [
            (128, true),
            (256, true),
            (512, true),
            (64, false),
            (0, false),
        ] {
            let mut image = disk_of(4096);
            let entry = image[2 * 4096 + 128..][..128].to_vec();
            image[2 * 4096..3 * 4096].fill(0);
            put(&mut image, 2 * 4096 + size, &entry);
            put(&mut image, 4096 + 84, &(size as u32).to_le_bytes());
            let entries = crc32fast::hash(&image[2 * 4096..2 * 4096 + 4 * size]);
            put(&mut image, 4096 + 88, &entries.to_le_bytes());
            fix(&mut image, 4096);
            let table = read(image.as_slice()).unwrap();
            assert_eq!(table.warnings.is_empty(), good, "{size}");
            if good {
                let partition = &table.partitions[0];
                assert_eq!((partition.number, partition.start), (2, 40 * 4096));
            }
        }
    }

    #[test]
    fn an_mbr_that_does_not_protect_it_counts() {
        for (at, value) in [(450, 0x83), (450, 0), (510, 0)] {
            let mut image = disk();
            image[at] = value;
            assert!(read(image.as_slice()).is_none(), "{at} {value}");
        }
        let mut hybrid = disk();
        hybrid.copy_within(446..462, 462);
        hybrid[450] = 0x83;
        assert_eq!(read(hybrid.as_slice()).unwrap().partitions.len(), 1);
    }

    #[test]
    fn the_protective_entry_is_no_partition() {
        let mut image = disk();
        image[512] = 0;
        image[99 * 512] = 0;
        let lost = read(image.as_slice()).unwrap();
        assert!(lost.damaged && lost.partitions.is_empty() && lost.warnings.len() == 1);
        let mut elsewhere = disk();
        elsewhere[454] = 2;
        elsewhere[458] = 9;
        assert!(read(elsewhere.as_slice()).unwrap().damaged);
    }

    #[test]
    fn falls_back_to_the_copy() {
        let mut image = disk();
        image[512] = 0;
        let table = read(image.as_slice()).unwrap();
        assert!(!table.damaged);
        assert_eq!((table.partitions.len(), table.warnings.len()), (1, 1));
    }
}
