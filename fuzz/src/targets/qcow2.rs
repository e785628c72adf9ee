// SPDX-License-Identifier: GPL-2.0-only
//! Headers and reference counts of qcow2, and headers of VDI. The input is an image file.

use outboard_image::{qcow2, vdi};

pub fn run(bytes: &[u8]) {
    let _ = vdi::is_cut(bytes);
    let Ok(header) = qcow2::read(bytes) else {
        return;
    };
    assert!(header.cluster_size.is_power_of_two() && header.size <= 1 << 56);
    assert!(header
        .backing
        .as_ref()
        .is_none_or(|name| name.len() <= 1023));
    let _ = qcow2::is_cut(bytes, &header);
    let _ = qcow2::check_refcounts(bytes, &header);
}
