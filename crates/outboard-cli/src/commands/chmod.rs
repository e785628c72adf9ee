// SPDX-License-Identifier: GPL-2.0-only
//! `outboard chmod`.

use crate::commands::each::{each_place, FileChange};
use clap::Args;
use outboard_error::Result;
use outboard_transfer::mode::ModeChange;
use outboard_transfer::operand::{is_directory, ITSELF};
use outboard_transfer::walk::Entry;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::io;

/// Change permissions of files in an image
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard chmod 600 disk.img:/etc/shadow\
                        \n  outboard chmod -R u+rwX,go-w disk.img@1:/srv\
                        \n  outboard chmod -- -x disk.img:/bin/tool")]
pub struct ChmodArgs {
    /// The new permissions, as in 644 or u+rwX,go-w; after "--" if it begins with "-"
    #[arg(value_name = "MODE", value_parser = ModeChange::parse)]
    pub mode: ModeChange,
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Include everything below directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

pub fn run(options: &ChmodArgs, session: &mut Session) -> Result<()> {
    let change = FileChange {
        what: "change permissions of",
        follow: true,
        recursive: options.recursive,
    };
    let umask = session.umask();
    each_place(
        session,
        &options.places,
        true,
        |session, place, interrupt| {
            let id = session.open(place, true)?;
            change.run(session.tree(id), place, interrupt, |entry| {
                change_one(&options.mode, entry, umask)
            })
        },
    )
}

fn change_one(change: &ModeChange, entry: &Entry, umask: u32) -> io::Result<()> {
    // Symbolic links have no permissions of their own.
    if entry.kind == libc::S_IFLNK {
        return Ok(());
    }
    let stat = entry.stat()?;
    let mode = change.apply(stat.st_mode, is_directory(&stat), umask);
    entry.directory.change_mode_at(entry.name, mode, ITSELF)
}
