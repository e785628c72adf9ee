// SPDX-License-Identifier: GPL-2.0-only
//! Superblocks of all file systems and containers. The input is the beginning of a disk; zeroes
//! follow it, as probes look far behind the beginning.

use crate::source::Sparse;
use outboard_image::btrfs::BtrfsMember;
use outboard_image::{file_format, leading_format, probe};

const SIZE: u64 = 64 << 20;

pub fn run(bytes: &[u8]) {
    let padded = Sparse {
        pieces: vec![(0, bytes)],
        size: SIZE,
    };
    let found = [probe(bytes), probe(&padded)];
    for probe in found.iter().flatten().flatten() {
        assert!(!probe.kind.is_empty());
        assert_ne!(probe.block_size, Some(0), "{}", probe.kind);
    }
    let _ = (
        file_format(bytes),
        leading_format(bytes),
        BtrfsMember::read(bytes),
    );
}
