// SPDX-License-Identifier: GPL-2.0-only
//! Members of RAID arrays of Linux's md, recognised by their superblocks.
//!
//! A superblock of version 1 is near the end (1.0), at the start (1.1) or 4 KiB after it (1.2). One
//! of version 0.90 is in the last 64 KiB. Each names its array, and the member's role. The one with
//! the highest count of events is the newest; it also describes all others.

use crate::block::{fetch, Block};
use crate::source::{watched, Source};
use std::collections::BTreeSet;
use std::io;

const MAGIC: u32 = 0xa92b_4efc;
/// Bytes of a superblock of version 1 without the roles that follow, and of one of version 0.90.
const SIZE: usize = 256;
const OLD_SIZE: usize = 4096;
/// Most devices that an array may have, of either version.
const MOST_DEVICES: u32 = 1920;
const OLD_DEVICES: u32 = 27;
/// Roles above this are special: spare, faulty, journal.
const LAST_ROLE: u16 = 0xff00;
/// The array is being reshaped.
const RESHAPE: u32 = 4;
/// Several machines use the array at once.
const CLUSTERED: u32 = 256;
/// A bitmap, a journal or logs of partial parity, old and new.
const LOGS: u32 = 1 | 512 | 1024 | 2048;
/// The same in the state of version 0.90.
const OLD_BITMAP: u32 = 1 << 8;

/// The place of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 0.90: at the end of the device.
    V090,
    /// 1.0: at the end of the device.
    V10,
    /// 1.1: at the start of the device.
    V11,
    /// 1.2: 4 KiB after the start of the device.
    V12,
}

impl Version {
    /// As mdadm(8) writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V090 => "0.90",
            Self::V10 => "1.0",
            Self::V11 => "1.1",
            Self::V12 => "1.2",
        }
    }

    /// Major and minor number.
    pub fn numbers(self) -> (i32, i32) {
        match self {
            Self::V090 => (0, 90),
            Self::V10 => (1, 0),
            Self::V11 => (1, 1),
            Self::V12 => (1, 2),
        }
    }
}

/// The role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    /// An active member with this slot.
    Active(u32),
    /// A spare disk.
    Spare,
    /// A disk that failed.
    Faulty,
    /// The journal of a RAID 5 or 6.
    Journal,
}

/// The superblock of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrayMember {
    /// Version of the superblock.
    pub version: Version,
    /// Of the array.
    pub uuid: String,
    /// The array's name, without the prefix of a host's name.
    pub name: Option<String>,
    /// The preferred number of an array of version 0.90.
    pub number: Option<u32>,
    /// 0, 1, 4, 5, 6, 10; negative for other personalities, such as linear.
    pub level: i32,
    /// Places in the array.
    pub places: u32,
    /// Role in the array.
    pub role: MemberRole,
    /// Number of changes of the superblock.
    pub events: u64,
    /// Whether the members are in sync.
    pub clean: bool,
    /// Whether the array is being reshaped.
    pub reshaping: bool,
    /// Whether several hosts share the array.
    pub clustered: bool,
    /// It has a write log, which the kernel writes as soon as the array runs.
    pub logs: bool,
    /// Slots with a working member, according to this superblock.
    pub active: BTreeSet<u32>,
}

impl ArrayMember {
    /// Finds the superblock. `None`: this is no member of an array.
    pub fn read(source: &(impl Source + ?Sized)) -> io::Result<Option<Self>> {
        watched(source, |source| Self::find(source))
    }

    pub(crate) fn find(source: &(impl Source + ?Sized)) -> Option<Self> {
        let size = source.size();
        let end = |room: u64, unit: u64| size.checked_sub(room).map(|at| at / unit * unit);
        let places = [
            (Version::V11, Some(0)),
            (Version::V12, Some(4096)),
            (Version::V10, end(8192, 4096)),
        ];
        places
            .into_iter()
            .find_map(|(version, offset)| read_current(source, version, offset?))
            .or_else(|| read_old(source, end(65536, 65536)?))
    }

    /// The array's name, for people and on the command line.
    pub fn array_name(&self) -> String {
        match (&self.name, self.number) {
            (Some(name), _) => name.clone(),
            (None, Some(number)) => format!("md{number}"),
            (None, None) => format!("md-{}", self.uuid.get(..8).unwrap_or_default()),
        }
    }

    /// Whether an array works with members in these slots only.
    pub fn works_with(&self, present: &BTreeSet<u32>) -> bool {
        let missing = (0..self.places)
            .filter(|place| !present.contains(place))
            .count();
        match self.level {
            1 => !present.is_empty(),
            4 | 5 => missing <= 1,
            6 => missing <= 2,
            // The kernel knows which members may be missing.
            10 => !present.is_empty(),
            _ => missing == 0,
        }
    }
}

fn read_current(
    source: &(impl Source + ?Sized),
    version: Version,
    offset: u64,
) -> Option<ArrayMember> {
    let head = fetch(source, offset, SIZE)?;
    let (places, devices) = (head.le32(92), head.le32(220));
    let here = head.le32(0) == MAGIC && head.le32(4) == 1 && head.le64(144) == offset / 512;
    if !here || places > MOST_DEVICES || devices > MOST_DEVICES {
        return None;
    }
    let size = SIZE + 2 * devices as usize;
    let block = fetch(source, offset, size)?;
    if block.le32(216) != sum(&block, size, 216) {
        return None;
    }
    let number = block.le32(160);
    let role = |number: u32| block.le16(SIZE + 2 * number as usize);
    let own = if number < devices {
        role(number)
    } else {
        0xffff
    };
    let features = block.le32(8);
    Some(ArrayMember {
        version,
        uuid: block.uuid(16)?,
        name: block.text(32, 32).map(without_host),
        number: None,
        level: block.le32(72) as i32,
        places,
        role: match own {
            0xfffe => MemberRole::Faulty,
            0xfffd => MemberRole::Journal,
            place if place <= LAST_ROLE && u32::from(place) < places => {
                MemberRole::Active(u32::from(place))
            }
            _ => MemberRole::Spare,
        },
        events: block.le64(200),
        clean: block.le64(208) == u64::MAX,
        reshaping: features & RESHAPE != 0,
        clustered: features & CLUSTERED != 0,
        logs: features & LOGS != 0,
        active: (0..devices)
            .map(|number| u32::from(role(number)))
            .filter(|&place| place < places)
            .collect(),
    })
}

/// "host:name" is "name".
fn without_host(name: String) -> String {
    match name.split_once(':') {
        Some((_, rest)) if !rest.is_empty() => rest.to_owned(),
        _ => name,
    }
}

fn read_old(source: &(impl Source + ?Sized), offset: u64) -> Option<ArrayMember> {
    /// Offset of the descriptors of devices, each of 128 bytes; the last one is that of the member
    /// itself.
    const DEVICES: usize = 512;
    const OWN: usize = OLD_SIZE - 128;
    let block = fetch(source, offset, OLD_SIZE)?;
    let good = block.le32(0) == MAGIC
        && block.le32(4) == 0
        && block.le32(8) >= 90
        && block.le32(152) == sum(&block, OLD_SIZE, 152);
    let places = block.le32(40);
    if !good || places > OLD_DEVICES {
        return None;
    }
    let devices = block.le32(36).min(OLD_DEVICES);
    let (faulty, active) = (1, 1 << 1 | 1 << 2);
    let place = |at: usize| {
        let (place, state) = (block.le32(at + 12), block.le32(at + 16));
        (state & faulty == 0 && state & active == active && place < places).then_some(place)
    };
    let own = match place(OWN) {
        Some(place) => MemberRole::Active(place),
        None if block.le32(OWN + 16) & faulty != 0 => MemberRole::Faulty,
        None => MemberRole::Spare,
    };
    let uuid = [20, 52, 56, 60].map(|at| format!("{:08x}", block.le32(at)));
    Some(ArrayMember {
        version: Version::V090,
        uuid: uuid.join(":"),
        name: None,
        number: Some(block.le32(44)),
        level: block.le32(28) as i32,
        places,
        role: own,
        events: u64::from(block.le32(160)) << 32 | u64::from(block.le32(156)),
        clean: block.le32(132) & 1 != 0,
        reshaping: block.le32(8) >= 91,
        clustered: false,
        logs: block.le32(132) & OLD_BITMAP != 0,
        active: (0..devices.max(places))
            .filter_map(|index| place(DEVICES + 128 * index as usize))
            .collect(),
    })
}

/// The sum of all words except the checksum's, with carries added.
fn sum(block: &Block, size: usize, except: usize) -> u32 {
    let words = (0..size / 4 * 4).step_by(4);
    let mut sum: u64 = words
        .filter(|&at| at != except)
        .map(|at| u64::from(block.le32(at)))
        .sum();
    if size % 4 == 2 {
        sum += u64::from(block.le16(size - 2));
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member of a RAID1 of two devices, version 1.2.
    fn member(change: impl Fn(&mut [u8])) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        let block = &mut bytes[4096..];
        let mut put = |at: usize, value: u64, size: usize| {
            block[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        };
        put(0, u64::from(MAGIC), 4);
        put(4, 1, 4);
        put(16, 0x0123_4567, 8);
        put(72, 1, 4);
        put(92, 2, 4);
        put(144, 8, 8);
        put(160, 1, 4);
        put(200, 17, 8);
        put(208, u64::MAX, 8);
        put(220, 3, 4);
        put(256, 0, 2);
        put(258, 1, 2);
        put(260, 0xffff, 2);
        block[32..39].copy_from_slice(b"host:r1");
        change(block);
        let fetched = fetch(bytes.as_slice(), 4096, 262).unwrap();
        let sum = sum(&fetched, 262, 216);
        bytes[4096 + 216..4096 + 220].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_member_of_version_1() {
        let found = ArrayMember::find(member(|_| ()).as_slice()).unwrap();
        assert_eq!(found.version, Version::V12);
        assert_eq!(found.array_name(), "r1");
        assert_eq!((found.level, found.places), (1, 2));
        assert_eq!(found.role, MemberRole::Active(1));
        assert_eq!(found.events, 17);
        assert!(found.clean && !found.reshaping);
        assert_eq!(found.active, BTreeSet::from([0, 1]));
        assert!(found.works_with(&BTreeSet::from([1])));
        assert!(!found.works_with(&BTreeSet::new()));
    }

    #[test]
    fn roles() {
        let role = |number: u8, role: [u8; 2]| {
            let bytes = member(|block| {
                block[160] = number;
                block[256..258].copy_from_slice(&role);
            });
            ArrayMember::find(bytes.as_slice()).unwrap().role
        };
        assert_eq!(role(0, [0xfe, 0xff]), MemberRole::Faulty);
        assert_eq!(role(0, [0xfd, 0xff]), MemberRole::Journal);
        assert_eq!(role(0, [7, 0]), MemberRole::Spare, "beyond the array");
        assert_eq!(role(200, [0, 0]), MemberRole::Spare, "no such device");
    }

    #[test]
    fn what_is_no_member() {
        for at in [0, 4, 144, 200, 216, 260] {
            let mut bytes = member(|_| ());
            bytes[4096 + at] ^= 1;
            assert_eq!(ArrayMember::find(bytes.as_slice()), None, "byte {at}");
        }
        let huge = member(|block| block[220..224].copy_from_slice(&[0xff; 4]));
        assert_eq!(ArrayMember::find(huge.as_slice()), None);
        let wide = member(|block| block[92..96].copy_from_slice(&[0xff; 4]));
        assert_eq!(ArrayMember::find(wide.as_slice()), None);
        for size in [0, 1, 4096, 8191, 65536] {
            assert_eq!(ArrayMember::find(vec![0u8; size].as_slice()), None);
        }
    }

    #[test]
    fn a_member_of_version_090() {
        let mut bytes = vec![0; 3 << 16];
        let offset = 2 << 16;
        let mut put = |at: usize, value: u32| {
            bytes[offset + at..offset + at + 4].copy_from_slice(&value.to_le_bytes());
        };
        for (at, value) in [(0, MAGIC), (8, 90), (28, 5), (36, 3), (40, 3), (44, 127)] {
            put(at, value);
        }
        put(132, 1);
        put(156, 9);
        for index in 0..2u32 {
            put(512 + 128 * index as usize + 12, index);
            put(512 + 128 * index as usize + 16, 6);
        }
        put(OLD_SIZE - 128 + 12, 1);
        put(OLD_SIZE - 128 + 16, 6);
        let seal = |bytes: &mut [u8]| {
            let block = fetch(&*bytes, offset as u64, OLD_SIZE).unwrap();
            let sum = sum(&block, OLD_SIZE, 152);
            bytes[offset + 152..offset + 156].copy_from_slice(&sum.to_le_bytes());
        };
        seal(&mut bytes);
        let found = ArrayMember::find(bytes.as_slice()).unwrap();
        assert_eq!((found.version, found.level), (Version::V090, 5));
        assert_eq!(found.array_name(), "md127");
        assert_eq!(found.role, MemberRole::Active(1));
        assert_eq!((found.events, found.clean), (9, true));
        // The third place is empty: its descriptor is all zero.
        assert_eq!(found.active, BTreeSet::from([0, 1]));
        assert!(found.works_with(&found.active));
        assert!(!found.works_with(&BTreeSet::from([0])));
        bytes[offset + 40] = 4;
        assert_eq!(ArrayMember::find(bytes.as_slice()), None, "checksum");
        bytes[offset + 40..offset + 44].copy_from_slice(&[0xff; 4]);
        seal(&mut bytes);
        assert_eq!(ArrayMember::find(bytes.as_slice()), None, "places");
    }
}
