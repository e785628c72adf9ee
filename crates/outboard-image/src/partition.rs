// SPDX-License-Identifier: GPL-2.0-only
//! Partition tables: GPT, MBR with logical partitions, Apple's.
//!
//! Partitions have the numbers that Linux gives them, so that `IMAGE@N` means what /dev/sdaN means.
//! Entries beyond the end of the image are not trusted.

mod apple;
mod gpt;
mod mbr;
mod names;

use crate::source::Source;

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
    /// The partitions, in the table's order.
    pub partitions: Vec<Partition>,
    /// Problems of the table, as a text.
    pub warnings: Vec<String>,
}

impl Table {
    fn new(kind: TableKind, id: Option<String>) -> Self {
        Self {
            kind,
            id,
            partitions: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// Most partitions that a table may have, as in Linux.
const MOST: usize = 256;

/// Reads the partition table. `sector_size`: bytes of the disk's logical sector. `None`: there is
/// none.
pub fn read_table(source: &(impl Source + ?Sized), sector_size: u64) -> Option<Table> {
    let mut table = gpt::read(source, sector_size)
        .or_else(|| mbr::read(source, sector_size))
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
