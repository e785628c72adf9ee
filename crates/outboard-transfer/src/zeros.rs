// SPDX-License-Identifier: GPL-2.0-only
//! Holes of files on file systems that have holes and do not report them (SEEK_HOLE): NTFS, JFS,
//! minix, UFS, UDF. Blocks of zeros take their place.

use outboard::Fd;
use std::ops::Range;

/// Bytes of a block of zeros that becomes a hole.
pub const BLOCK: usize = 4096;

/// The kinds of file systems (statfs) whose drivers compute a file's blocks from its size: minix.
const BLOCKS_OF_SIZE: [i64; 5] = [0x137f, 0x138f, 0x2468, 0x2478, 0x4d5a];
/// The least size of a file whose file system is asked for its kind.
const LARGE: i64 = 64 << 10;

/// Whether a file may have holes: it has fewer blocks than bytes, or its blocks say nothing.
pub fn may_be_holes(file: &Fd, stat: &libc::stat) -> bool {
    if stat.st_blocks.saturating_mul(512) < stat.st_size {
        return stat.st_size >= BLOCK as i64;
    }
    let says_nothing = |file: &Fd| {
        let found = file.statfs();
        found.is_ok_and(|found| BLOCKS_OF_SIZE.contains(&found.kind))
    };
    stat.st_size >= LARGE && !file.system().is_host() && says_nothing(file)
}

/// The parts of some bytes that are not blocks of zeros, in their order. The bytes begin at a
/// multiple of [`BLOCK`].
pub fn data_parts(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (index, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().all(|&byte| byte == 0) {
            continue;
        }
        let start = index * BLOCK;
        let end = start + block.len();
        match parts.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => parts.push(start..end),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_of_zeros_are_holes() {
        let mut bytes = vec![0; 5 * BLOCK + 100];
        assert!(data_parts(&bytes).is_empty());
        for place in [BLOCK, 3 * BLOCK - 1, 5 * BLOCK + 99] {
            bytes[place] = 1;
        }
        let parts = [BLOCK..3 * BLOCK, 5 * BLOCK..5 * BLOCK + 100];
        assert_eq!(data_parts(&bytes), parts);
        assert!(data_parts(&[]).is_empty());
    }
}
