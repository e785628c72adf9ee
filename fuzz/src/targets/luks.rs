// SPDX-License-Identifier: GPL-2.0-only
//! Headers of LUKS. The input is a header of version 1, or the JSON of one of version 2, which this
//! target puts into a header with the right checksum.

use crate::source::{put, Sparse};
use outboard_image::luks::LuksHeader;
use sha2::{Digest, Sha256};

const SIZE: u64 = 64 << 20;
/// Bytes of the fields before the JSON, and of a header with its JSON: the smallest and largest.
const FIELDS: usize = 4096;
const SMALLEST: usize = 0x4000;
const LARGEST: usize = 0x40_0000;

fn version2(json: &[u8]) -> Option<Vec<u8>> {
    let size = (FIELDS + json.len()).next_power_of_two().max(SMALLEST);
    if size > LARGEST {
        return None;
    }
    let mut header = vec![0; size];
    put(&mut header, 0, b"LUKS\xba\xbe\x00\x02");
    put(&mut header, 8, &(size as u64).to_be_bytes());
    put(&mut header, 16, &1u64.to_be_bytes());
    put(&mut header, 72, b"sha256");
    put(&mut header, 168, b"5aa8f0b4-5d0e-4a4e-8f6c-7e5c2f0a3b1d");
    put(&mut header, FIELDS, json);
    let sum = Sha256::digest(&header);
    put(&mut header, 448, &sum);
    Some(header)
}

fn check(header: &LuksHeader) {
    assert!(header.slots.len() <= 32);
    for slot in &header.slots {
        assert_eq!(slot.area.offset % 512, 0);
        assert!(slot.area.offset + slot.size() <= SIZE);
        assert!(slot.key_size > 0 && slot.area.key_size > 0);
    }
    let segment = &header.segment;
    assert!(segment.offset + segment.size.unwrap_or(0) <= SIZE);
    let table = format!("{} {:?}", segment.cipher, segment.integrity);
    assert!(!table.contains(['\n', '\0']) && !segment.cipher.contains(' '));
}

pub fn run(bytes: &[u8]) {
    let header = if bytes.starts_with(b"LUKS") {
        Some(bytes.to_vec())
    } else {
        version2(bytes)
    };
    let Some(header) = header else { return };
    let disk = Sparse {
        pieces: vec![(0, &header)],
        size: SIZE,
    };
    if let Ok(Ok(header)) = LuksHeader::read(&disk) {
        check(&header);
    }
}
