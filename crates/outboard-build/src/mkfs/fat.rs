// SPDX-License-Identifier: GPL-2.0-only
//! FAT images that are the same each time: the kernel notes in each directory entry when it was
//! made, which no call can change, and makes short names of similar long ones from the time. This
//! gives all entries the time of their last change instead, and such names a number.
//!
//! The image was made a moment ago, by the distribution's tool and our kernel; everything is
//! checked all the same, and a chain of clusters is followed no further than there are clusters.

use outboard_error::{Error, Result};
use outboard_transfer::moment::utc;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a directory entry.
const ENTRY: usize = 32;
const DIRECTORY: u8 = 0x10;
const LABEL: u8 = 0x08;
/// Attributes of an entry that has a part of a long name.
const LONG_NAME: u8 = 0x0f;

/// The offsets of things in the image, in bytes.
struct FatLayout<'a> {
    file: &'a File,
    table: u64,
    bits: u32,
    clusters: u32,
    cluster_size: u64,
    data: u64,
}

/// A directory: the clusters of a chain, or the root of FAT12 and FAT16.
enum Directory {
    Chain(u32),
    Root { start: u64, size: u64 },
}

fn le16(bytes: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn le32(bytes: &[u8], at: usize) -> u64 {
    le16(bytes, at) | le16(bytes, at + 2) << 16
}

/// Seconds since 1970 as FAT's date and time.
fn stamp(seconds: i64) -> [u8; 4] {
    let seconds = seconds.clamp(315_532_800, 4_354_819_198);
    let (year, moment) = utc(seconds);
    let [month, day] = [moment.month(), moment.day()].map(i64::from);
    let [hour, minute, second] = [moment.hour(), moment.minute(), moment.second()].map(i64::from);
    let time = hour << 11 | minute << 5 | (second / 2);
    let date = (year - 1980) << 9 | month << 5 | day;
    let (time, date) = ((time as u16).to_le_bytes(), (date as u16).to_le_bytes());
    [time[0], time[1], date[0], date[1]]
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this is not FAT")
}

impl<'a> FatLayout<'a> {
    fn open(file: &'a File) -> io::Result<(Self, Directory)> {
        let mut boot = [0; 512];
        file.read_exact_at(&mut boot, 0)?;
        let sector = le16(&boot, 11);
        let cluster_size = u64::from(boot[13]) * sector;
        let table = le16(&boot, 14) * sector;
        let tables = u64::from(boot[16]);
        let either = |short: u64, long: u64| if short == 0 { long } else { short };
        let table_size = either(le16(&boot, 22), le32(&boot, 36)) * sector;
        let root = table + tables * table_size;
        let root_size = le16(&boot, 17) * ENTRY as u64;
        if sector == 0 || cluster_size == 0 || cluster_size > 1 << 20 {
            return Err(damaged());
        }
        let data = root + root_size.div_ceil(sector) * sector;
        let end = either(le16(&boot, 19), le32(&boot, 32)) * sector;
        let clusters = end.checked_sub(data).ok_or_else(damaged)? / cluster_size;
        let bits = match clusters {
            _ if root_size == 0 => 32,
            0..=4084 => 12,
            _ => 16,
        };
        let volume = Self {
            file,
            table,
            bits,
            clusters: u32::try_from(clusters).map_err(|_| damaged())?,
            cluster_size,
            data,
        };
        let top = match bits {
            32 => Directory::Chain(le32(&boot, 44) as u32),
            _ => Directory::Root {
                start: root,
                size: root_size,
            },
        };
        Ok((volume, top))
    }

    /// The cluster after this one.
    fn next(&self, cluster: u32) -> io::Result<u32> {
        let mut entry = [0; 4];
        let at = self.table + u64::from(cluster) * u64::from(self.bits) / 8;
        self.file.read_exact_at(&mut entry, at)?;
        let value = u32::from_le_bytes(entry);
        Ok(match self.bits {
            12 if cluster % 2 == 1 => value >> 4 & 0xfff,
            12 => value & 0xfff,
            16 => value & 0xffff,
            _ => value & 0x0fff_ffff,
        })
    }

    /// The places of a directory's parts, with their sizes.
    fn parts(&self, directory: &Directory) -> io::Result<Vec<(u64, u64)>> {
        let mut cluster = match *directory {
            Directory::Root { start, size } => return Ok(vec![(start, size)]),
            Directory::Chain(first) => first,
        };
        let mut parts = Vec::new();
        while (2..self.clusters.saturating_add(2)).contains(&cluster) {
            let place = self.data + u64::from(cluster - 2) * self.cluster_size;
            parts.push((place, self.cluster_size));
            if parts.len() > self.clusters as usize {
                return Err(damaged());
            }
            cluster = self.next(cluster)?;
        }
        Ok(parts)
    }

    /// Settles the entries of a directory; tells the directories in it.
    fn settle(&self, directory: &Directory, now: [u8; 4]) -> io::Result<Vec<Directory>> {
        let parts = self.parts(directory)?;
        let mut bytes = Vec::new();
        for (place, size) in &parts {
            let start = bytes.len();
            bytes.resize(start + *size as usize, 0);
            self.file.read_exact_at(&mut bytes[start..], *place)?;
        }
        settle_names(&mut bytes);
        let below = bytes
            .chunks_exact_mut(ENTRY)
            .filter_map(|entry| settle_entry(entry, now))
            .collect();
        let mut start = 0;
        for (place, size) in &parts {
            let end = start + *size as usize;
            self.file.write_all_at(&bytes[start..end], *place)?;
            start = end;
        }
        Ok(below)
    }
}

/// Settles an entry; tells the directory that it is, if it is one below.
fn settle_entry(entry: &mut [u8], now: [u8; 4]) -> Option<Directory> {
    let (first, attributes) = (entry[0], entry[11]);
    if matches!(first, 0 | 0xe5) {
        // The name of a removed file is not worth keeping.
        entry[1..].fill(0);
        return None;
    }
    if attributes & 0x3f == LONG_NAME {
        return None;
    }
    if first == b'.' || attributes & LABEL != 0 {
        // These have no time of the tree's.
        entry[22..26].copy_from_slice(&now);
    }
    let (time, date) = ([entry[22], entry[23]], [entry[24], entry[25]]);
    entry[13] = 0;
    entry[14..16].copy_from_slice(&time);
    entry[16..18].copy_from_slice(&date);
    entry[18..20].copy_from_slice(&date);
    if attributes & DIRECTORY == 0 || first == b'.' {
        return None;
    }
    let cluster = le16(entry, 20) << 16 | le16(entry, 26);
    Some(Directory::Chain(cluster as u32))
}

/// How many characters of its own a short name has whose others the kernel took from the time: it
/// does so from the tenth of similar names on. Some that it took from nowhere look the same, and
/// may be changed as well.
fn own_characters(name: &[u8]) -> Option<usize> {
    (1..=2).find(|own| {
        let digits = &name[*own..own + 4];
        let upper = |byte: &u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte);
        digits.iter().all(upper) && name[own + 4] == b'~' && name[own + 5].is_ascii_digit()
    })
}

/// The checksum of a short name that the parts of its long name contain.
fn checksum(name: &[u8]) -> u8 {
    name.iter()
        .fold(0u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte))
}

/// Gives the short names of a directory that have the time in them others, by their order.
fn settle_names(bytes: &mut [u8]) {
    let mut long = 0;
    let mut changing = Vec::new();
    let mut taken = HashSet::new();
    for (index, entry) in bytes.chunks_exact(ENTRY).enumerate() {
        if entry[0] == 0 {
            break;
        }
        if entry[0] != 0xe5 && entry[11] & 0x3f == LONG_NAME {
            long += 1;
            continue;
        }
        match own_characters(&entry[..8]).filter(|_| long > 0) {
            Some(own) => changing.push((index, long, own)),
            None => drop(taken.insert(entry[..11].to_vec())),
        }
        long = 0;
    }
    let mut number = 0u16;
    for (index, long, own) in changing {
        let at = index * ENTRY;
        let mut name = bytes[at..at + 11].to_vec();
        loop {
            name[own..own + 6].copy_from_slice(format!("{number:04X}~1").as_bytes());
            number = number.wrapping_add(1);
            if taken.insert(name.clone()) {
                break;
            }
        }
        bytes[at..at + 11].copy_from_slice(&name);
        for part in bytes[at - long * ENTRY..at].chunks_exact_mut(ENTRY) {
            part[13] = checksum(&name);
        }
    }
}

/// Gives all directory entries of an image times that do not depend on now.
pub fn settle(image: &Path, time: i64) -> Result<()> {
    let settle_all = || -> io::Result<()> {
        let file = File::options().read(true).write(true).open(image)?;
        let (volume, top) = FatLayout::open(&file)?;
        let mut waiting = vec![top];
        let mut left = volume.clusters.saturating_add(1);
        while let Some(directory) = waiting.pop() {
            left = left.checked_sub(1).ok_or_else(damaged)?;
            waiting.extend(volume.settle(&directory, stamp(time))?);
        }
        Ok(())
    };
    settle_all().map_err(|error| Error::failed("cannot settle the times of the new FAT", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps() {
        assert_eq!(stamp(0), [0, 0, 0x21, 0]);
        // 2023-11-14 22:13:20
        let date = (43 << 9 | 11 << 5 | 14_u16).to_le_bytes();
        let time = (22 << 11 | 13 << 5 | 10_u16).to_le_bytes();
        assert_eq!(stamp(1_700_000_000), [time[0], time[1], date[0], date[1]]);
        // 2107-12-31 23:59:58
        assert_eq!(stamp(i64::MAX), [0x7d, 0xbf, 0x9f, 0xff]);
    }

    #[test]
    fn names_made_from_the_time_become_numbers() {
        let mut bytes = vec![0; 8 * ENTRY];
        let put = |bytes: &mut [u8], index: usize, name: &[u8; 11], attributes: u8| {
            bytes[index * ENTRY..index * ENTRY + 11].copy_from_slice(name);
            bytes[index * ENTRY + 11] = attributes;
        };
        put(&mut bytes, 0, b"AF0000~1   ", 0x20);
        put(&mut bytes, 1, b"\x42          ", LONG_NAME);
        put(&mut bytes, 2, b"\x01          ", LONG_NAME);
        put(&mut bytes, 3, b"AF3FA2~3TXT", 0x20);
        put(&mut bytes, 4, b"\x41          ", LONG_NAME);
        put(&mut bytes, 5, b"AF12BC~3   ", 0x20);
        settle_names(&mut bytes);
        assert_eq!(&bytes[..11], b"AF0000~1   ", "it has no long name");
        assert_eq!(&bytes[3 * ENTRY..3 * ENTRY + 11], b"AF0000~1TXT");
        assert_eq!(&bytes[5 * ENTRY..5 * ENTRY + 11], b"AF0001~1   ");
        let sum = checksum(b"AF0000~1TXT");
        assert_eq!((bytes[ENTRY + 13], bytes[2 * ENTRY + 13]), (sum, sum));
    }

    #[test]
    fn nonsense_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        assert!(settle(file.path(), 0).is_err());
    }
}
