// SPDX-License-Identifier: GPL-2.0-only
//! Writing partition tables: by the distribution's sfdisk, which knows what firmware of all sorts
//! expects of one. (They are read by our own parsers, which are made for tables of strangers.)

use outboard_error::Result;
use outboard_sandbox::tool::{Tool, ToolFile};
use outboard_volume::options::Options;
use std::path::Path;

const SFDISK: Tool = Tool::new("sfdisk", "fdisk");
/// An MBR counts sectors, here the smallest ones, with 32 bits; sfdisk would make a partition of
/// what is left of a larger number.
pub const MBR_END: u64 = 512 << 32;

/// Whether to wipe the marks of other contents: an old table and its copy, a file system.
#[derive(Clone, Copy)]
enum Wipe {
    Always,
    Never,
}

impl Wipe {
    fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Runs sfdisk on a file with all of a disk.
fn run(
    settings: &Options,
    disk: &Path,
    wipe: Wipe,
    words: &[&str],
    after: &[String],
    script: &str,
    shown: &str,
) -> Result<()> {
    let file = ToolFile {
        path: disk.to_owned(),
        in_place: true,
    };
    SFDISK
        .call(settings.confinement())?
        .changes(&file)
        .arguments(["--quiet", "--wipe", wipe.word()])
        .arguments(["--wipe-partitions", "never"])
        .arguments(words)
        .argument(disk)
        .arguments(after)
        .input(script.as_bytes().to_vec())
        .succeed(&format!("cannot change the partition table of {shown}"))
        .map(drop)
}

/// Makes a table as a script of sfdisk says; the disk is nothing else then.
pub fn create(settings: &Options, disk: &Path, script: &str, shown: &str) -> Result<()> {
    run(settings, disk, Wipe::Always, &[], &[], script, shown)
}

/// Adds the partitions of a script.
pub fn append(settings: &Options, disk: &Path, script: &str, shown: &str) -> Result<()> {
    run(
        settings,
        disk,
        Wipe::Never,
        &["--append"],
        &[],
        script,
        shown,
    )
}

pub fn delete(settings: &Options, disk: &Path, numbers: &[u32], shown: &str) -> Result<()> {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    run(
        settings,
        disk,
        Wipe::Never,
        &["--delete"],
        &numbers,
        "",
        shown,
    )
}

/// Gives a partition another size, in sectors of the disk; where it begins, its type and its names
/// stay.
pub fn set_size(
    settings: &Options,
    disk: &Path,
    number: u32,
    sectors: u64,
    shown: &str,
) -> Result<()> {
    let script = format!("size={sectors}\n");
    run(
        settings,
        disk,
        Wipe::Never,
        &["-N", &number.to_string()],
        &[],
        &script,
        shown,
    )
}

/// Moves the second copy of a GPT to the end of the disk.
pub fn move_copy_to_end(settings: &Options, disk: &Path, shown: &str) -> Result<()> {
    run(
        settings,
        disk,
        Wipe::Never,
        &["--relocate", "gpt-bak-std"],
        &[],
        "",
        shown,
    )
}

/// Moves it to where the last partition ends.
pub fn move_copy_to_partitions(settings: &Options, disk: &Path, shown: &str) -> Result<()> {
    run(
        settings,
        disk,
        Wipe::Never,
        &["--relocate", "gpt-bak-mini"],
        &[],
        "",
        shown,
    )
}
