// SPDX-License-Identifier: GPL-2.0-only
//! A piece of an image in memory, read field by field.

use crate::source::Source;
use std::io::ErrorKind;

/// Bytes read from an image. A field outside of them reads as zero, so that no wrong offset can end
/// the program.
pub(crate) struct Block(Vec<u8>);

/// Reads a piece. `None` if the image is too short or cannot be read there; the parser's caller
/// learns of the error by [`crate::source::watched`].
pub(crate) fn fetch(source: &(impl Source + ?Sized), offset: u64, length: usize) -> Option<Block> {
    if offset.checked_add(length as u64)? > source.size() {
        return None;
    }
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        match source.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(count @ 1..) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return None,
        }
    }
    Some(Block(bytes))
}

impl From<Vec<u8>> for Block {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

macro_rules! field {
    ($name:ident, $type:ty, $convert:ident) => {
        pub(crate) fn $name(&self, offset: usize) -> $type {
            self.array(offset).map_or(0, <$type>::$convert)
        }
    };
}

impl Block {
    fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..)?.first_chunk().copied()
    }

    field!(le16, u16, from_le_bytes);
    field!(le32, u32, from_le_bytes);
    field!(le64, u64, from_le_bytes);
    field!(be16, u16, from_be_bytes);
    field!(be32, u32, from_be_bytes);
    field!(be64, u64, from_be_bytes);

    pub(crate) fn byte(&self, offset: usize) -> u8 {
        self.0.get(offset).copied().unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of a range, as far as they exist.
    pub(crate) fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        let rest = self.0.get(offset..).unwrap_or_default();
        &rest[..length.min(rest.len())]
    }

    /// Whether `magic` stands at `offset`.
    pub(crate) fn has(&self, offset: usize, magic: &[u8]) -> bool {
        self.bytes(offset, magic.len()) == magic
    }

    /// A text up to a NUL or the end of the field, without trailing spaces.
    pub(crate) fn text(&self, offset: usize, length: usize) -> Option<String> {
        let bytes = self.bytes(offset, length);
        let end = bytes
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(bytes.len());
        some_text(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// A text whose first byte is its length.
    pub(crate) fn pascal(&self, offset: usize, limit: usize) -> Option<String> {
        let length = usize::from(self.byte(offset)).min(limit);
        some_text(String::from_utf8_lossy(self.bytes(offset + 1, length)).into_owned())
    }

    /// A text of little-endian UTF-16, up to a NUL or the end of the field (in bytes).
    pub(crate) fn utf16(&self, offset: usize, length: usize) -> Option<String> {
        self.text_of_units(offset, length, u16::from_le_bytes)
    }

    /// The same in big-endian UTF-16.
    pub(crate) fn utf16_be(&self, offset: usize, length: usize) -> Option<String> {
        self.text_of_units(offset, length, u16::from_be_bytes)
    }

    fn text_of_units(
        &self,
        offset: usize,
        length: usize,
        convert: fn([u8; 2]) -> u16,
    ) -> Option<String> {
        let units: Vec<u16> = self
            .bytes(offset, length)
            .chunks_exact(2)
            .map(|pair| convert([pair[0], pair[1]]))
            .take_while(|&unit| unit != 0)
            .collect();
        some_text(String::from_utf16_lossy(&units))
    }

    /// A UUID in the order of RFC 9562. `None` if it is all zero.
    pub(crate) fn uuid(&self, offset: usize) -> Option<String> {
        let bytes: [u8; 16] = self.array(offset)?;
        (bytes != [0; 16]).then(|| format_uuid(bytes))
    }

    /// A GUID as GPT stores it, its first three fields little-endian.
    pub(crate) fn guid(&self, offset: usize) -> Option<String> {
        let mut bytes: [u8; 16] = self.array(offset)?;
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
        (bytes != [0; 16]).then(|| format_uuid(bytes))
    }
}

fn some_text(text: String) -> Option<String> {
    let text = text.trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

pub(crate) fn format_uuid(bytes: [u8; 16]) -> String {
    let digits = hex::encode(bytes);
    [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ]
    .join("-")
}

/// A serial number of FAT and its kin, as in "1A2B-3C4D".
pub(crate) fn serial(number: u32) -> Option<String> {
    (number != 0).then(|| format!("{:04X}-{:04X}", number >> 16, number & 0xffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_outside_are_zero() {
        let block = fetch([1u8, 2, 3].as_slice(), 0, 3).unwrap();
        assert_eq!(block.le16(0), 0x201);
        assert_eq!(block.le16(2), 0);
        assert_eq!(block.be64(usize::MAX), 0);
        assert_eq!(block.bytes(2, 9), [3]);
        assert_eq!(block.text(7, 1), None);
        assert!(fetch([0u8; 3].as_slice(), 1, 3).is_none());
        assert!(fetch([0u8; 3].as_slice(), u64::MAX, 3).is_none());
    }

    #[test]
    fn uuids() {
        let bytes: Vec<u8> = (0..16).collect();
        let block = fetch(bytes.as_slice(), 0, 16).unwrap();
        assert_eq!(
            block.uuid(0).unwrap(),
            "00010203-0405-0607-0809-0a0b0c0d0e0f"
        );
        assert_eq!(
            block.guid(0).unwrap(),
            "03020100-0504-0706-0809-0a0b0c0d0e0f"
        );
    }
}
