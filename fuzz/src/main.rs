// SPDX-License-Identifier: GPL-2.0-only
//! All fuzz targets in one program with libFuzzer; the environment variable OUTBOARD_FUZZ_TARGET
//! chooses one. fuzz/run builds and runs it.
#![no_main]

use outboard_fuzz::targets;
use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fn chosen() -> fn(&[u8]) {
    let name = std::env::var("OUTBOARD_FUZZ_TARGET").unwrap_or_default();
    let found = targets::ALL.iter().find(|(other, _)| *other == name);
    let Some((_, target)) = found else {
        let names: Vec<&str> = targets::ALL.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "cannot choose the fuzz target \"{name}\": there is none of this name; set \
             OUTBOARD_FUZZ_TARGET to one of {}",
            names.join(", ")
        );
        std::process::exit(2);
    };
    *target
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| TARGET.get_or_init(chosen)(bytes));
