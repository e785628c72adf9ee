// SPDX-License-Identifier: GPL-2.0-only
//! `outboard sync`.

use crate::commands::each::each_place;
use clap::Args;
use outboard_error::{Error, Result};
use outboard_volume::session::{Session, TreeId};
use std::ffi::OsString;

/// Write changes in images to stable storage
///
/// Every command does so at its end; sync does so between the lines of a script or of the shell.
/// There, without an operand, it means all open images. sync opens the image for writing, which
/// replays a journal that was left.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard sync disk.img@1:/")]
pub struct SyncArgs {
    /// Any place in the file system: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
}

pub fn run(options: &SyncArgs, session: &mut Session) -> Result<()> {
    if options.places.is_empty() {
        return session.sync();
    }
    each_place(session, &options.places, true, |session, place, _| {
        let TreeId::Mount(index) = session.open(place, true)? else {
            return Ok(());
        };
        session.mounted(index).sync().map_err(|error| {
            let text = format!("{}: not everything was written", place.shown());
            Error::failed(text, &error)
        })
    })
}
