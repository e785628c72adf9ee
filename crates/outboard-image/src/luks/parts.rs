// SPDX-License-Identifier: GPL-2.0-only
//! The parts of a LUKS header, of either version, and their limits.

/// Most bytes of a key: more than any cipher needs.
const LONGEST_KEY: usize = 512;

/// Most bytes of a key slot's area: far more than a key slot needs.
pub(super) const LARGEST_AREA: u64 = 16 << 20;

/// The unit of offsets in a header.
pub const SECTOR: u64 = 512;

/// The header of an encrypted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LuksHeader {
    /// 1 or 2.
    pub version: u16,
    /// The volume's UUID.
    pub uuid: String,
    /// Key slots in the order to try them.
    pub slots: Vec<KeySlot>,
    /// The digest that a volume key must have.
    pub digest: Digest,
    /// The encrypted data.
    pub segment: LuksSegment,
    /// Flags for the kernel, such as "allow-discards".
    pub flags: Vec<String>,
}

/// A key slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySlot {
    /// The slot's number, from 0.
    pub number: u32,
    /// The derivation of the slot's key from the passphrase.
    pub derivation: Derivation,
    /// The encrypted volume key.
    pub area: KeyslotArea,
    /// Bytes of the volume's key.
    pub key_size: usize,
    /// Number of anti-forensic stripes, each of the key's size.
    pub stripes: usize,
    /// The hash function that diffuses the stripes.
    pub hash: String,
}

/// The function that derives the key of a key slot's area from a passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// PBKDF2.
    Pbkdf2 {
        /// Name of the hash, as in "sha256".
        hash: String,
        /// Number of iterations.
        iterations: u32,
        /// The salt.
        salt: Vec<u8>,
    },
    /// Argon2i or Argon2id.
    Argon2 {
        /// The variant "id", not "i".
        id: bool,
        /// Number of passes.
        time: u32,
        /// In KiB.
        memory: u32,
        /// Number of lanes.
        lanes: u32,
        /// The salt.
        salt: Vec<u8>,
    },
}

/// The place of a key slot's encrypted stripes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyslotArea {
    /// In bytes, a multiple of 512.
    pub offset: u64,
    /// Name of the cipher, as in "aes-xts-plain64".
    pub cipher: String,
    /// Bytes of the key.
    pub key_size: usize,
}

/// Identifies the right key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Name of the hash, as in "sha256".
    pub hash: String,
    /// Number of iterations of PBKDF2.
    pub iterations: u32,
    /// The salt.
    pub salt: Vec<u8>,
    /// The digest.
    pub digest: Vec<u8>,
}

/// Place and cipher of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LuksSegment {
    /// In bytes, a multiple of 512.
    pub offset: u64,
    /// In bytes; `None`: up to the end.
    pub size: Option<u64>,
    /// Name of the cipher, as in "aes-xts-plain64".
    pub cipher: String,
    /// Bytes of a sector of the encryption.
    pub sector_size: u32,
    /// The cipher's number of the first sector.
    pub first: u64,
    /// The algorithm of authenticated encryption, if there is one.
    pub integrity: Option<String>,
}

impl KeySlot {
    /// Used bytes of its area.
    pub fn size(&self) -> u64 {
        self.key_size as u64 * self.stripes as u64
    }

    pub(super) fn check(&self, size: u64) -> Result<(), String> {
        let number = self.number;
        let KeyslotArea {
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

impl LuksSegment {
    pub(super) fn check(&self, size: u64) -> Result<(), String> {
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

/// The kernel gets such names in a table of words: they must contain no blanks.
fn check_cipher(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_:(),.".contains(c);
    if !name.is_empty() && name.len() <= 128 && name.chars().all(good) {
        Ok(())
    } else {
        Err(format!("\"{}\" is no cipher", name.escape_debug()))
    }
}
