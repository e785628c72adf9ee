// SPDX-License-Identifier: GPL-2.0-only
//! Archives: headers of all formats, long names, PAX, maps of holes. The input is an archive;
//! this target corrects the checksums of what looks like a header.

use outboard_transfer::tar::fuzzing::read_archive;

const BLOCK: usize = 512;
const CHECKSUM: std::ops::Range<usize> = 148..156;

fn fix_checksum(block: &mut [u8]) {
    block[CHECKSUM].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// The archive with right checksums.
pub(super) fn fixed(bytes: &[u8]) -> Vec<u8> {
    let mut archive = bytes.to_vec();
    for (index, block) in archive.chunks_exact_mut(BLOCK).enumerate() {
        if index == 0 || &block[257..262] == b"ustar" {
            fix_checksum(block);
        }
    }
    archive
}

pub fn run(bytes: &[u8]) {
    read_archive(&fixed(bytes));
}
