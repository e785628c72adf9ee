// SPDX-License-Identifier: GPL-2.0-only
//! Hash areas of dm-verity: a superblock, then a tree of hashes over the blocks of another device.

use crate::block::fetch;
use crate::source::{watched, Source};
use std::io;

pub(crate) const MAGIC: &[u8] = b"verity\0\0";
/// Bytes of the superblock; the tree begins at the next block.
const SIZE: usize = 512;
const LONGEST_SALT: usize = 256;

/// The fields of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VeritySuperblock {
    /// 1: the salt precedes a block in the hash, 0: it follows.
    pub hash_type: u32,
    /// UUID, where there is one.
    pub uuid: Option<String>,
    /// Name of the hash, as in "sha256".
    pub algorithm: String,
    /// Bytes of a block of data.
    pub data_block_size: u32,
    /// Bytes of a block of hashes.
    pub hash_block_size: u32,
    /// Number of blocks of data.
    pub data_blocks: u64,
    /// The salt.
    pub salt: Vec<u8>,
    /// Start of the tree, in hash blocks from the beginning of the device.
    pub first_block: u64,
}

fn is_block_size(size: u32) -> bool {
    size.is_power_of_two() && (512..=65536).contains(&size)
}

impl VeritySuperblock {
    /// The superblock at this offset. `None`: no valid superblock.
    pub fn read(source: &(impl Source + ?Sized), offset: u64) -> io::Result<Option<Self>> {
        watched(source, |source| Self::find(source, offset))
    }

    pub(crate) fn find(source: &(impl Source + ?Sized), offset: u64) -> Option<Self> {
        let block = fetch(source, offset, SIZE)?;
        if !block.has(0, MAGIC) || block.le32(8) != 1 || block.le32(12) > 1 {
            return None;
        }
        let (data_block_size, hash_block_size) = (block.le32(64), block.le32(68));
        let algorithm = block.text(32, 32)?;
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let salt_size = usize::from(block.le16(80));
        let data_blocks = block.le64(72);
        let fits = data_blocks.checked_mul(u64::from(data_block_size));
        if !is_block_size(data_block_size)
            || !is_block_size(hash_block_size)
            || !algorithm.chars().all(good)
            || salt_size > LONGEST_SALT
            || data_blocks == 0
            || fits.is_none()
        {
            return None;
        }
        Some(Self {
            hash_type: block.le32(12),
            uuid: block.uuid(16),
            algorithm,
            data_block_size,
            hash_block_size,
            data_blocks,
            salt: block.bytes(88, salt_size).to_vec(),
            first_block: (offset + SIZE as u64).div_ceil(u64::from(hash_block_size)),
        })
    }

    /// Bytes of the data device.
    pub fn data_size(&self) -> u64 {
        self.data_blocks * u64::from(self.data_block_size)
    }

    /// Offset in bytes of the first block of each level of the tree, leaves first. `digest`: bytes
    /// of a hash.
    pub fn levels(&self, digest: usize) -> Vec<u64> {
        let size = u64::from(self.hash_block_size);
        let bits = (size / digest.max(1) as u64).max(2).ilog2();
        let mut counts = Vec::new();
        let mut count = self.data_blocks;
        while count > 1 {
            count = count.div_ceil(1 << bits);
            counts.push(count);
        }
        let mut position = self.first_block;
        let mut levels: Vec<u64> = Vec::new();
        for count in counts.iter().rev() {
            levels.push(position.saturating_mul(size));
            position = position.saturating_add(*count);
        }
        levels.reverse();
        levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = 1;
        bytes[12] = 1;
        bytes[32..38].copy_from_slice(b"sha256");
        bytes[65] = 0x10;
        bytes[69] = 0x10;
        bytes[73] = 0x20;
        bytes[80] = 32;
        bytes
    }

    #[test]
    fn superblocks() {
        let found = VeritySuperblock::find(image().as_slice(), 0).unwrap();
        assert_eq!((found.data_blocks, found.first_block), (8192, 1));
        // One block at the top, 64 below it.
        assert_eq!(found.levels(32), [8192, 4096]);
        for (offset, byte) in [
            (0, 0),
            (8, 2),
            (12, 2),
            (65, 0x11),
            (32, b' '),
            (81, 2),
            (79, 1),
        ] {
            let mut bytes = image();
            bytes[offset] = byte;
            bytes[78] = byte;
            assert_eq!(
                VeritySuperblock::find(bytes.as_slice(), 0),
                None,
                "{offset}"
            );
        }
        assert_eq!(VeritySuperblock::find([0u8; 100].as_slice(), 0), None);
    }
}
