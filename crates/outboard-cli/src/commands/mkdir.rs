// SPDX-License-Identifier: GPL-2.0-only
//! `outboard mkdir`.

use crate::commands::each::each_new_place;
use clap::Args;
use outboard::Tree;
use outboard_error::{Error, Result};
use outboard_transfer::mode::ModeChange;
use outboard_transfer::operand::ITSELF;
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Make directories in an image
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard mkdir disk.img:/srv\
                        \n  outboard mkdir -p -m 700 disk.img@1:/home/ann/.ssh")]
pub struct MkdirArgs {
    /// The directories: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Make missing parent directories, too; a directory that exists is no error
    #[arg(short, long)]
    pub parents: bool,
    /// The permissions, as for chmod [default: rwx for all, less the umask]
    #[arg(short, long, value_name = "MODE", value_parser = ModeChange::parse)]
    pub mode: Option<ModeChange>,
}

pub fn run(options: &MkdirArgs, session: &mut Session) -> Result<()> {
    each_new_place(session, &options.places, |session, place, _| {
        make(options, session, place)
    })
}

fn make(options: &MkdirArgs, session: &mut Session, place: &Place) -> Result<()> {
    let id = session.open(place, true)?;
    let (tree, umask) = (session.tree(id), session.umask());
    if options.parents && !make_parents(tree, place, umask)? {
        return Ok(());
    }
    let path = place.path();
    make_one(tree, path, options.mode.as_ref(), umask).map_err(|error| failure(place, &error))
}

fn failure(place: &Place, error: &io::Error) -> Error {
    Error::of_file("cannot make directory", place.operand(), error)
}

fn make_one(tree: &Tree, path: &Path, change: Option<&ModeChange>, umask: u32) -> io::Result<()> {
    let (directory, name) = tree.open_parent(path)?;
    let mode = change.map_or(0o777 & !umask, |change| change.apply(0o777, true, umask));
    directory.make_directory_at(&name, mode & 0o777)?;
    if change.is_some() {
        // It may have got set-group-ID from the one above, and keeps that as with chmod.
        let made = directory.stat_at(&name, ITSELF)?.st_mode & 0o7777;
        let mode = mode | made & libc::S_ISGID;
        if made != mode {
            directory.change_mode_at(&name, mode, ITSELF)?;
        }
    }
    Ok(())
}

/// Makes the directories above; tells whether the last one is to be made.
fn make_parents(tree: &Tree, place: &Place, umask: u32) -> Result<bool> {
    let is_directory = |path: &Path| tree.metadata(path).is_ok_and(|found| found.is_dir());
    if is_directory(place.path()) {
        return Ok(false);
    }
    let mut here = PathBuf::new();
    let mut parts = place.path().components().peekable();
    while let Some(part) = parts.next() {
        here.push(part);
        if parts.peek().is_none() {
            break;
        }
        if !matches!(part, Component::Normal(_)) || is_directory(&here) {
            continue;
        }
        let mode = 0o777 & !umask | 0o300;
        tree.create_dir_with_mode(&here, mode)
            .map_err(|error| failure(&place.with_path(here.clone()), &error))?;
    }
    Ok(true)
}
