// SPDX-License-Identifier: GPL-2.0-only
//! Finds liboutboard.a and its components, and links them:
//!
//! 1. in the directory OUTBOARD_LIB_DIR, if that is set;
//! 2. in the repository's out/lib, if the library was built there;
//! 3. where pkg-config says, if the library is installed.
//!
//! With DOCS_RS, as docs.rs sets it, it looks for nothing: documentation needs no library.

use std::env;
use std::path::{Path, PathBuf};
use std::process::exit;

const LIBRARIES: [&str; 2] = ["liboutboard.a", "liboutboard-components.a"];

fn has_library(directory: &Path) -> bool {
    LIBRARIES.iter().all(|name| directory.join(name).is_file())
}

fn in_repository() -> PathBuf {
    let crate_directory = env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo");
    PathBuf::from(crate_directory).join("../../out/lib")
}

/// The directory of the library, or why there is none.
fn find() -> Result<PathBuf, String> {
    if let Some(directory) = env::var_os("OUTBOARD_LIB_DIR") {
        let directory = PathBuf::from(directory);
        return if has_library(&directory) {
            Ok(directory)
        } else {
            Err(format!(
                "it is not in OUTBOARD_LIB_DIR={}",
                directory.display()
            ))
        };
    }
    let built = in_repository();
    if has_library(&built) {
        return Ok(built);
    }
    let installed = pkg_config::get_variable("outboard", "libdir").map(PathBuf::from);
    match installed {
        Ok(directory) if has_library(&directory) => Ok(directory),
        Ok(directory) => Err(format!(
            "pkg-config names {}, where it is not",
            directory.display()
        )),
        Err(_) => Err("pkg-config does not know it".to_owned()),
    }
}

fn main() {
    for variable in [
        "DOCS_RS",
        "OUTBOARD_LIB_DIR",
        "PKG_CONFIG_PATH",
        "PKG_CONFIG_LIBDIR",
    ] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    let directory = find().unwrap_or_else(|why| {
        eprintln!(
            "error: cannot find liboutboard.a with its components: {why}.\n\
             Install it (in Outboard's repository: make, then make install; for another prefix, \
             set PKG_CONFIG_PATH=PREFIX/lib/pkgconfig), or set OUTBOARD_LIB_DIR to its directory. \
             Documentation alone needs no library: set DOCS_RS=1."
        );
        exit(1);
    });
    for library in LIBRARIES {
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
