// SPDX-License-Identifier: GPL-2.0-only
//! The headers of encrypted disks: LUKS version 1 and 2.
//!
//! Both say the same in other words: key slots, each an encrypted copy of the volume's key that one passphrase opens,
//! a digest by which the right key is known, and where and how the data is encrypted.

mod version1;
mod version2;

pub(crate) use version1::MAGIC;
pub(crate) use version2::{COPY_MAGIC, SIZES as COPIES};

use crate::block::fetch;
use crate::source::Source;

/// Bytes of a key: more than any cipher wants.
const LONGEST_KEY: usize = 512;
/// Bytes of a key slot's area: many times what a key slot needs.
const LARGEST_AREA: u64 = 16 << 20;
/// The unit of places in a header.
const SECTOR: u64 = 512;

/// What the header of an encrypted volume says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub version: u16,
    pub uuid: String,
    /// In the order in which they are to be tried.
    pub slots: Vec<KeySlot>,
    pub digest: Digest,
    pub segment: Segment,
    /// Names of what the kernel may do with the volume, as in "allow-discards".
    pub flags: Vec<String>,
}

/// A key slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySlot {
    pub number: u32,
    pub derivation: Derivation,
    pub area: Area,
    /// Bytes of the volume's key.
    pub key_size: usize,
    /// The key is spread over so many pieces of its size.
    pub stripes: usize,
    /// The hash function that mixes the pieces.
    pub hash: String,
}

/// How a passphrase becomes the key of a key slot's area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Derivation {
    Pbkdf2 {
        hash: String,
        iterations: u32,
        salt: Vec<u8>,
    },
    Argon2 {
        /// The variant "id", not "i".
        id: bool,
        time: u32,
        /// In KiB.
        memory: u32,
        lanes: u32,
        salt: Vec<u8>,
    },
}

/// Where a key slot's encrypted pieces are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// In bytes, a multiple of 512.
    pub offset: u64,
    pub cipher: String,
    pub key_size: usize,
}

/// Tells the right key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    pub hash: String,
    pub iterations: u32,
    pub salt: Vec<u8>,
    pub digest: Vec<u8>,
}

/// Where and how the data is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// In bytes, a multiple of 512.
    pub offset: u64,
    /// In bytes; `None`: up to the end.
    pub size: Option<u64>,
    pub cipher: String,
    pub sector_size: u32,
    /// The number of the first sector, as the cipher sees it.
    pub first: u64,
    /// The algorithm that guards the data, where it is guarded.
    pub integrity: Option<String>,
}

impl KeySlot {
    /// Bytes of its area that are used.
    pub fn size(&self) -> u64 {
        self.key_size as u64 * self.stripes as u64
    }

    fn check(&self, size: u64) -> Result<(), String> {
        let number = self.number;
        let Area {
            offset, key_size, ..
        } = self.area;
        let good_sizes = (1..=LONGEST_KEY).contains(&self.key_size)
            && (1..=LONGEST_KEY).contains(&key_size)
            && (1..=LARGEST_AREA as usize).contains(&self.stripes)
            && self.size() <= LARGEST_AREA;
        if !good_sizes {
            return Err(format!("key slot {number} has impossible sizes"));
        }
        let end = offset.checked_add(self.size());
        if offset % SECTOR != 0 || end.is_none_or(|end| end > size) {
            return Err(format!("key slot {number} lies outside"));
        }
        check_cipher(&self.area.cipher)
    }
}

impl Segment {
    fn check(&self, size: u64) -> Result<(), String> {
        let aligned = self.offset % SECTOR == 0 && self.size.unwrap_or(0) % SECTOR == 0;
        let end = self.offset.checked_add(self.size.unwrap_or(1));
        if !aligned || end.is_none_or(|end| end > size) {
            return Err("the encrypted data lies outside".to_owned());
        }
        if !matches!(self.sector_size, 512 | 1024 | 2048 | 4096) {
            return Err(format!("sectors of {} bytes", self.sector_size));
        }
        if let Some(integrity) = &self.integrity {
            check_cipher(integrity)?;
        }
        check_cipher(&self.cipher)
    }
}

/// The kernel is given such names in a line of words.
fn check_cipher(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_:(),.".contains(c);
    match !name.is_empty() && name.len() <= 128 && name.chars().all(good) {
        true => Ok(()),
        false => Err(format!("\"{}\" is no cipher", name.escape_debug())),
    }
}

impl Header {
    /// Reads the header at the beginning of an encrypted volume. The error says what is wrong, in words.
    pub fn read(source: &(impl Source + ?Sized)) -> Result<Self, String> {
        let start = fetch(source, 0, 8).ok_or("the header is cut off")?;
        // A header that is overwritten may have its copy.
        let version = match start.has(0, version1::MAGIC) {
            true => start.be16(6),
            false => 2,
        };
        let header = match version {
            1 => version1::read(source)?,
            2 => version2::read(source)?,
            other => return Err(format!("LUKS version {other} is not known")),
        };
        header.segment.check(source.size())?;
        for slot in &header.slots {
            slot.check(source.size())?;
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests;
