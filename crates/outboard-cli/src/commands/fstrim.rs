// SPDX-License-Identifier: GPL-2.0-only
//! `outboard fstrim`: gives the room of deleted files back to the host. Free blocks of the file
//! system become holes of the image's file.

use crate::output::{Output, Print};
use crate::record::Bytes;
use clap::Args;
use outboard_error::format::size as size_text;
use outboard_error::size::parse_size;
use outboard_error::{Error, ErrorKind, Result};
use outboard_volume::address::ImageName;
use outboard_volume::session::Session;
use serde::Serialize;
use std::ffi::OsString;
use std::path::Path;

/// Return free blocks of an image to the host: they become holes of the file
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard fstrim disk.img@2")]
pub struct FstrimArgs {
    /// The image, or IMAGE@N for a partition
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<OsString>,
    /// Skip free ranges smaller than this
    #[arg(short, long, value_name = "SIZE", value_parser = parse_size)]
    pub minimum: Option<u64>,
}

/// The space that a volume returned.
#[derive(Serialize)]
struct Trimmed {
    #[serde(flatten)]
    volume: Bytes<'static>,
    bytes: u64,
    /// For people.
    #[serde(skip)]
    shown: String,
}

impl Print for Trimmed {
    fn print(&self, output: &mut Output) -> Result<()> {
        let (shown, bytes) = (output.text(&self.shown), self.bytes);
        let size = size_text(bytes);
        output.line(format!("{shown}: {size} ({bytes} bytes) trimmed"))
    }
}

pub fn run(options: &FstrimArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    for operand in &options.images {
        let name = ImageName::find(operand);
        output.item(&Trimmed {
            bytes: trim(session, &name, options.minimum.unwrap_or(0))?,
            volume: Bytes::new("volume", name.operand()),
            shown: name.shown(),
        })?;
    }
    Ok(())
}

fn trim(session: &mut Session, name: &ImageName, minimum: u64) -> Result<u64> {
    let index = session.mount(name, true)?;
    let mount = session.mounted(index);
    let kind = mount.kind();
    let root = mount.open_fd(Path::new("/"), libc::O_RDONLY | libc::O_DIRECTORY, 0);
    // Syncing frees the blocks of files that were deleted a moment ago.
    let trimmed = root.and_then(|root| {
        mount.sync()?;
        root.trim_file_system(minimum)
    });
    trimmed.map_err(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOTTY) => Error::known(
            ErrorKind::Unsupported,
            format!(
                "{}: file systems of type {kind} cannot tell which blocks are free",
                name.shown()
            ),
        ),
        _ => Error::of_file("cannot trim", name.operand(), &error),
    })
}
