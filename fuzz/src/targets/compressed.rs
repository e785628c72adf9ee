// SPDX-License-Identifier: GPL-2.0-only
//! Compressed disks and archives. The input is a file of gzip, zstd or xz.

use outboard_transfer::tar::fuzzing::decompress;
use outboard_volume::containers::beginning;

const MOST: usize = 1 << 20;

pub fn run(bytes: &[u8]) {
    for kind in ["gzip", "zstd", "xz"] {
        assert!(beginning(kind, bytes, MOST).len() <= MOST);
    }
    decompress(bytes, MOST as u64);
}
