// SPDX-License-Identifier: GPL-2.0-only
//! `outboard sync`.

use crate::commands::image_places;
use crate::error::{Error, Failures, Result};
use crate::session::{Session, TreeId};
use clap::Args;
use std::ffi::OsString;

/// Write what was changed in images to stable storage
///
/// Every command does that at its end; in a session of many commands this does it in between. It opens
/// the image for writing: a journal that was left is replayed.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard sync disk.img@1:/")]
pub struct Sync {
    /// Any place in the file system: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
}

pub fn run(options: &Sync, session: &mut Session) -> Result<()> {
    let places = image_places(&options.places)?;
    let mut failures = Failures::default();
    for place in &places {
        let Some(TreeId::Mount(index)) = failures.take(session.open(place, true))? else {
            continue;
        };
        let part = session.mounted(index).sync().map_err(|error| {
            Error::failed(
                format!("{}: not everything was written", place.shown()),
                &error,
            )
        });
        failures.take(part)?;
    }
    failures.finish()
}
