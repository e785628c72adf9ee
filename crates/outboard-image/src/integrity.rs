// SPDX-License-Identifier: GPL-2.0-only
//! Devices of dm-integrity: a superblock, a journal, and data with a tag for each block.

use crate::block::fetch;
use crate::source::{watched, Source};
use std::io;

pub(crate) const MAGIC: &[u8] = b"integrt\0";

/// The fields of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IntegritySuperblock {
    /// Bytes of the tag of each block.
    pub tag_size: u16,
    /// Size of the data, in sectors of 512 bytes.
    pub sectors: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// The tags are being computed.
    pub recalculating: bool,
    /// It has a bitmap of recent writes, not a journal.
    pub bitmap: bool,
    /// A key protects the journal.
    pub journal_mac: bool,
    /// The padding of tags is that of `fix_padding` of the driver.
    pub fixed_padding: bool,
    /// The HMAC is that of `fix_hmac` of the driver.
    pub fixed_hmac: bool,
}

impl IntegritySuperblock {
    /// The superblock at this offset. `None`: no valid superblock.
    pub fn read(source: &(impl Source + ?Sized), offset: u64) -> io::Result<Option<Self>> {
        watched(source, |source| Self::find(source, offset))
    }

    pub(crate) fn find(source: &(impl Source + ?Sized), offset: u64) -> Option<Self> {
        let block = fetch(source, offset, 512)?;
        if !block.has(0, MAGIC) || block.byte(8) == 0 || block.byte(28) > 3 {
            return None;
        }
        let flags = block.le32(24);
        let flag = |bit: u32| flags >> bit & 1 != 0;
        Some(Self {
            tag_size: block.le16(10),
            sectors: block.le64(16),
            block_size: 512 << block.byte(28),
            journal_mac: flag(0),
            recalculating: flag(1),
            bitmap: flag(2),
            fixed_padding: flag(3),
            fixed_hmac: flag(4),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks() {
        let mut bytes = vec![0; 512];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = 4;
        bytes[10] = 4;
        bytes[17] = 8;
        bytes[24] = 8;
        bytes[28] = 3;
        let found = IntegritySuperblock::find(bytes.as_slice(), 0).unwrap();
        assert_eq!(
            (found.tag_size, found.sectors, found.block_size),
            (4, 2048, 4096)
        );
        assert!(found.fixed_padding && !found.bitmap);
        bytes[28] = 200;
        assert_eq!(IntegritySuperblock::find(bytes.as_slice(), 0), None);
    }
}
