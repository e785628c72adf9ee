// SPDX-License-Identifier: GPL-2.0-only
//! Runs every target over its seeds, and over inputs that made it crash once.

use outboard_fuzz::targets;
use std::fs;
use std::path::{Path, PathBuf};

fn seeds(target: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target);
    let entries = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("no seeds in {}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_target_survives_its_seeds() {
    for (name, target) in targets::ALL {
        let paths = seeds(name);
        assert!(!paths.is_empty(), "no seeds of {name}");
        println!("{name}: {} seeds", paths.len());
        for path in paths {
            println!("  {}", path.display());
            target(&fs::read(path).unwrap());
        }
    }
}
