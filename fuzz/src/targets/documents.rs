// SPDX-License-Identifier: GPL-2.0-only
//! Documents of images of containers: indexes, manifests, configurations. The input is one of them.

use outboard_build::oci::fuzzing::documents;

pub fn run(bytes: &[u8]) {
    documents(bytes);
}
