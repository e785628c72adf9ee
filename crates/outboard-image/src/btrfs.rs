// SPDX-License-Identifier: GPL-2.0-only
//! Devices of btrfs: which device of its file system each one is, and how old its copy is.

use crate::block::fetch;
use crate::source::{watched, Source};
use std::io;

const SUPERBLOCK: u64 = 65536;
pub(crate) const MAGIC: &[u8] = b"_BHRfS_M";
/// Offset of the description of the device itself in the superblock.
pub(crate) const DEVICE: usize = 201;

/// What a superblock says of its device.
#[derive(Clone, Debug, PartialEq, Eq)]
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
            let block = fetch(source, SUPERBLOCK, 4096)?;
            let found = block.has(64, MAGIC);
            found.then_some(Self {
                file_system: block.uuid(32)?,
                number: block.le64(DEVICE),
                generation: block.le64(72),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
