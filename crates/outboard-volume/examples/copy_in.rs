// SPDX-License-Identifier: GPL-2.0-only
//! Copies a file of the host into a disk image: `copy_in motd disk.img@1 /etc/motd`.

use outboard_volume::{Options, Volume};
use std::error::Error;
use std::fs::File;
use std::io;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, file, name, path] = words.as_slice() else {
        return Err("usage: copy_in FILE IMAGE[@VOLUME] PATH".into());
    };
    let mut source = File::open(file)?;
    let disk = Volume::open_writable(name, Options::new())?;
    let mut copy = disk.create(path)?;
    io::copy(&mut source, &mut copy)?;
    drop(copy);
    // The copy is durable when this returns, and not before.
    disk.close()?;
    Ok(())
}
