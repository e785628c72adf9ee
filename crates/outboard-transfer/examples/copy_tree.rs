// SPDX-License-Identifier: GPL-2.0-only
//! Copies a tree out of a disk image, with a count: `copy_tree disk.img@1 /etc etc`.

use outboard_transfer::Transfer;
use outboard_volume::{HostTree, Options, Volume};
use std::error::Error;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, name, path, copy] = words.as_slice() else {
        return Err("usage: copy_tree IMAGE[@VOLUME] PATH COPY".into());
    };
    let shown = io::stderr().is_terminal();
    let transfer = Transfer::new().on_progress(move |count| {
        if shown {
            eprint!("\r{} files", count.files);
        }
        ControlFlow::Continue(())
    });
    let disk = Volume::open(name, Options::new())?;
    let summary = transfer.copy(&disk, path, &HostTree, copy)?;
    println!("{} files, {} bytes", summary.files, summary.bytes);
    for warning in summary.warnings {
        eprintln!("{warning}");
    }
    Ok(())
}
