// SPDX-License-Identifier: GPL-2.0-only
//! Partition tables: GPT, MBR with logical partitions, Apple's.
//!
//! Partitions have the numbers that Linux gives them, so that `IMAGE@N` means what /dev/sdaN means.
//! Entries beyond the end of the image are not trusted.

mod apple;
mod gpt;
mod mbr;
mod names;

use crate::source::{watched, Source, USUAL_SECTOR};
use std::io;

/// The kind of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// GUID partition table.
    Gpt,
    /// Master boot record, with logical partitions.
    Mbr,
    /// Apple partition map.
    Apple,
}

impl TableKind {
    /// Name for messages, as in "gpt".
    pub fn name(self) -> &'static str {
        match self {
            TableKind::Gpt => "GPT",
            TableKind::Mbr => "MBR",
            TableKind::Apple => "Apple",
        }
    }
}

/// A partition. Start and size are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Number of the partition, as Linux counts it.
    pub number: u32,
    /// Offset in the disk, in bytes.
    pub start: u64,
    /// In bytes.
    pub size: u64,
    /// The type in the table: a GUID, "0x83", "Apple_HFS".
    pub type_id: String,
    /// The meaning of the type, if it is known.
    pub type_name: Option<&'static str>,
    /// The name in the table.
    pub name: Option<String>,
    /// UUID of the partition, where the table has one.
    pub uuid: Option<String>,
    /// Holds other partitions (an MBR's extended partition).
    pub extended: bool,
}

/// A partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Kind of the table.
    pub kind: TableKind,
    /// The disk's identifier.
    pub id: Option<String>,
    /// Bytes of the sectors that it counts.
    pub sector_size: u64,
    /// The partitions, in the table's order.
    pub partitions: Vec<Partition>,
    /// Nothing of it can be read: there are partitions, but nobody knows where.
    pub damaged: bool,
    /// Problems of the table, as a text.
    pub warnings: Vec<String>,
}

impl Table {
    fn new(kind: TableKind, id: Option<String>, sector_size: u64) -> Self {
        Self {
            kind,
            id,
            sector_size,
            partitions: Vec::new(),
            damaged: false,
            warnings: Vec::new(),
        }
    }
}

/// Most partitions that a table may have, as in Linux.
const MOST: usize = 256;

/// Sector sizes that tables are made for.
const SECTORS: [u64; 2] = [USUAL_SECTOR, 4096];

/// Sector sizes to try, the one of the disk first. A table of another size gets there when its disk
/// was copied to a file, or a file to a disk.
fn sector_sizes(source: &(impl Source + ?Sized)) -> Vec<u64> {
    let own = source.sector_size();
    let others = SECTORS.into_iter().filter(|&size| size != own);
    std::iter::once(own).chain(others).collect()
}

/// Reads the partition table, and finds the size of its sectors. `None`: there is none.
pub fn read_table(source: &(impl Source + ?Sized)) -> io::Result<Option<Table>> {
    watched(source, |source| find_table(source))
}

fn find_table(source: &(impl Source + ?Sized)) -> Option<Table> {
    let mut table = gpt::read(source)
        .or_else(|| mbr::read(source))
        .or_else(|| apple::read(source))?;
    for partition in &table.partitions {
        let end = partition.start.saturating_add(partition.size);
        if end > source.size() {
            table.warnings.push(format!(
                "partition {} ends at byte {end}, but the image has only {}",
                partition.number,
                source.size()
            ));
        }
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk whose reads fail from an offset on.
    struct Failing(Vec<u8>, u64);

    impl Source for Failing {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            if offset + buffer.len() as u64 > self.1 {
                Err(io::Error::from_raw_os_error(5))
            } else {
                self.0.as_slice().read_at(buffer, offset)
            }
        }
    }

    #[test]
    fn a_failed_read_is_not_a_missing_table() {
        for readable in [0, 512, 1000] {
            let mut disk = vec![0; 8192];
            disk[450] = 0xee;
            disk[454] = 1;
            disk[510..512].copy_from_slice(&[0x55, 0xaa]);
            let error = read_table(&Failing(disk, readable)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(5), "{readable}");
        }
        assert!(read_table(&Failing(vec![0; 8192], 512)).unwrap().is_none());
    }
}
