// SPDX-License-Identifier: GPL-2.0-only
//! `outboard resize`: makes a file system larger or smaller, with its partition and the image's
//! file.

use crate::output::{Output, Print};
use crate::record::Bytes;
use clap::Args;
use outboard_build::resize::{resize, ResizedVolume, SizeChange};
use outboard_error::format::size as size_text;
use outboard_error::Result;
use outboard_volume::address::ImageName;
use outboard_volume::session::Session;
use serde::Serialize;
use std::ffi::OsString;

/// Make a file system larger or smaller, with its partition and the image
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard resize disk.img@2 +10G\
                        \n  outboard resize disk.img 4G\
                        \n  outboard resize disk.img --min\
                        \n  outboard resize cloud.qcow2@1 +10G\
                        \n  outboard resize server.img@vg0/root --max\
                        \n\next2, ext3, ext4, btrfs and ntfs grow and shrink; xfs and f2fs grow.")]
pub struct ResizeArgs {
    /// The image, IMAGE@N for a partition, or IMAGE@NAME for a volume
    pub image: OsString,
    /// The new size, as in 4G, or the growth, as in +1G
    #[arg(required_unless_present_any = ["min", "max"])]
    pub size: Option<SizeChange>,
    /// Make the file system as small as possible (ext2, ext3, ext4, ntfs)
    #[arg(long, conflicts_with_all = ["size", "max"])]
    pub min: bool,
    /// Make the file system as large as the partition or image allows
    #[arg(long, conflicts_with = "size")]
    pub max: bool,
}

impl ResizeArgs {
    fn wanted(&self) -> SizeChange {
        match self.size {
            Some(size) => size,
            None if self.max => SizeChange::Most,
            None => SizeChange::Least,
        }
    }
}

/// The file system as it is now.
#[derive(Serialize)]
struct Resulting {
    #[serde(flatten)]
    volume: Bytes<'static>,
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
    /// For people.
    #[serde(skip)]
    shown: String,
}

impl Print for Resulting {
    fn print(&self, output: &mut Output) -> Result<()> {
        let (shown, size) = (output.text(&self.shown), self.size);
        output.line(format!("{shown}: {} ({size} bytes)", size_text(size)))
    }
}

pub fn run(options: &ResizeArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let name = ImageName::find(&options.image);
    let ResizedVolume { kind, size, shown } = resize(session, &name, options.wanted())?;
    let resulting = Resulting {
        volume: Bytes::new("volume", name.operand()),
        kind,
        size,
        shown,
    };
    output.member("filesystem", &resulting)
}
