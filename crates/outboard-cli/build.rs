// SPDX-License-Identifier: GPL-2.0-only
//! Links the program at a fixed address, as snapshots of the kernel in it need
//! (hypercall/posix/snapshot/key.c), with room for components below it. Packs its relative
//! relocations: the kernel has many.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Linkers differ in the option for the address.
    println!("cargo:rustc-link-arg-bins=-fuse-ld=bfd");
    println!("cargo:rustc-link-arg-bins=-no-pie");
    println!("cargo:rustc-link-arg-bins=-Wl,-Ttext-segment=0x40000000");
    println!("cargo:rustc-link-arg=-Wl,-z,pack-relative-relocs");
}
