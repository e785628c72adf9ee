// SPDX-License-Identifier: GPL-2.0-only
//! `outboard chown`.

use crate::commands::each::{each_place, FileChange};
use clap::{ArgAction, Args};
use outboard_error::Result;
use outboard_transfer::operand::ITSELF;
use outboard_transfer::owner::Owner;
use outboard_transfer::walk::Entry;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Means "do not change" to the kernel.
const UNCHANGED: u32 = u32::MAX;

/// Change owner and group of files in an image
///
/// Names come from the image's own /etc/passwd and /etc/group.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\
                  \n  outboard chown 1000:1000 disk.img:/home/ann\
                  \n  outboard chown -R www-data: disk.img@1:/srv/www\
                  \n  outboard chown -R --from=1000 0:0 disk.img:/"
)]
pub struct ChownArgs {
    /// The new owner: USER, USER:GROUP, :GROUP, or USER: for the user's login group; numbers, or
    /// names of the image
    #[arg(value_name = "OWNER")]
    pub owner: OsString,
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Include everything below directories; change symbolic links themselves, not their targets
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Change a symbolic link itself, not its target
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// Change only files that have this owner and group now
    #[arg(long, value_name = "OWNER")]
    pub from: Option<OsString>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

pub fn run(options: &ChownArgs, session: &mut Session) -> Result<()> {
    let change = FileChange {
        what: "change owner of",
        follow: !options.recursive && !options.no_dereference,
        recursive: options.recursive,
    };
    each_place(
        session,
        &options.places,
        true,
        |session, place, interrupt| {
            let id = session.open(place, true)?;
            let tree = session.tree(id);
            let new = Owner::find(options.owner.as_bytes(), tree, place)?;
            let old = match &options.from {
                Some(from) => Owner::find(from.as_bytes(), tree, place)?,
                None => Owner::default(),
            };
            change.run(tree, place, interrupt, |entry| change_one(new, old, entry))
        },
    )
}

fn change_one(new: Owner, old: Owner, entry: &Entry) -> io::Result<()> {
    if old != Owner::default() {
        let stat = entry.stat()?;
        let other = old.user.is_some_and(|user| user != stat.st_uid)
            || old.group.is_some_and(|group| group != stat.st_gid);
        if other {
            return Ok(());
        }
    }
    let user = new.user.unwrap_or(UNCHANGED);
    let group = new.group.unwrap_or(UNCHANGED);
    let directory = entry.directory;
    directory.set_owner_at(entry.name, user, group, ITSELF)
}
