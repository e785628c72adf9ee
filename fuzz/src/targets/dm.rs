// SPDX-License-Identifier: GPL-2.0-only
//! Superblocks of dm-verity and dm-integrity. The input is the beginning of a device.

use outboard_image::{integrity, verity};

pub fn run(bytes: &[u8]) {
    for offset in [0, 512, 4096] {
        if let Ok(Some(found)) = verity::VeritySuperblock::read(bytes, offset) {
            assert!(found.data_size() >= found.data_blocks);
            assert!(found.first_block > 0 && found.salt.len() <= 256);
            // The kernel's table gets the algorithm as one word.
            assert!(!found.algorithm.contains([' ', '\n']));
            for digest in [16, 20, 32, 64] {
                let levels = found.levels(digest);
                assert!(levels.len() <= 64 && levels.windows(2).all(|pair| pair[0] >= pair[1]));
            }
        }
        if let Ok(Some(found)) = integrity::IntegritySuperblock::read(bytes, offset) {
            assert!(matches!(found.block_size, 512 | 1024 | 2048 | 4096));
        }
    }
}
