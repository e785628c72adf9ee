// SPDX-License-Identifier: GPL-2.0-only
//! The checksum of btrfs. All others of 32 bits are those of the crate crc32fast.

/// CRC-32C (Castagnoli), as btrfs uses it by default.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
