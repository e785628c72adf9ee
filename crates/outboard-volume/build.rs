// SPDX-License-Identifier: GPL-2.0-only
//! Packs the relative relocations of test programs and examples; the kernel has many.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg=-Wl,-z,pack-relative-relocs");
}
