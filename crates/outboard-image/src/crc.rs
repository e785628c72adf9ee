// SPDX-License-Identifier: GPL-2.0-only
//! Checksums of metadata.

fn crc(bytes: &[u8], polynomial: u32) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (polynomial & (crc & 1).wrapping_neg())
        })
    })
}

/// CRC-32 as GPT uses it (IEEE 802.3).
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc(bytes, 0xedb8_8320)
}

/// CRC-32C (Castagnoli), as btrfs uses it by default.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc(bytes, 0x82f6_3b78)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
