// SPDX-License-Identifier: GPL-2.0-only
//! Writing partition tables: by the distribution's sfdisk, which knows what firmware of all sorts expects
//! of one. (They are read by our own parsers, which are made for tables of strangers.)

use crate::arguments::Settings;
use crate::error::{Error, Result};
use crate::scratch::{open_locked, PlainPath};
use crate::tool::Tool;
use std::path::Path;

const SFDISK: Tool = Tool::new("sfdisk", "fdisk");
/// sfdisk's unit.
pub const SECTOR: u64 = 512;

/// Runs sfdisk on an image, which is locked meanwhile.
fn run(
    settings: &Settings,
    image: &Path,
    words: &[&str],
    after: &[String],
    script: &str,
    shown: &str,
) -> Result<()> {
    let lock = open_locked(image, true)?;
    let path = PlainPath::new(image)?;
    SFDISK
        .call(settings)?
        .writes(image)
        .arguments(["--quiet", "--wipe", "never", "--wipe-partitions", "never"])
        .arguments(words)
        .argument(path.as_ref())
        .arguments(after)
        .input(script.as_bytes().to_vec())
        .succeed(&format!("cannot change the partition table of {shown}"))?;
    lock.sync()
        .map_err(|error| Error::failed(format!("{shown}: not everything was written"), &error))
}

/// Makes a table as a script of sfdisk says.
pub fn create(settings: &Settings, image: &Path, script: &str, shown: &str) -> Result<()> {
    run(settings, image, &[], &[], script, shown)
}

/// Adds the partitions of a script.
pub fn append(settings: &Settings, image: &Path, script: &str, shown: &str) -> Result<()> {
    run(settings, image, &["--append"], &[], script, shown)
}

pub fn delete(settings: &Settings, image: &Path, numbers: &[u32], shown: &str) -> Result<()> {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    run(settings, image, &["--delete"], &numbers, "", shown)
}

/// Gives a partition another size; where it begins, its type and its names stay.
pub fn set_size(
    settings: &Settings,
    image: &Path,
    number: u32,
    size: u64,
    shown: &str,
) -> Result<()> {
    let script = format!("size={}\n", size / SECTOR);
    run(
        settings,
        image,
        &["-N", &number.to_string()],
        &[],
        &script,
        shown,
    )
}

/// Moves the second copy of a GPT to the end of the image.
pub fn move_copy_to_end(settings: &Settings, image: &Path, shown: &str) -> Result<()> {
    run(
        settings,
        image,
        &["--relocate", "gpt-bak-std"],
        &[],
        "",
        shown,
    )
}

/// Moves it to where the last partition ends.
pub fn move_copy_to_partitions(settings: &Settings, image: &Path, shown: &str) -> Result<()> {
    run(
        settings,
        image,
        &["--relocate", "gpt-bak-mini"],
        &[],
        "",
        shown,
    )
}
