// SPDX-License-Identifier: GPL-2.0-only
//! Devices of btrfs: which device of its file system each one is, and how old its copy is.

use crate::block::{fetch, Block};
use crate::crc::crc32c;
use crate::source::{watched, Source};
use std::io;
use std::ops::Range;

/// The offset of the superblock.
pub const SUPERBLOCK: u64 = 65536;
/// Its bytes.
const SIZE: usize = 4096;
/// Places in it: the checksum of all behind it, the UUID that tells file systems apart, and the one
/// that the other metadata have if that is another one.
const CHECKSUM: Range<usize> = 0..32;
const UUID: Range<usize> = 32..48;
const METADATA_UUID: Range<usize> = 571..587;
/// The flags of features without which a driver must not mount it, and the one for two UUIDs.
const FEATURES: usize = 188;
const TWO_UUIDS: u64 = 1 << 10;
/// The kind of checksum, and crc32c.
const CHECKSUM_KIND: usize = 196;
const CRC32C: u16 = 0;
pub(crate) const MAGIC: &[u8] = b"_BHRfS_M";
/// Offset of the description of the device itself in the superblock.
pub(crate) const DEVICE: usize = 201;

/// The part of a superblock about its device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BtrfsMember {
    /// UUID of the file system.
    pub file_system: String,
    /// Number of the device in the file system.
    pub number: u64,
    /// Number of the last transaction that reached the device.
    pub generation: u64,
}

impl BtrfsMember {
    /// Reads the superblock. `None`: this is no device of btrfs.
    pub fn read(source: &(impl Source + ?Sized)) -> io::Result<Option<Self>> {
        watched(source, |source| {
            let block = fetch(source, SUPERBLOCK, SIZE)?;
            let found = block.has(64, MAGIC);
            found.then_some(Self {
                file_system: block.uuid(32)?,
                number: block.le64(DEVICE),
                generation: block.le64(72),
            })
        })
    }
}

/// The superblock that the device would have under another UUID of its file system, as after
/// `btrfstune -m`: all other metadata stay as they are. `None`: it is damaged, or this program does
/// not know its kind of checksum.
pub fn superblock_with_uuid(
    source: &(impl Source + ?Sized),
    uuid: [u8; 16],
) -> io::Result<Option<Vec<u8>>> {
    watched(source, |source| {
        let block = fetch(source, SUPERBLOCK, SIZE)?;
        with_uuid(&block, uuid)
    })
}

fn with_uuid(block: &Block, uuid: [u8; 16]) -> Option<Vec<u8>> {
    let mut bytes = block.bytes(0, SIZE).to_vec();
    let is_good = block.has(64, MAGIC)
        && block.le16(CHECKSUM_KIND) == CRC32C
        && block.le32(0) == crc32c(&bytes[CHECKSUM.end..]);
    if !is_good {
        return None;
    }
    let features = block.le64(FEATURES);
    if features & TWO_UUIDS == 0 {
        bytes.copy_within(UUID, METADATA_UUID.start);
        bytes[FEATURES..FEATURES + 8].copy_from_slice(&(features | TWO_UUIDS).to_le_bytes());
    }
    bytes[UUID].copy_from_slice(&uuid);
    let sum = crc32c(&bytes[CHECKSUM.end..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_uuid_keeps_the_one_of_the_metadata() {
        let mut bytes = vec![0; SIZE];
        bytes[64..72].copy_from_slice(MAGIC);
        bytes[UUID].fill(3);
        bytes[FEATURES] = 1;
        assert_eq!(with_uuid(&Block::from(bytes.clone()), [4; 16]), None);
        let sum = crc32c(&bytes[32..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        for uuid in [[4; 16], [5; 16]] {
            let found = with_uuid(&Block::from(bytes), uuid).unwrap();
            assert_eq!(
                (&found[UUID], &found[METADATA_UUID]),
                (&uuid[..], &[3; 16][..])
            );
            assert_eq!(found[FEATURES..FEATURES + 2], [1, 4]);
            bytes = found;
        }
        bytes[CHECKSUM_KIND] = 1;
        assert_eq!(with_uuid(&Block::from(bytes), [4; 16]), None);
    }

    #[test]
    fn superblocks() {
        let mut bytes = vec![0; 70000];
        let start = SUPERBLOCK as usize;
        bytes[start + 32] = 1;
        bytes[start + 64..start + 72].copy_from_slice(MAGIC);
        bytes[start + 72] = 9;
        bytes[start + DEVICE] = 2;
        let found = BtrfsMember::read(bytes.as_slice()).unwrap().unwrap();
        assert_eq!((found.number, found.generation), (2, 9));
        bytes[start + 64] = 0;
        assert_eq!(BtrfsMember::read(bytes.as_slice()).unwrap(), None);
    }
}
