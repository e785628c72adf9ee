// SPDX-License-Identifier: GPL-2.0-only
//! Writes GPTs for sectors of another size than the disk itself has: sfdisk takes the size from the
//! disk, and 512 bytes for a file.
//!
//! New partitions begin at whole megabytes, as sfdisk places them.

use crate::megabytes::MEGABYTE;
use outboard_error::format::size as size_text;
use outboard_error::{Error, ErrorKind, Result};
use outboard_image::partition::{GptEntry, GptLayout};
use outboard_volume::image::Image;
use outboard_volume::uuid;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// On smaller disks the first partition begins right behind the table.
pub const SMALL: u64 = 4 * MEGABYTE;
/// Bytes at each end of a disk where other contents may have their marks.
const MARKS: u64 = MEGABYTE;

/// A partition that is to be made.
pub struct NewEntry {
    /// The GUID of its type, as a GPT stores it.
    pub kind: [u8; 16],
    /// `None`: a random one.
    pub id: Option<[u8; 16]>,
    /// `None`: the largest gap.
    pub sectors: Option<u64>,
    pub name: String,
    pub boot: bool,
}

/// Makes a table; the disk is nothing else then. `id`: that of the disk; `None`: a random one.
pub fn create(
    disk: &Path,
    sector: u64,
    id: Option<[u8; 16]>,
    new: &[NewEntry],
    shown: &str,
) -> Result<()> {
    let size = Image::open(disk)?.size();
    let id = id.map_or_else(|| random_id(shown), Ok)?;
    let layout = GptLayout::new(sector, size, id);
    let mut layout = layout.ok_or_else(|| {
        let text = format!("{shown} is too small for a GPT: {}", size_text(size));
        Error::known(ErrorKind::NoSpace, text)
    })?;
    add(&mut layout, new, shown)?;
    wipe(disk, shown)?;
    write(&layout, disk, shown)
}

/// Changes the table that a disk has for sectors of this size.
pub fn change(
    disk: &Path,
    sector: u64,
    shown: &str,
    work: impl FnOnce(&mut GptLayout) -> Result<()>,
) -> Result<()> {
    let image = Image::open(disk)?;
    let found = GptLayout::read(&*image.content, sector);
    let found = found.map_err(|error| Error::failed(format!("cannot read {shown}"), &error))?;
    let mut layout = found.ok_or_else(|| {
        let text = format!("{shown} has no GPT for sectors of {sector} bytes");
        Error::known(ErrorKind::NotFound, text)
    })?;
    work(&mut layout)?;
    write(&layout, disk, shown)
}

/// Adds partitions where there is room.
pub fn add(layout: &mut GptLayout, new: &[NewEntry], shown: &str) -> Result<()> {
    for new in new {
        let place = place(layout, new.sectors).ok_or_else(|| {
            let text = match new.sectors {
                Some(sectors) => size_text(sectors.saturating_mul(layout.sector_size())),
                None => "any size".to_owned(),
            };
            let text = format!("{shown}: there is no room for a partition of {text}");
            Error::known(ErrorKind::NoSpace, text)
        })?;
        let entry = GptEntry {
            kind: new.kind,
            id: new.id.map_or_else(|| random_id(shown), Ok)?,
            place,
            name: new.name.clone(),
            boot: new.boot,
        };
        layout.add(&entry).ok_or_else(|| {
            let text = format!("{shown}: its table has no room for a further partition");
            Error::known(ErrorKind::NoSpace, text)
        })?;
    }
    Ok(())
}

/// The change of a layout, where the disk has no room for it.
pub fn fits(done: Option<()>, shown: &str) -> Result<()> {
    done.ok_or_else(|| {
        let text = format!("{shown}: there is no room for this change of the partition table");
        Error::known(ErrorKind::NoSpace, text)
    })
}

fn random_id(shown: &str) -> Result<[u8; 16]> {
    let failed = |error: io::Error| Error::failed(format!("cannot change {shown}"), &error);
    let mut id = uuid::random().map_err(failed)?;
    // Version 4, in the order of bytes of a GPT.
    id[7] = id[7] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    Ok(id)
}

/// The free ranges of sectors, their first sectors at whole megabytes.
fn gaps(layout: &GptLayout, grain: u64) -> Vec<(u64, u64)> {
    let (mut at, end) = layout.usable();
    let mut taken: Vec<(u64, u64)> = layout
        .places()
        .into_iter()
        .map(|(_, first, last)| (first, last))
        .collect();
    taken.sort_unstable();
    let mut gaps = Vec::new();
    for (first, last) in taken {
        gaps.push((at, first.min(end.saturating_add(1))));
        at = at.max(last.saturating_add(1));
    }
    gaps.push((at, end.saturating_add(1)));
    let aligned = gaps
        .into_iter()
        .filter_map(|(start, after)| Some((start.checked_next_multiple_of(grain)?, after)));
    aligned.filter(|(start, after)| start < after).collect()
}

/// The first and the last sector of a new partition: the first gap with room for it, or the largest
/// one.
fn place(layout: &GptLayout, sectors: Option<u64>) -> Option<(u64, u64)> {
    let grain = if layout.disk_size() > SMALL {
        MEGABYTE / layout.sector_size()
    } else {
        1
    };
    let mut gaps = gaps(layout, grain).into_iter();
    let (start, length) = match sectors {
        Some(sectors) => {
            let (start, _) = gaps.find(|(start, after)| after - start >= sectors)?;
            (start, sectors)
        }
        None => {
            let (start, after) = gaps.max_by_key(|(start, after)| after - start)?;
            let whole = (after - start) / grain * grain;
            (start, if whole > 0 { whole } else { after - start })
        }
    };
    Some((start, start + length.checked_sub(1)?))
}

fn write(layout: &GptLayout, disk: &Path, shown: &str) -> Result<()> {
    let pieces = layout.pieces().map_err(|fault| {
        let text = format!("{shown}: {fault}");
        Error::known(ErrorKind::Damaged, text)
    })?;
    let write = || -> io::Result<()> {
        let file = File::options().write(true).open(disk)?;
        for (index, (offset, bytes)) in pieces.iter().enumerate() {
            // The copy is whole before the table changes.
            if index == 2 {
                file.sync_data()?;
            }
            file.write_all_at(bytes, *offset)?;
        }
        file.sync_data()
    };
    write().map_err(|error| cannot_change(shown, &error))
}

fn cannot_change(shown: &str, error: &io::Error) -> Error {
    Error::failed(
        format!("cannot change the partition table of {shown}"),
        error,
    )
}

/// Overwrites the marks of other contents, for sectors of any size: tables with their copies, file
/// systems, and layers.
pub fn wipe(disk: &Path, shown: &str) -> Result<()> {
    let size = Image::open(disk)?.size();
    let wipe = || -> io::Result<()> {
        let file = File::options().write(true).open(disk)?;
        let zeros = vec![0; MARKS.min(size) as usize];
        file.write_all_at(&zeros, size.saturating_sub(MARKS))?;
        file.write_all_at(&zeros, 0)?;
        file.sync_data()
    };
    wipe().map_err(|error| cannot_change(shown, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: u64 = 4096;
    /// Sectors of a megabyte.
    const GRAIN: u64 = MEGABYTE / SECTOR;

    fn new(sectors: Option<u64>) -> NewEntry {
        NewEntry {
            kind: [1; 16],
            id: Some([2; 16]),
            sectors,
            name: String::new(),
            boot: false,
        }
    }

    fn layout(megabytes: u64) -> GptLayout {
        GptLayout::new(SECTOR, megabytes * MEGABYTE, [9; 16]).unwrap()
    }

    #[test]
    fn partitions_begin_at_whole_megabytes() {
        let mut layout = layout(64);
        add(
            &mut layout,
            &[new(Some(10)), new(Some(GRAIN)), new(None)],
            "a",
        )
        .unwrap();
        let places = layout.places();
        assert_eq!(places[0], (1, GRAIN, GRAIN + 9));
        assert_eq!(places[1], (2, 2 * GRAIN, 3 * GRAIN - 1));
        assert_eq!(places[2], (3, 3 * GRAIN, 63 * GRAIN - 1));
    }

    #[test]
    fn gaps_are_filled() {
        let mut layout = layout(64);
        let size = Some(10 * GRAIN);
        add(&mut layout, &[new(size), new(size), new(size)], "a").unwrap();
        layout.delete(2);
        let error = add(&mut layout, &[new(Some(60 * GRAIN))], "a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        add(&mut layout, &[new(Some(5 * GRAIN)), new(None)], "a").unwrap();
        let places = layout.places();
        assert_eq!(places[1], (2, 11 * GRAIN, 16 * GRAIN - 1));
        assert_eq!(places[3], (4, 31 * GRAIN, 63 * GRAIN - 1));
        let error = add(&mut layout, &[new(Some(0))], "a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
    }

    #[test]
    fn small_disks_have_their_partitions_behind_the_table() {
        let mut layout = layout(1);
        add(&mut layout, &[new(None)], "a").unwrap();
        assert_eq!(layout.places(), [(1, 6, 250)]);
        let error = add(&mut layout, &[new(None)], "a").unwrap_err();
        assert_eq!(
            error.message(),
            Some("a: there is no room for a partition of any size")
        );
    }

    #[test]
    fn places_of_a_stranger_do_not_overflow() {
        let mut layout = layout(8);
        for place in [(0, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
            let entry = GptEntry {
                kind: [1; 16],
                id: [2; 16],
                place,
                name: String::new(),
                boot: false,
            };
            layout.add(&entry).unwrap();
        }
        assert!(add(&mut layout, &[new(Some(1))], "a").is_err());
        assert!(add(&mut layout, &[new(None)], "a").is_err());
    }
}
