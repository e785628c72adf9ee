// SPDX-License-Identifier: GPL-2.0-only
//! Superblocks of software RAID. The input is a superblock, which this target puts, with the right
//! checksum, wherever the four versions have it.

use crate::source::{le32, put, Sparse};
use outboard_image::md::{ArrayMember, MemberRole};

const SIZE: u64 = 16 << 20;
/// Offset and place of the checksum: versions 1.1, 1.2, 1.0, 0.90.
const PLACES: [(u64, usize); 4] = [
    (0, 216),
    (4096, 216),
    (SIZE - 8192, 216),
    (SIZE - 65536, 152),
];
const OLD_SIZE: usize = 4096;

/// The sum of all words and of the carry, as md computes it.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(4);
    let rest = match words.remainder() {
        [low, high] => u64::from(u16::from_le_bytes([*low, *high])),
        _ => 0,
    };
    let whole: u64 = words.map(|word| u64::from(le32(word, 0))).sum();
    let all = whole + rest;
    (all as u32).wrapping_add((all >> 32) as u32)
}

fn fixed(bytes: &[u8], offset: u64, checksum: usize) -> Vec<u8> {
    let mut block = bytes.to_vec();
    block.resize(block.len().max(OLD_SIZE), 0);
    let used = match checksum {
        216 => {
            put(&mut block, 144, &(offset / 512).to_le_bytes());
            256 + 2 * le32(&block, 220).min(1920) as usize
        }
        _ => OLD_SIZE,
    };
    put(&mut block, checksum, &[0; 4]);
    let sum = sum(&block[..used]);
    put(&mut block, checksum, &sum.to_le_bytes());
    block
}

pub fn run(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(OLD_SIZE)];
    for (offset, checksum) in PLACES {
        let block = fixed(bytes, offset, checksum);
        let disk = Sparse {
            pieces: vec![(offset, &block)],
            size: SIZE,
        };
        let Some(member) = ArrayMember::read(&disk).expect("memory can be read") else {
            continue;
        };
        assert!(member.active.iter().all(|place| *place < member.places));
        if let MemberRole::Active(place) = member.role {
            assert!(place < member.places);
        }
        assert!(!member.array_name().is_empty());
        let _ = member.works_with(&member.active);
    }
}
