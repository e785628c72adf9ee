// SPDX-License-Identifier: GPL-2.0-only
//! UUIDs: reproducible ones, made from a name, and the bytes of random ones.

use std::fs::File;
use std::io::{self, Read};

/// Bytes by chance.
pub fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// FNV-1a of 128 bits: not cryptographic, but different names have different values.
pub fn hash(name: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    name.iter().fold(BASIS, |value, byte| {
        (value ^ u128::from(*byte)).wrapping_mul(PRIME)
    })
}

/// A UUID of version 8, whose contents are free to choose.
pub fn from_name(name: &str) -> String {
    let value = hash(name.as_bytes());
    let value = value & !(0xf << 76) | 8 << 76;
    let value = value & !(3 << 62) | 2 << 62;
    let digits = format!("{value:032x}");
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_hash() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn they_look_as_uuids_do() {
        let uuid = from_name("a");
        assert_eq!(uuid.len(), 36);
        assert_eq!(&uuid[14..15], "8");
        assert!("89ab".contains(&uuid[19..20]));
        assert_eq!(uuid, from_name("a"));
        assert_ne!(uuid, from_name("b"));
    }
}
