// SPDX-License-Identifier: GPL-2.0-only
//! Lists a tree of a disk image: `list_tree disk.img@2 /etc`.

use outboard_volume::{Options, Volume};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, name, path] = words.as_slice() else {
        return Err("usage: list_tree IMAGE[@VOLUME] PATH".into());
    };
    let disk = Volume::open(name, Options::new())?;
    for entry in disk.walk(path)? {
        let entry = entry?;
        println!("{:10} {}", entry.metadata()?.len(), entry.path().display());
    }
    for warning in disk.warnings() {
        eprintln!("{warning}");
    }
    Ok(())
}
