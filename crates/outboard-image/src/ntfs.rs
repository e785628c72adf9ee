// SPDX-License-Identifier: GPL-2.0-only
//! Parts of NTFS files that Linux's driver does not show: named streams, reparse points.
//!
//! A file is a record of the master file table, by the number that Linux shows as the inode. A file
//! with many attributes has more records; its first record then has a list of all attributes.

use crate::block::{fetch, Block};
use crate::source::{watched, Source};
use std::io;

const STANDARD: u32 = 0x10;
const LIST: u32 = 0x20;
const DATA: u32 = 0x80;
const REPARSE: u32 = 0xc0;
const END: u32 = u32::MAX;
/// Bytes of the piece of a record whose last two bytes are kept elsewhere.
const STRIDE: usize = 512;
/// Most bytes of a list of attributes, by Windows' own limit.
const LONGEST_LIST: u64 = 256 << 10;
/// Most runs of the table, and most records that describe it.
const MOST_RUNS: usize = 1 << 20;
/// The record of the table itself.
const TABLE: u64 = 0;
/// In the number of a record: the bits that are no sequence number.
const NUMBER: u64 = (1 << 48) - 1;

/// Flags of files whose contents are on another medium: offline, recall on open or on access.
const ELSEWHERE: u32 = 0x1000 | 0x4_0000 | 0x40_0000;
/// Tags of reparse points that Linux understands or refuses itself: junctions, symbolic links,
/// deduplicated files.
const KNOWN: [u32; 3] = [0xa000_0003, 0xa000_000c, 0x8000_0013];
/// Set in tags of what is another name, which Linux shows as a link.
const NAME_SURROGATE: u32 = 0x2000_0000;
/// The Windows Overlay Filter, and the provider of it that Linux reads.
const OVERLAY: u32 = 0x8000_0017;
const OVERLAY_FILE: u32 = 2;
/// Its stream, which Linux reads.
const OVERLAY_STREAM: &str = "WofCompressedData";

/// The parts of a file that Linux does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenParts {
    /// Names of its streams.
    pub streams: Vec<String>,
    /// The tag of its reparse point.
    pub reparse_tag: Option<u32>,
    /// Its contents are not in the volume: Linux shows zeros.
    pub contents_elsewhere: bool,
}

/// Bytes of an attribute that lie together: first cluster of the volume, and their number.
type Runs = Vec<(Option<u64>, u64)>;

/// The master file table of a volume.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileTable {
    cluster: u64,
    record: u64,
    runs: Runs,
}

/// An attribute in a record.
struct Attribute<'a> {
    record: &'a Block,
    at: usize,
    kind: u32,
}

impl Attribute<'_> {
    fn name(&self) -> String {
        let length = usize::from(self.record.byte(self.at + 9));
        let start = self.at + usize::from(self.record.le16(self.at + 10));
        utf16(self.record.bytes(start, 2 * length))
    }

    fn is_resident(&self) -> bool {
        self.record.byte(self.at + 8) == 0
    }

    /// The bytes of a resident attribute.
    fn value(&self) -> &[u8] {
        let start = self.at + usize::from(self.record.le16(self.at + 20));
        let length = self.record.le32(self.at + 16) as usize;
        self.record.bytes(start, length)
    }

    fn first_cluster(&self) -> u64 {
        if self.is_resident() {
            0
        } else {
            self.record.le64(self.at + 16)
        }
    }

    /// The runs of an attribute that is not resident.
    fn runs(&self) -> Option<Runs> {
        let end = self.at + self.record.le32(self.at + 4) as usize;
        let mut at = self.at + usize::from(self.record.le16(self.at + 32));
        let (mut runs, mut place) = (Runs::new(), 0i64);
        while at < end && self.record.byte(at) != 0 {
            let sizes = self.record.byte(at);
            let (of_length, of_place) = (usize::from(sizes & 15), usize::from(sizes >> 4));
            let length = signed(self.record.bytes(at + 1, of_length))?;
            let step = signed(self.record.bytes(at + 1 + of_length, of_place));
            if let Some(step) = step.filter(|_| of_place > 0) {
                place = place.checked_add(step)?;
            }
            let start = match of_place {
                0 => None,
                _ => Some(u64::try_from(place).ok()?),
            };
            runs.push((start, u64::try_from(length).ok()?));
            if runs.len() > MOST_RUNS {
                return None;
            }
            at += 1 + of_length + of_place;
        }
        Some(runs)
    }
}

fn utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2);
    let units: Vec<u16> = units
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    String::from_utf16_lossy(&units)
}

/// A little-endian number of up to 8 bytes with a sign.
fn signed(bytes: &[u8]) -> Option<i64> {
    let last = *bytes.last()?;
    if bytes.len() > 8 {
        return None;
    }
    let fill = if last & 0x80 != 0 { 0xff } else { 0 };
    let mut whole = [fill; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    Some(i64::from_le_bytes(whole))
}

/// The attributes of a record.
fn attributes(record: &Block) -> impl Iterator<Item = Attribute<'_>> {
    let mut at = usize::from(record.le16(20));
    std::iter::from_fn(move || {
        let (kind, length) = (record.le32(at), record.le32(at + 4) as usize);
        if at + 24 > record.len() || kind == END || length < 24 {
            return None;
        }
        let found = Attribute { record, at, kind };
        at += length;
        Some(found)
    })
}

/// A record with the last bytes of its pieces in their places. `None`: it is no record, or torn.
fn whole_record(source: &(impl Source + ?Sized), offset: u64, length: u64) -> Option<Block> {
    let stored = fetch(source, offset, length as usize)?;
    if !stored.has(0, b"FILE") {
        return None;
    }
    let table = usize::from(stored.le16(4));
    let count = usize::from(stored.le16(6));
    let mut bytes = stored.bytes(0, stored.len()).to_vec();
    let mark = stored.bytes(table, 2);
    for piece in 1..count {
        let end = piece * STRIDE;
        let kept = stored.bytes(table + 2 * piece, 2);
        let place = bytes.get_mut(end - 2..end)?;
        if *place != *mark || kept.len() != 2 {
            return None;
        }
        place.copy_from_slice(kept);
    }
    Some(Block::from(bytes))
}

impl FileTable {
    /// Finds the table of a volume. `None`: this is no NTFS, or its table is damaged. An error: a
    /// read failed.
    pub fn open(source: &(impl Source + ?Sized)) -> io::Result<Option<Self>> {
        watched(source, |source| Self::find(source))
    }

    fn find(source: &(impl Source + ?Sized)) -> Option<Self> {
        let boot = fetch(source, 0, 512)?;
        let sector = u64::from(boot.le16(11));
        if !boot.has(3, b"NTFS    ") || !(256..=4096).contains(&sector) {
            return None;
        }
        let sectors = match boot.byte(13) {
            count @ 0..=128 => u64::from(count),
            shift => 1 << (256 - u64::from(shift)).min(31),
        };
        let cluster = sector * sectors;
        let record = match boot.byte(64) as i8 {
            count @ 1.. => cluster.checked_mul(count as u64)?,
            shift @ -31..=-1 => 1 << -i32::from(shift),
            _ => return None,
        };
        if cluster == 0 || !(512..=65536).contains(&record) {
            return None;
        }
        // The first record describes where the table is, and lies in the table's first run.
        let start = (Some(boot.le64(48)), record.div_ceil(cluster));
        let mut table = Self {
            cluster,
            record,
            runs: vec![start],
        };
        table.runs = table.own_runs(source)?;
        Some(table)
    }

    /// The runs of the table itself. Parts of it may be described by records in earlier parts.
    fn own_runs(&self, source: &(impl Source + ?Sized)) -> Option<Runs> {
        let first = self.record(source, TABLE)?;
        let mut known = Self {
            cluster: self.cluster,
            record: self.record,
            runs: Runs::new(),
        };
        let unnamed = |found: &Attribute| found.kind == DATA && found.name().is_empty();
        known.runs = attributes(&first).find(unnamed)?.runs()?;
        let Some(list) = self.list(source, &first) else {
            return Some(known.runs);
        };
        for entry in known.entries(&list?) {
            if entry.kind != DATA || entry.first_cluster == 0 || !entry.name.is_empty() {
                continue;
            }
            let more = known.record(source, entry.record)?;
            let part = attributes(&more)
                .find(|found| unnamed(found) && found.first_cluster() == entry.first_cluster)?;
            known.runs.extend(part.runs()?);
            if known.runs.len() > MOST_RUNS {
                return None;
            }
        }
        Some(known.runs)
    }

    /// Reads the record of this number.
    fn record(&self, source: &(impl Source + ?Sized), number: u64) -> Option<Block> {
        let offset = place(&self.runs, self.cluster, number.checked_mul(self.record)?)?;
        whole_record(source, offset, self.record)
    }

    /// The list of a file's attributes, if it has one. Inner `None`: it cannot be read.
    fn list(&self, source: &(impl Source + ?Sized), record: &Block) -> Option<Option<Block>> {
        let list = attributes(record).find(|found| found.kind == LIST)?;
        Some(self.bytes(source, &list, LONGEST_LIST))
    }

    /// The bytes of an attribute, at most so many.
    fn bytes(
        &self,
        source: &(impl Source + ?Sized),
        attribute: &Attribute,
        most: u64,
    ) -> Option<Block> {
        if attribute.is_resident() {
            return Some(Block::from(attribute.value().to_vec()));
        }
        let size = attribute.record.le64(attribute.at + 48).min(most);
        let runs = attribute.runs()?;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < size {
            let done = bytes.len() as u64;
            let offset = place(&runs, self.cluster, done)?;
            let piece = (size - done).min(self.cluster - done % self.cluster);
            let block = fetch(source, offset, piece as usize)?;
            bytes.extend_from_slice(block.bytes(0, block.len()));
        }
        Some(Block::from(bytes))
    }

    fn entries(&self, list: &Block) -> Vec<ListEntry> {
        let mut entries = Vec::new();
        let mut at = 0;
        while at + 26 <= list.len() {
            let length = usize::from(list.le16(at + 4));
            let name = usize::from(list.byte(at + 6));
            let start = at + usize::from(list.byte(at + 7));
            entries.push(ListEntry {
                kind: list.le32(at),
                name: utf16(list.bytes(start, 2 * name)),
                first_cluster: list.le64(at + 8),
                record: list.le64(at + 16) & NUMBER,
            });
            if length < 26 {
                break;
            }
            at += length;
        }
        entries
    }

    /// The parts of a file that Linux does not show. `None`: the file's record is damaged.
    /// An error: a read failed.
    pub fn hidden_parts(
        &self,
        source: &(impl Source + ?Sized),
        number: u64,
    ) -> io::Result<Option<HiddenParts>> {
        watched(source, |source| self.parts(source, number))
    }

    fn parts(&self, source: &(impl Source + ?Sized), number: u64) -> Option<HiddenParts> {
        let record = self.record(source, number)?;
        let mut hidden = HiddenParts::default();
        let mut flags = 0;
        let mut point = None;
        for found in attributes(&record) {
            match found.kind {
                STANDARD if found.is_resident() => {
                    flags = Block::from(found.value().to_vec()).le32(32);
                }
                DATA => hidden.add_stream(found.name()),
                REPARSE => point = Some(self.bytes(source, &found, 24)?),
                _ => {}
            }
        }
        if let Some(list) = self.list(source, &record) {
            for entry in self.entries(&list?) {
                match entry.kind {
                    DATA => hidden.add_stream(entry.name),
                    REPARSE if point.is_none() => {
                        let other = self.record(source, entry.record)?;
                        let found = attributes(&other).find(|found| found.kind == REPARSE)?;
                        point = Some(self.bytes(source, &found, 24)?);
                    }
                    _ => {}
                }
            }
        }
        if let Some(point) = point {
            hidden.add_point(&point, flags);
        }
        Some(hidden)
    }
}

/// An attribute in a list.
struct ListEntry {
    kind: u32,
    name: String,
    first_cluster: u64,
    record: u64,
}

impl HiddenParts {
    /// Whether Linux shows all of the file.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add_stream(&mut self, name: String) {
        if !name.is_empty() && !self.streams.contains(&name) {
            self.streams.push(name);
        }
    }

    /// Adds a reparse point that Linux does not understand.
    fn add_point(&mut self, point: &Block, flags: u32) {
        let tag = point.le32(0);
        if tag == OVERLAY {
            self.streams.retain(|name| name != OVERLAY_STREAM);
            if point.le32(12) == OVERLAY_FILE {
                return;
            }
            self.contents_elsewhere = true;
        } else if KNOWN.contains(&tag) || tag & NAME_SURROGATE != 0 {
            return;
        }
        self.reparse_tag = Some(tag);
        self.contents_elsewhere |= flags & ELSEWHERE != 0;
    }
}

/// The offset in the volume of a byte of an attribute.
fn place(runs: &Runs, cluster: u64, offset: u64) -> Option<u64> {
    let mut left = offset;
    for (start, clusters) in runs {
        let length = clusters.checked_mul(cluster)?;
        if left < length {
            return (*start)?.checked_mul(cluster)?.checked_add(left);
        }
        left -= length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: usize = 1024;
    const CLUSTER: usize = 4096;

    /// A resident attribute.
    fn attribute(kind: u32, name: &str, value: &[u8]) -> Vec<u8> {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let start = 24 + name.len();
        let length = (start + value.len()).next_multiple_of(8);
        let mut bytes = vec![0; length];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4] = length as u8;
        bytes[9] = (name.len() / 2) as u8;
        bytes[10] = 24;
        bytes[16] = value.len() as u8;
        bytes[20] = start as u8;
        bytes[24..start].copy_from_slice(&name);
        bytes[start..start + value.len()].copy_from_slice(value);
        bytes
    }

    /// The data of the table: one run.
    fn table_data(clusters: u8, first: u8) -> Vec<u8> {
        let mut bytes = vec![0; 72];
        bytes[..4].copy_from_slice(&DATA.to_le_bytes());
        bytes[4] = 72;
        bytes[8] = 1;
        bytes[32] = 64;
        bytes[64..67].copy_from_slice(&[0x11, clusters, first]);
        bytes
    }

    fn record(attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0; RECORD];
        bytes[..4].copy_from_slice(b"FILE");
        bytes[4] = 48;
        bytes[6] = 3;
        bytes[20] = 56;
        let all = [attributes.concat(), vec![0xff; 4]].concat();
        bytes[56..56 + all.len()].copy_from_slice(&all);
        for piece in [1, 2] {
            let end = piece * STRIDE;
            let last: [u8; 2] = bytes[end - 2..end].try_into().unwrap();
            bytes[48 + 2 * piece..50 + 2 * piece].copy_from_slice(&last);
            bytes[48..50].copy_from_slice(&[7, 7]);
            bytes[end - 2..end].copy_from_slice(&[7, 7]);
        }
        bytes
    }

    /// A volume whose table begins in cluster 4: these records follow the table's own.
    fn volume(records: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0; 16 * CLUSTER];
        bytes[3..11].copy_from_slice(b"NTFS    ");
        bytes[12] = 2;
        bytes[13] = 8;
        bytes[48] = 4;
        bytes[64] = -10i8 as u8;
        let own = record(&[table_data(4, 4)]);
        for (index, record) in std::iter::once(&own).chain(records).enumerate() {
            let start = 4 * CLUSTER + index * RECORD;
            bytes[start..start + RECORD].copy_from_slice(record);
        }
        bytes
    }

    fn standard(flags: u32) -> Vec<u8> {
        let mut value = vec![0; 48];
        value[32..36].copy_from_slice(&flags.to_le_bytes());
        attribute(STANDARD, "", &value)
    }

    fn point(tag: u32, provider: u32) -> Vec<u8> {
        let words = [tag, 16, 1, provider, 1, 0];
        let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        attribute(REPARSE, "", &value)
    }

    fn hidden(records: &[Vec<u8>]) -> HiddenParts {
        let volume = volume(records);
        let table = FileTable::open(volume.as_slice()).unwrap().unwrap();
        let parts = table.hidden_parts(volume.as_slice(), 1).unwrap();
        parts.unwrap()
    }

    #[test]
    fn streams_have_names() {
        let plain = record(&[standard(0), attribute(DATA, "", b"x")]);
        assert!(hidden(&[plain]).is_empty());
        let long = attribute(DATA, "Zone.Identifier", &[b'x'; 100]);
        let parts = hidden(&[record(&[
            attribute(DATA, "", b""),
            attribute(DATA, "ä", b""),
            long,
        ])]);
        assert_eq!(parts.streams, ["ä", "Zone.Identifier"]);
    }

    #[test]
    fn attributes_may_be_in_other_records() {
        let mut entries = Vec::new();
        for (kind, name, number) in [(DATA, "far", 2u8), (REPARSE, "", 2)] {
            let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let mut entry = vec![0; 26 + name.len()];
            entry[..4].copy_from_slice(&kind.to_le_bytes());
            entry[4] = entry.len() as u8;
            entry[6] = (name.len() / 2) as u8;
            entry[7] = 26;
            entry[16] = number;
            entry[26..].copy_from_slice(&name);
            entries.extend(entry);
        }
        let parts = hidden(&[
            record(&[standard(0), attribute(LIST, "", &entries)]),
            record(&[attribute(DATA, "far", b""), point(0x8000_0023, 0)]),
        ]);
        assert_eq!(parts.streams, ["far"]);
        assert_eq!(parts.reparse_tag, Some(0x8000_0023));
    }

    #[test]
    fn reparse_points_that_linux_does_not_read() {
        for (tag, provider, flags, expected) in [
            (0xa000_000c, 0, 0, None),
            (0xa000_001d, 0, 0, None),
            (OVERLAY, OVERLAY_FILE, 0, None),
            (OVERLAY, 1, 0, Some(true)),
            (0x9000_601a, 0, 0x40_0000, Some(true)),
            (0x9000_001a, 0, 0, Some(false)),
            (0x8000_0024, 0, 0, Some(false)),
        ] {
            let stream = attribute(DATA, OVERLAY_STREAM, b"");
            let mut all = vec![standard(flags), point(tag, provider)];
            if tag == OVERLAY {
                all.push(stream);
            }
            let parts = hidden(&[record(&all)]);
            assert_eq!(
                parts.reparse_tag.map(|_| parts.contents_elsewhere),
                expected,
                "{tag:x}"
            );
            assert_eq!(parts.is_empty(), expected.is_none(), "{tag:x}");
        }
    }

    #[test]
    fn damaged_records() {
        let good = volume(&[record(&[attribute(DATA, "a", b"")])]);
        let table = FileTable::open(good.as_slice()).unwrap().unwrap();
        let parts = |bytes: &[u8], number| table.hidden_parts(bytes, number).unwrap();
        assert_eq!(parts(&good, 2), None);
        assert_eq!(parts(&good, u64::MAX), None);
        let mut torn = good.clone();
        torn[4 * CLUSTER + RECORD + STRIDE - 1] ^= 1;
        assert_eq!(parts(&torn, 1), None);
        // Nothing panics, whatever a byte says.
        for place in (0..80).chain(4 * CLUSTER..4 * CLUSTER + 2 * RECORD) {
            let mut changed = good.clone();
            changed[place] ^= 0xff;
            if let Some(table) = FileTable::open(changed.as_slice()).unwrap() {
                table.hidden_parts(changed.as_slice(), 1).unwrap();
            }
        }
    }
}
