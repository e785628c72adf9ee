// SPDX-License-Identifier: GPL-2.0-only
//! The blocks that a tar archive is made of, and the numbers in their fields.

use ::tar::Header;

/// Bytes of a block. Everything in an archive begins at a multiple of it.
pub const BLOCK: usize = 512;
/// The place of the checksum in a header.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// Bytes of padding behind this many bytes.
pub fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// Parses a number: octal digits with spaces around them, up to the first NUL, or a big-endian
/// two's complement marked by its first bit. `None`: neither, or too large. NULs before the digits
/// are skipped: some programs write them.
pub fn number(field: &[u8]) -> Option<i64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        let sign = if first & 0x40 != 0 { 0x80 } else { 0 };
        let start = i128::from(first & 0x7f) - sign;
        let value = rest
            .iter()
            .take(14)
            .fold(start, |value, &byte| (value << 8) | i128::from(byte));
        return i64::try_from(value).ok();
    }
    let start = field.iter().position(|byte| !b" \0".contains(byte));
    let digits = &field[start.unwrap_or(field.len())..];
    let end = digits.iter().position(|&byte| byte == 0);
    let digits = digits[..end.unwrap_or(digits.len())].trim_ascii_end();
    digits.iter().try_fold(0i64, |value, &byte| match byte {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(byte - b'0')),
        _ => None,
    })
}

pub fn is_zero(block: &[u8; BLOCK]) -> bool {
    block.iter().all(|&byte| byte == 0)
}

/// Whether the checksum is right. Some old programs summed up signed bytes.
pub fn is_sound(header: &Header) -> bool {
    let Some(wanted) = number(&header.as_old().cksum) else {
        return false;
    };
    let (mut plain, mut signed) = (0i64, 0i64);
    for (index, &byte) in header.as_bytes().iter().enumerate() {
        let byte = if CHECKSUM.contains(&index) {
            b' '
        } else {
            byte
        };
        plain += i64::from(byte);
        signed += i64::from(byte as i8);
    }
    wanted == plain || wanted == signed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   755 \0"), Some(0o755));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"77777777777"), Some(0o77777777777));
        assert_eq!(number(b"12x\0"), None);
        assert_eq!(number(b"12 x\0"), None);
        assert_eq!(number(b"12 7 \0"), None);
        assert_eq!(number(b"12 \0x"), Some(0o12));
        assert_eq!(number(b"\x80\0\0\0\x01\0\0\0"), Some(1 << 24));
        assert_eq!(number(&[0xff; 12]), Some(-1));
        assert_eq!(
            number(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            None
        );
    }

    #[test]
    fn checksums() {
        let mut header = Header::new_ustar();
        header.set_mode(0o644);
        header.set_cksum();
        assert!(is_sound(&header));
        header.as_mut_bytes()[0] = 1;
        assert!(!is_sound(&header));
    }

    #[test]
    fn paddings() {
        assert_eq!((padding(0), padding(1), padding(512)), (0, 511, 0));
    }
}
