// SPDX-License-Identifier: GPL-2.0-only
//! The header of a VDI image, to find the least size of the file.

use crate::block::fetch;
use crate::source::{watched, Source};
use std::io;

const HEADER: usize = 0x188;

/// Whether the file ends before its last used block.
pub fn is_cut(source: &(impl Source + ?Sized)) -> io::Result<bool> {
    watched(source, |source| ends_early(source))
}

fn ends_early(source: &(impl Source + ?Sized)) -> bool {
    let Some(header) = fetch(source, 0, HEADER) else {
        return true;
    };
    let (start, size, used) = (header.le32(0x158), header.le32(0x178), header.le32(0x184));
    u64::from(start) + u64::from(size) * u64::from(used) > source.size()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_image_is_known() {
        let mut bytes = vec![0u8; 1024 + 3 * 512];
        for (at, value) in [(0x158, 1024u32), (0x178, 512), (0x184, 3)] {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        assert!(!ends_early(bytes.as_slice()));
        assert!(ends_early(&bytes[..bytes.len() - 1]));
        assert!(ends_early(&bytes[..100]));
    }
}
