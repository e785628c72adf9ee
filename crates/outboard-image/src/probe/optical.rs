// SPDX-License-Identifier: GPL-2.0-only
//! File systems of optical discs: ISO 9660 and UDF.

use super::found::Probe;
use crate::block::{fetch, Block};
use crate::source::Source;
use std::ops::Range;

const DESCRIPTORS: u64 = 32768;
/// Descriptors of a volume that are looked at.
const LIMIT: u64 = 64;

/// The offsets of the dates in a volume descriptor.
const CREATED: usize = 813;
const MODIFIED: usize = 830;

/// A date, which is what discs have in place of a UUID: "2026-11-21-00-39-17-00".
fn date(block: &Block, offset: usize) -> Option<String> {
    let digits = block.text(offset, 16)?;
    let good = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !good || digits.bytes().all(|byte| byte == b'0') {
        return None;
    }
    let mut parts = vec![&digits[..4]];
    parts.extend((4..16).step_by(2).map(|at| &digits[at..at + 2]));
    Some(parts.join("-"))
}

pub(super) fn iso9660(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, DESCRIPTORS, 2048)?;
    if !block.has(1, b"CD001") {
        return None;
    }
    Some(
        Probe::file_system("iso9660")
            .label(block.text(40, 32))
            .uuid(date(&block, MODIFIED).or_else(|| date(&block, CREATED)))
            .blocks(block.le32(80).into(), block.le16(128).into()),
    )
}

/// A string of UDF: its first byte says how wide its characters are, its last how long it is.
fn dstring(block: &Block, offset: usize, field: usize) -> Option<String> {
    let length = usize::from(block.byte(offset + field - 1)).min(field - 1);
    let bytes = block.bytes(offset + 1, length.saturating_sub(1));
    let text = match block.byte(offset) {
        8 => bytes.iter().map(|&byte| char::from(byte)).collect(),
        16 => {
            let units: Vec<u16> = bytes
                .chunks_exact(2)
                .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
                .collect();
            String::from_utf16_lossy(&units)
        }
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

fn has_udf_sequence(source: &(impl Source + ?Sized)) -> bool {
    [2048, 4096].into_iter().any(|step| {
        (0..LIMIT)
            .map_while(|index| fetch(source, DESCRIPTORS + index * step, 6))
            .take_while(|block| {
                [b"CD001".as_slice(), b"BEA01", b"NSR02", b"NSR03", b"BOOT2"]
                    .iter()
                    .any(|known| block.has(1, known))
            })
            .any(|block| block.has(1, b"NSR0"))
    })
}

/// The names of a UDF volume as a whole, from its descriptors.
#[derive(Default)]
struct UdfNames {
    label: Option<String>,
    /// The identifier of the set of volumes.
    set: Option<String>,
}

/// Reads the descriptors that the anchor points to.
fn udf_names(source: &(impl Source + ?Sized), anchor: &Block, size: u64) -> UdfNames {
    let first = u64::from(anchor.le32(20));
    let count = (u64::from(anchor.le32(16)) / size).min(LIMIT);
    let mut primary_label = None;
    let mut names = UdfNames::default();
    let blocks = (0..count).map_while(|index| {
        let place = (first + index).checked_mul(size)?;
        fetch(source, place, 512)
    });
    for block in blocks.take_while(|block| block.le16(0) != 8) {
        match block.le16(0) {
            1 if names.set.is_none() => {
                primary_label = dstring(&block, 24, 32);
                names.set = dstring(&block, 72, 128);
            }
            6 if names.label.is_none() => names.label = dstring(&block, 84, 128),
            _ => {}
        }
    }
    names.label = names.label.or(primary_label);
    names
}

/// UDF's substitute for a UUID: the first 16 characters of the set's identifier, which should be
/// hexadecimal digits. As udflabel(8) and blkid(8) do it, bytes in place of digits are written in
/// hexadecimal.
fn udf_uuid(set: &str) -> Option<String> {
    let bytes: Vec<u8> = set.bytes().take(16).collect();
    if bytes.len() < 8 {
        return None;
    }
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let hexadecimal = |range: Range<usize>| hex::encode(range.map(byte).collect::<Vec<u8>>());
    let plain = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let digits = (0..16).take_while(|&at| byte(at).is_ascii_hexdigit());
    Some(match digits.count() {
        0..=7 => hexadecimal(0..8),
        8..=15 => format!("{}{}", &plain[..8], hexadecimal(8..12)),
        _ => plain,
    })
}

pub(super) fn udf(source: &(impl Source + ?Sized)) -> Option<Probe> {
    if !has_udf_sequence(source) {
        return None;
    }
    let mut probe = Probe::file_system("udf");
    for size in [2048, 512, 1024, 4096] {
        let Some(anchor) = fetch(source, 256 * size, 512) else {
            continue;
        };
        if anchor.le16(0) == 2 && anchor.le32(12) == 256 {
            probe.block_size = Some(size);
            let names = udf_names(source, &anchor, size);
            probe.label = names.label;
            probe.uuid = names.set.as_deref().and_then(udf_uuid);
            break;
        }
    }
    Some(probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_of_udf() {
        let uuid = |set| udf_uuid(set).unwrap_or_default();
        assert_eq!(uuid("6B03A2C702744E65LinuxUDF"), "6b03a2c702744e65");
        assert_eq!(uuid("0123ABCDxy"), "0123abcd78790000");
        assert_eq!(uuid("01 is no digit"), "3031206973206e6f");
        assert_eq!(uuid("\u{e9}\u{e9}\u{e9}\u{e9}"), "c3a9c3a9c3a9c3a9");
        assert_eq!(uuid("1234567"), "");
    }
}
