// SPDX-License-Identifier: GPL-2.0-only
//! ISO 9660 images that are the same each time: the tool takes the times of files from the host,
//! also those that are later than the source date. Each directory record has a time of its own, and
//! those of Rock Ridge in its field TF.
//!
//! The image was made a moment ago by the distribution's tool. Everything is checked all the same,
//! and each directory is read once, so that no record can lead this astray.

use outboard_error::{Error, Result};
use outboard_transfer::moment::utc;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SECTOR: u64 = 2048;
/// The first volume descriptor.
const DESCRIPTORS: u64 = 16;
/// Descriptors that are looked at.
const LIMIT: u64 = 64;
/// Types of descriptors: the primary one, those of Joliet and the like, and the end. The first two
/// have a directory.
const PRIMARY: u8 = 1;
const SUPPLEMENTARY: u8 = 2;
const END: u8 = 255;
/// The record of the root directory, in a descriptor.
const ROOT: usize = 156;
/// In a record: bytes before the name, and where its fields are.
const RECORD: usize = 33;
const EXTENT: usize = 2;
const SIZE: usize = 10;
const TIME: usize = 18;
const FLAGS: usize = 25;
const NAME_LENGTH: usize = 32;
const DIRECTORY: u8 = 2;
/// Most bytes of one directory.
const LARGEST: u64 = 1 << 30;
/// Bytes of a time in its short and its long form, and those that say when: the last one is the
/// zone.
const SHORT: usize = 7;
const LONG: usize = 17;
/// In a field TF: the bytes before the times, and the flag that says that these are long.
const TF_HEAD: usize = 5;
const TF_LONG: u8 = 0x80;

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this is not ISO 9660")
}

fn le32(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u64::from(u32::from_le_bytes(*field)))
}

/// A time that others must not be later than. All are in UTC, the zone in which the tool runs.
struct Latest {
    short: [u8; SHORT],
    long: [u8; LONG],
}

impl Latest {
    fn new(time: i64) -> Self {
        let (year, time) = utc(time);
        let since_1900 = (year - 1900).clamp(0, 255) as u8;
        let text = format!("{year:04}{}00\0", time.strftime("%m%d%H%M%S"));
        let [month, day] = [time.month(), time.day()].map(|part| part as u8);
        let parts = [time.hour(), time.minute(), time.second()];
        let [hour, minute, second] = parts.map(|part| part as u8);
        let mut long = [0; LONG];
        long.iter_mut()
            .zip(text.bytes())
            .for_each(|(to, from)| *to = from);
        Self {
            short: [since_1900, month, day, hour, minute, second, 0],
            long,
        }
    }

    /// Changes a time that is later.
    fn apply(&self, field: &mut [u8]) {
        let latest: &[u8] = match field.len() {
            LONG => &self.long,
            _ => &self.short,
        };
        if *field > *latest {
            field.copy_from_slice(latest);
        }
    }

    /// Changes the times of Rock Ridge in the area behind a name. Returns where the area goes on:
    /// place and length.
    fn apply_to_area(&self, area: &mut [u8]) -> Option<(u64, u64)> {
        let mut next = None;
        let mut at = 0;
        while let Some(&[first, second, length]) =
            area.get(at..).and_then(|rest| rest.first_chunk())
        {
            let end = at + usize::from(length);
            let field = area.get_mut(at..end).filter(|field| field.len() > 3)?;
            match [first, second] {
                [b'T', b'F'] if field.len() > TF_HEAD => {
                    let size = if field[4] & TF_LONG == 0 { SHORT } else { LONG };
                    let times = field[TF_HEAD..].chunks_exact_mut(size);
                    times.for_each(|time| self.apply(time));
                }
                [b'C', b'E'] => {
                    let place = le32(field, 4) * SECTOR + le32(field, 12);
                    next = Some((place, le32(field, 20)));
                }
                [b'S', b'T'] => break,
                _ => {}
            }
            at = end;
        }
        next
    }
}

struct IsoVolume<'a> {
    file: &'a File,
    latest: Latest,
    /// The places of directories that are settled.
    seen: HashSet<u64>,
    waiting: Vec<(u64, u64)>,
}

impl IsoVolume<'_> {
    fn read(&self, place: u64, size: u64) -> io::Result<Vec<u8>> {
        if size > LARGEST {
            return Err(damaged());
        }
        let mut bytes = vec![0; size as usize];
        self.file.read_exact_at(&mut bytes, place)?;
        Ok(bytes)
    }

    /// Settles the record at the start of `record`. A directory waits for its turn.
    fn record(&mut self, record: &mut [u8]) -> io::Result<()> {
        let name = usize::from(*record.get(NAME_LENGTH).ok_or_else(damaged)?);
        self.latest.apply(&mut record[TIME..TIME + SHORT]);
        if record[FLAGS] & DIRECTORY != 0 {
            let place = le32(record, EXTENT) * SECTOR;
            if self.seen.insert(place) {
                self.waiting.push((place, le32(record, SIZE)));
            }
        }
        // A byte of padding follows names of even length.
        let area = RECORD + name + (name + 1) % 2;
        let mut next = record
            .get_mut(area..)
            .and_then(|area| self.latest.apply_to_area(area));
        let mut left = LIMIT;
        while let Some((place, size)) = next {
            left = left.checked_sub(1).ok_or_else(damaged)?;
            let mut area = self.read(place, size)?;
            next = self.latest.apply_to_area(&mut area);
            self.file.write_all_at(&area, place)?;
        }
        Ok(())
    }

    fn directory(&mut self, place: u64, size: u64) -> io::Result<()> {
        let mut bytes = self.read(place, size)?;
        let mut at = 0;
        while at < bytes.len() {
            match usize::from(bytes[at]) {
                // No record crosses the end of a sector.
                0 => at = (at / SECTOR as usize + 1) * SECTOR as usize,
                length => {
                    let record = bytes.get_mut(at..at + length).ok_or_else(damaged)?;
                    self.record(record)?;
                    at += length;
                }
            }
        }
        self.file.write_all_at(&bytes, place)
    }

    fn all(&mut self) -> io::Result<()> {
        for index in 0..LIMIT {
            let place = (DESCRIPTORS + index) * SECTOR;
            let mut descriptor = self.read(place, SECTOR)?;
            if descriptor[1..6] != *b"CD001" {
                return Err(damaged());
            }
            match descriptor[0] {
                PRIMARY | SUPPLEMENTARY => {
                    self.record(&mut descriptor[ROOT..ROOT + RECORD + 1])?;
                    self.file.write_all_at(&descriptor, place)?;
                }
                END => break,
                _ => {}
            }
        }
        while let Some((place, size)) = self.waiting.pop() {
            self.directory(place, size)?;
        }
        Ok(())
    }
}

/// Makes times that are later than `time` this.
pub fn settle(path: &Path, time: i64) -> Result<()> {
    let settle = || {
        let file = File::options().read(true).write(true).open(path)?;
        let mut volume = IsoVolume {
            file: &file,
            latest: Latest::new(time),
            seen: HashSet::new(),
            waiting: Vec::new(),
        };
        volume.all()
    };
    settle().map_err(|error: io::Error| Error::failed("cannot settle the new file system", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_later_times_change() {
        let latest = Latest::new(1_700_000_000);
        assert_eq!(latest.short, [123, 11, 14, 22, 13, 20, 0]);
        assert_eq!(latest.long, *b"2023111422132000\0");
        let mut early = [101, 1, 1, 0, 0, 0, 0];
        latest.apply(&mut early);
        assert_eq!(early, [101, 1, 1, 0, 0, 0, 0]);
        let mut late = [123, 11, 14, 22, 13, 21, 0];
        latest.apply(&mut late);
        assert_eq!(late, latest.short);
        let mut long = *b"2023111422132001\0";
        latest.apply(&mut long);
        assert_eq!(long, latest.long);
    }

    #[test]
    fn times_of_rock_ridge() {
        let latest = Latest::new(0);
        let mut area = Vec::from(*b"RR\x05\x01\0TF\x0c\x01\x02");
        area.extend([126, 11, 23, 2, 0, 0, 0]);
        area.extend(*b"CE\x1c\x01");
        area.extend([
            2, 0, 0, 0, 0, 0, 0, 2, 7, 0, 0, 0, 0, 0, 0, 7, 9, 0, 0, 0, 0, 0, 0, 9,
        ]);
        assert_eq!(latest.apply_to_area(&mut area), Some((2 * SECTOR + 7, 9)));
        assert_eq!(area[10..17], [70, 1, 1, 0, 0, 0, 0]);
        for length in 0..area.len() {
            let _ = latest.apply_to_area(&mut area.clone()[..length]);
        }
    }

    #[test]
    fn what_is_no_disc_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        for size in [0, 40_000, 100_000] {
            std::fs::write(&path, vec![0; size]).unwrap();
            assert!(settle(&path, 0).is_err());
        }
    }
}
