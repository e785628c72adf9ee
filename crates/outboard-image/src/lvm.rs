// SPDX-License-Identifier: GPL-2.0-only
//! Volume groups of LVM2, read from their physical volumes.
//!
//! A physical volume has a label in one of its first four sectors. The label has the offsets of
//! metadata areas, each with a header and a ring of texts. The header has the place of the current
//! text in the ring, which describes the whole group (see `group`). Every area of every physical
//! volume should hold the same text; the one with the highest sequence number is the newest.

mod group;
mod text;

pub use group::{Area, LogicalVolume, PhysicalPlace, Raid, Segment, SegmentKind, VolumeGroup};

use crate::block::{fetch, Block};
use crate::source::{watched, Source};
use std::io;

const SECTOR: usize = 512;
/// Offset where the checksums begin.
const CHECKSUM_START: u32 = 0xf597_a6cf;
const AREA_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
/// Most areas of a kind that a physical volume may have. LVM makes at most two.
const AREAS: usize = 8;
/// Most bytes of a metadata text. LVM's own limit follows from the area, usually 1 MiB.
const LONGEST: u64 = 16 << 20;

/// A disk or partition of a volume group, or one prepared for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhysicalVolume {
    /// Its identifier, without dashes.
    pub id: String,
    /// The newest description of the group here. Some physical volumes have none.
    pub group: Option<VolumeGroup>,
    /// Whether it has an invalid metadata area.
    pub damaged: bool,
}

/// The checksum of LVM: a CRC-32 with another start and without the inversion at the end.
fn checksum(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!CHECKSUM_START);
    for part in parts {
        hasher.update(part);
    }
    !hasher.finalize()
}

impl PhysicalVolume {
    /// Reads the label, and the metadata of the group. `None`: this is no physical volume.
    pub fn read(source: &(impl Source + ?Sized)) -> io::Result<Option<Self>> {
        watched(source, |source| Self::find(source))
    }

    fn find(source: &(impl Source + ?Sized)) -> Option<Self> {
        let label = (0..4).find_map(|sector| label(source, sector))?;
        let header = label.le32(20) as usize;
        let id = label.text(header, 32).filter(|id| id.len() == 32)?;
        let mut groups = Vec::new();
        let mut damaged = false;
        for (start, size) in metadata_areas(&label, header)? {
            match read_area(source, start, size) {
                Ok(found) => groups.extend(found),
                Err(Damaged) => damaged = true,
            }
        }
        let group = groups.into_iter().max_by_key(|group| group.sequence);
        Some(Self { id, group, damaged })
    }
}

fn label(source: &(impl Source + ?Sized), sector: u64) -> Option<Block> {
    let block = fetch(source, sector * SECTOR as u64, SECTOR)?;
    let good = block.has(0, b"LABELONE")
        && block.has(24, b"LVM2 001")
        && block.le64(8) == sector
        && block.le32(16) == checksum(&[block.bytes(20, SECTOR)]);
    good.then_some(block)
}

/// A list of places (start and size in bytes) up to an entry of zeroes, and the offset behind the
/// list.
fn places(label: &Block, start: usize) -> Option<(Vec<(u64, u64)>, usize)> {
    let mut found = Vec::new();
    let mut at = start;
    loop {
        let place = (label.le64(at), label.le64(at + 8));
        at += 16;
        if at > SECTOR || found.len() > AREAS {
            return None;
        }
        if place.0 == 0 {
            return Some((found, at));
        }
        found.push(place);
    }
}

/// The header has the identifier and the size, then the places of data, then those of metadata.
fn metadata_areas(label: &Block, header: usize) -> Option<Vec<(u64, u64)>> {
    let (_, next) = places(label, header.checked_add(40)?)?;
    Some(places(label, next)?.0)
}

struct Damaged;

/// The group that an area of metadata describes. An area that is not in use has none.
fn read_area(
    source: &(impl Source + ?Sized),
    start: u64,
    size: u64,
) -> Result<Option<VolumeGroup>, Damaged> {
    let header = fetch(source, start, SECTOR).ok_or(Damaged)?;
    let good = header.has(4, AREA_MAGIC)
        && header.le32(20) == 1
        && header.le64(24) == start
        && header.le64(32) == size
        && header.le32(0) == checksum(&[header.bytes(4, SECTOR)]);
    if !good {
        return Err(Damaged);
    }
    let (offset, length) = (header.le64(40), header.le64(48));
    let ignored = header.le32(60) & 1 != 0;
    if offset == 0 || length == 0 || ignored {
        return Ok(None);
    }
    let bytes = ring(source, start, size, offset, length).ok_or(Damaged)?;
    if header.le32(56) != checksum(&[&bytes]) {
        return Err(Damaged);
    }
    let text = String::from_utf8(bytes).map_err(|_| Damaged)?;
    let group = VolumeGroup::parse(text.trim_end_matches('\0')).ok_or(Damaged)?;
    Ok(Some(group))
}

/// A text in the ring behind an area's header; a text that reaches the end continues at the
/// beginning.
fn ring(
    source: &(impl Source + ?Sized),
    start: u64,
    size: u64,
    offset: u64,
    length: u64,
) -> Option<Vec<u8>> {
    let first = SECTOR as u64;
    if offset < first || offset >= size || length > LONGEST || length > size - first {
        return None;
    }
    let straight = length.min(size - offset);
    let begin = fetch(source, start.checked_add(offset)?, straight as usize)?;
    let mut bytes = begin.bytes(0, straight as usize).to_vec();
    if length > straight {
        let rest = (length - straight) as usize;
        bytes.extend(fetch(source, start.checked_add(first)?, rest)?.bytes(0, rest));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
