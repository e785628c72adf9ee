// SPDX-License-Identifier: GPL-2.0-only
//! Layers of images of containers: what they hide, links, and the file system that is made of them.
//! The input is their archives, with a line between two of them; this target corrects checksums.

use super::tar::fixed;
use outboard_build::oci::fuzzing::layers;

const BETWEEN: &[u8] = b"\n--layer--\n";

fn archives(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let line = |bytes: &[u8]| bytes.windows(BETWEEN.len()).position(|now| now == BETWEEN);
    while let Some(position) = line(bytes) {
        found.push(fixed(&bytes[..position]));
        bytes = &bytes[position + BETWEEN.len()..];
    }
    found.push(fixed(bytes));
    found
}

pub fn run(bytes: &[u8]) {
    let file = tempfile::tempfile().expect("there is room for a file");
    layers(&archives(bytes), file);
}
