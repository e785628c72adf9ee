// SPDX-License-Identifier: GPL-2.0-only
//! `outboard rm`: removes files, and trees from their leaves upwards.

use crate::commands::each::each_place;
use clap::Args;
use outboard_error::{Error, ErrorKind, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::operand::{is_directory, Named, ITSELF};
use outboard_transfer::remove::remove_tree;
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::io;

/// Remove files of an image
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard rm disk.img:/etc/nologin\
                        \n  outboard rm -r -f disk.img@1:/var/cache/apt")]
pub struct RmArgs {
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Remove directories with their contents
    #[arg(short, long, short_alias = 'R')]
    pub recursive: bool,
    /// Ignore files that do not exist
    #[arg(short, long)]
    pub force: bool,
    /// Remove empty directories
    #[arg(short, long = "dir")]
    pub directories: bool,
}

pub fn run(options: &RmArgs, session: &mut Session) -> Result<()> {
    each_place(
        session,
        &options.places,
        true,
        |session, place, interrupt| remove(options, session, place, interrupt),
    )
}

fn remove(
    options: &RmArgs,
    session: &mut Session,
    place: &Place,
    interrupt: &Interrupt,
) -> Result<()> {
    let id = session.open(place, true)?;
    let failed = |error: &io::Error| Error::of_file("cannot remove", place.operand(), error);
    let found = Named::to_change(session.tree(id), place).and_then(|(directory, name)| {
        Ok(Named {
            stat: directory.stat_at(&name, ITSELF)?,
            directory,
            name,
        })
    });
    let file = match found {
        Ok(file) => file,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) if options.force => return Ok(()),
            _ => return Err(failed(&error)),
        },
    };
    let flags = match (is_directory(&file.stat), options.directories) {
        (false, _) => 0,
        (true, _) if options.recursive => return remove_tree(file, place, interrupt),
        (true, true) => libc::AT_REMOVEDIR,
        (true, false) => {
            return Err(Error::known(
                ErrorKind::Usage,
                format!("{} is a directory: remove it with -r", place.shown()),
            ))
        }
    };
    let removed = file.directory.unlink_at(&file.name, flags);
    removed.map_err(|error| failed(&error))
}
