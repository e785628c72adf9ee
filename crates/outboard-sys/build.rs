// SPDX-License-Identifier: GPL-2.0-only
//! Links liboutboard.a and its components. They are in OUTBOARD_LIB_DIR, by default the
//! repository's out/lib.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=OUTBOARD_LIB_DIR");
    let directory = match env::var_os("OUTBOARD_LIB_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"))
            .join("../../out/lib"),
    };
    for library in ["liboutboard.a", "liboutboard-components.a"] {
        println!(
            "cargo:rerun-if-changed={}",
            directory.join(library).display()
        );
    }
    println!("cargo:rustc-link-search=native={}", directory.display());
    println!("cargo:rustc-link-lib=static:-bundle=outboard");
    // Nothing refers to it by a name that must be there.
    println!("cargo:rustc-link-lib=static:-bundle,+whole-archive=outboard-components");
    println!("cargo:rustc-link-lib=pthread");
    println!("cargo:rustc-link-arg=-Wl,-z,pack-relative-relocs");
}
