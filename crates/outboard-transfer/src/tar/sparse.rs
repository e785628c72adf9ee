// SPDX-License-Identifier: GPL-2.0-only
//! Maps of sparse files, in the four formats of GNU tar.

use super::header::number;
use ::tar::GnuSparseHeader;

/// Most parts of a map.
pub const MOST: usize = 1 << 20;

/// Offsets and lengths.
pub type Parts = Vec<(u64, u64)>;

/// The parts of a file that have data, as offsets and lengths, and its size with the holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    pub parts: Parts,
    pub size: u64,
}

impl Map {
    /// Checks that the parts are in order and inside the file.
    pub fn new(parts: Parts, size: u64) -> Option<Self> {
        let mut end = 0u64;
        for &(offset, length) in &parts {
            if offset < end {
                return None;
            }
            end = offset.checked_add(length)?;
        }
        (end <= size && i64::try_from(size).is_ok()).then_some(Self { parts, size })
    }

    /// A file without holes.
    pub fn whole(size: u64) -> Self {
        Self {
            parts: vec![(0, size)],
            size,
        }
    }

    /// How many bytes of data it has.
    pub fn data(&self) -> u64 {
        self.parts.iter().map(|(_, length)| length).sum()
    }

    /// The numbers of format 1.0, which precede the data, with their padding.
    pub fn text(&self) -> Vec<u8> {
        let mut text = format!("{}\n", self.parts.len());
        for (offset, length) in &self.parts {
            text.push_str(&format!("{offset}\n{length}\n"));
        }
        let mut text = text.into_bytes();
        let padding = super::header::padding(text.len() as u64) as usize;
        text.resize(text.len() + padding, 0);
        text
    }
}

/// Adds the parts of a header of the old GNU format. `None`: they are invalid.
pub fn add_old(parts: &mut Parts, headers: &[GnuSparseHeader]) -> Option<()> {
    for header in headers {
        if header.offset[0] == 0 || header.numbytes[0] == 0 {
            continue;
        }
        let offset = u64::try_from(number(&header.offset)?).ok()?;
        let length = u64::try_from(number(&header.numbytes)?).ok()?;
        parts.push((offset, length));
    }
    (parts.len() <= MOST).then_some(())
}

/// A number of decimal digits alone, without a sign.
pub fn decimal(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The parts of "OFFSET,LENGTH,OFFSET,LENGTH..." (format 0.1).
pub fn parse_list(text: &[u8]) -> Option<Parts> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let numbers: Vec<u64> = text
        .split(|&byte| byte == b',')
        .map(decimal)
        .collect::<Option<_>>()?;
    pairs(&numbers)
}

/// Pairs of offsets and lengths.
pub fn pairs(numbers: &[u64]) -> Option<Parts> {
    let even = numbers.len() % 2 == 0 && numbers.len() / 2 <= MOST;
    even.then(|| {
        numbers
            .chunks_exact(2)
            .map(|pair| (pair[0], pair[1]))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_that_lie() {
        assert!(Map::new(vec![(0, 5), (10, 5)], 20).is_some());
        assert!(Map::new(vec![(10, 5), (0, 5)], 20).is_none());
        assert!(Map::new(vec![(0, 5), (4, 5)], 20).is_none());
        assert!(Map::new(vec![(0, 21)], 20).is_none());
        assert!(Map::new(vec![(u64::MAX, 2)], 20).is_none());
        assert!(Map::new(vec![], u64::MAX).is_none());
    }

    #[test]
    fn lists() {
        assert_eq!(parse_list(b"0,5,10,7"), Some(vec![(0, 5), (10, 7)]));
        assert_eq!(parse_list(b""), Some(vec![]));
        assert_eq!(parse_list(b"1,2,3"), None);
        assert_eq!(parse_list(b"1,x"), None);
    }
}
