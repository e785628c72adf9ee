// SPDX-License-Identifier: GPL-2.0-only
//! `outboard rmdir`.

use crate::commands::each::each_place;
use clap::Args;
use outboard_error::{Error, Result};
use outboard_transfer::operand::Named;
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::path::Path;

/// Remove empty directories of an image
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard rmdir disk.img:/srv/old")]
pub struct RmdirArgs {
    /// The directories: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Remove parent directories, too, as long as they are empty
    #[arg(short, long)]
    pub parents: bool,
}

pub fn run(options: &RmdirArgs, session: &mut Session) -> Result<()> {
    each_place(session, &options.places, true, |session, place, _| {
        remove(options, session, place)
    })
}

fn remove(options: &RmdirArgs, session: &mut Session, place: &Place) -> Result<()> {
    let id = session.open(place, true)?;
    let tree = session.tree(id);
    let mut next = Some(place.clone());
    while let Some(place) = next {
        Named::to_change(tree, &place)
            .and_then(|(directory, name)| directory.unlink_at(&name, libc::AT_REMOVEDIR))
            .map_err(|error| Error::of_file("cannot remove directory", place.operand(), &error))?;
        let above = Some(place.parent());
        next = above.filter(|above| options.parents && above.path() != Path::new("/"));
    }
    Ok(())
}
