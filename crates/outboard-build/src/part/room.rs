// SPDX-License-Identifier: GPL-2.0-only
//! Whether new partitions have room, before sfdisk writes a byte: in an MBR sfdisk writes a
//! partition without room as one of no sectors, and calls that success.
//!
//! The writer of the table chooses the places. A plan that passes here can still lack room there,
//! because sfdisk may choose a gap that is too small.

use super::partition::NewPartition;
use crate::gpt::SMALL;
use crate::megabytes::MEGABYTE;
use crate::sfdisk;
use outboard_error::format::size as size_text;
use outboard_error::{Error, ErrorKind, Result};
use outboard_image::partition::{Table, TableKind};

/// Bytes of the entries of a GPT. Their copy and a sector are at the end of the disk.
const ENTRIES: u64 = 16 << 10;

/// The gaps of a table, in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Room {
    gaps: Vec<u64>,
    /// `false`: new partitions may be logical ones, whose room is in the extended one.
    counts: bool,
}

impl Room {
    /// The room of a new table.
    pub(super) fn of_disk(size: u64, gpt: bool, sector: u64) -> Self {
        let (start, end) = usable(size, gpt, sector);
        Self {
            gaps: vec![end.saturating_sub(start)],
            counts: true,
        }
    }

    /// The room of a table that exists, on a disk of this size.
    pub(super) fn of_table(table: &Table, size: u64) -> Self {
        let gpt = table.kind == TableKind::Gpt;
        let (mut at, end) = usable(size, gpt, table.sector_size);
        let mut taken: Vec<(u64, u64)> = table
            .partitions
            .iter()
            .map(|found| (found.start, found.start.saturating_add(found.size)))
            .collect();
        taken.sort_unstable();
        let mut gaps = Vec::new();
        for (start, after) in taken {
            gaps.push(start.min(end).saturating_sub(at));
            at = at.max(after);
        }
        gaps.push(end.saturating_sub(at));
        gaps.retain(|gap| *gap > 0);
        Self {
            gaps,
            counts: !table.partitions.iter().any(|found| found.extended),
        }
    }

    /// Refuses partitions that cannot all have room.
    pub(super) fn check(&self, partitions: &[NewPartition], shown: &str) -> Result<()> {
        if !self.counts || partitions.iter().any(NewPartition::is_extended) {
            return Ok(());
        }
        let (last, others) = match partitions.split_last() {
            None => return Ok(()),
            Some(parts) => parts,
        };
        if others.iter().any(|partition| partition.size.is_none()) {
            let text = format!("{shown}: only the last partition can have the rest of the room");
            return Err(Error::Usage(text));
        }
        let bytes = |new: &NewPartition| {
            let size = new.size.unwrap_or(1);
            size.div_ceil(MEGABYTE).saturating_mul(MEGABYTE)
        };
        let sizes = others.iter().map(bytes);
        // The rest may be less than a whole megabyte.
        let rest = last.size.map_or(1, |_| bytes(last));
        let largest = sizes.clone().chain([rest]).max().unwrap_or(0);
        let wanted = sizes.chain([rest]).fold(0, u64::saturating_add);
        let gap = self.gaps.iter().max().copied().unwrap_or(0);
        let room = self
            .gaps
            .iter()
            .fold(0, |sum: u64, gap| sum.saturating_add(*gap));
        if wanted > room {
            return Err(no_room(shown, "the partitions have", wanted, room));
        }
        if largest > gap {
            return Err(no_room(shown, "a partition has", largest, gap));
        }
        Ok(())
    }
}

/// The room for partitions: the first byte, and the first one behind.
fn usable(size: u64, gpt: bool, sector: u64) -> (u64, u64) {
    let start = if size > SMALL { MEGABYTE } else { sector };
    if gpt {
        (start, size.saturating_sub(ENTRIES + sector))
    } else {
        (start, size.min(sfdisk::MBR_END))
    }
}

fn no_room(shown: &str, what: &str, wanted: u64, room: u64) -> Error {
    Error::known(
        ErrorKind::NoSpace,
        format!(
            "{shown}: {what} {}, but there is room for {} only",
            size_text(wanted),
            size_text(room)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard_image::partition::Partition;

    fn refused(room: &Room, partitions: &[&str]) -> Option<ErrorKind> {
        let parsed = partitions.iter().map(|text| text.parse().unwrap());
        let checked = room.check(&parsed.collect::<Vec<NewPartition>>(), "a.img");
        checked.err().map(|error| error.kind())
    }

    #[test]
    fn partitions_of_a_new_table_fit() {
        let gpt = Room::of_disk(8 * MEGABYTE, true, 512);
        assert_eq!(refused(&gpt, &["linux:3M", "linux:3M", "linux:rest"]), None);
        let full = refused(&gpt, &["linux:3M", "linux:4M"]);
        assert_eq!(
            full,
            Some(ErrorKind::NoSpace),
            "the second copy is at the end"
        );
        let mbr = Room::of_disk(8 * MEGABYTE, false, 512);
        assert_eq!(refused(&mbr, &["linux:3M", "linux:4M"]), None);
        let rest = refused(&mbr, &["linux:3M", "linux:4M", "linux:rest"]);
        assert_eq!(rest, Some(ErrorKind::NoSpace));
        assert_eq!(refused(&mbr, &["linux:8M"]), Some(ErrorKind::NoSpace));
        assert_eq!(refused(&mbr, &[]), None);
        let largest = format!("linux:{}", u64::MAX);
        assert_eq!(
            refused(&mbr, &[&largest, &largest]),
            Some(ErrorKind::NoSpace)
        );
    }

    #[test]
    fn only_the_last_partition_has_the_rest() {
        let room = Room::of_disk(64 * MEGABYTE, true, 512);
        assert_eq!(
            refused(&room, &["linux:rest", "swap:1M"]),
            Some(ErrorKind::Usage)
        );
        let mbr = Room::of_disk(64 * MEGABYTE, false, 512);
        assert_eq!(refused(&mbr, &["extended:rest", "linux:1M"]), None);
    }

    #[test]
    fn small_disks_have_all_their_room() {
        let room = Room::of_disk(3 * MEGABYTE, true, 512);
        assert_eq!(refused(&room, &["linux:2M"]), None);
        assert_eq!(Room::of_disk(512, true, 512).gaps, [0]);
    }

    #[test]
    fn gaps_of_a_table() {
        let partition = |start, size| Partition {
            number: 1,
            start: start * MEGABYTE,
            size: size * MEGABYTE,
            type_id: String::new(),
            type_name: None,
            name: None,
            uuid: None,
            extended: false,
        };
        let mut table = Table {
            kind: TableKind::Mbr,
            id: None,
            sector_size: 512,
            // They overlap, and the last one is cut off: the table is a stranger's.
            partitions: vec![partition(20, 100), partition(3, 4), partition(5, 3)],
            damaged: false,
            warnings: Vec::new(),
        };
        let room = Room::of_table(&table, 30 * MEGABYTE);
        assert_eq!(room.gaps, [2 * MEGABYTE, 12 * MEGABYTE]);
        assert_eq!(refused(&room, &["linux:12M", "linux:2M"]), None);
        assert_eq!(refused(&room, &["linux:13M"]), Some(ErrorKind::NoSpace));
        assert_eq!(
            refused(&room, &["linux:12M", "linux:3M"]),
            Some(ErrorKind::NoSpace)
        );
        table.partitions[0].extended = true;
        let room = Room::of_table(&table, 30 * MEGABYTE);
        assert_eq!(refused(&room, &["linux:13M"]), None);
    }
}
