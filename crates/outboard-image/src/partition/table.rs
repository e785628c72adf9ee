// SPDX-License-Identifier: GPL-2.0-only
//! A partition table, whatever its kind.

use crate::source::{Source, USUAL_SECTOR};

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
    pub(super) fn new(kind: TableKind, id: Option<String>, sector_size: u64) -> Self {
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
pub const MOST: usize = 256;

/// Sector sizes that tables are made for.
const SECTORS: [u64; 2] = [USUAL_SECTOR, 4096];

/// Sector sizes to try, the one of the disk first. A table of another size gets there when its disk
/// was copied to a file, or a file to a disk.
pub fn sector_sizes(source: &(impl Source + ?Sized)) -> Vec<u64> {
    let own = source.sector_size();
    let others = SECTORS.into_iter().filter(|&size| size != own);
    std::iter::once(own).chain(others).collect()
}
