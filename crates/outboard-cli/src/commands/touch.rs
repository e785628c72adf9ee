// SPDX-License-Identifier: GPL-2.0-only
//! `outboard touch`.

use crate::commands::each::each_place;
use crate::commands::image_place;
use crate::format::moment;
use clap::{ArgAction, Args};
use libc::timespec;
use outboard::{Fd, Tree};
use outboard_error::{Error, Result};
use outboard_transfer::moment::{is_access_kept, is_kept, parse_moment, stored};
use outboard_transfer::operand::{Named, ITSELF};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::io;

/// Set times of files in an image, or make empty files
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\
                  \n  outboard touch disk.img:/etc/cloud/cloud-init.disabled\
                  \n  outboard touch -d '2026-11-21 10:00' disk.img@1:/etc/motd\
                  \n  outboard touch -r disk.img:/etc/passwd disk.img:/etc/shadow"
)]
pub struct TouchArgs {
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Set only the time of access
    #[arg(short)]
    pub access: bool,
    /// Set only the time of modification
    #[arg(short)]
    pub modification: bool,
    /// Make no files
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// This time instead of now, as in "2026-11-21 10:20:30" (UTC), "2026-11-21T10:20+01:00" or
    /// @SECONDS
    #[arg(short, long, value_name = "TIME", value_parser = parse_moment)]
    pub date: Option<timespec>,
    /// Use the times of this file in an image
    #[arg(short, long, value_name = "IMAGE:/PATH", conflicts_with = "date")]
    pub reference: Option<OsString>,
    /// Change a symbolic link itself, not its target
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

pub fn run(options: &TouchArgs, session: &mut Session) -> Result<()> {
    let times = times(options, session)?;
    each_place(session, &options.places, true, |session, place, _| {
        touch(options, session, place, &times)
    })
}

/// The times of access and modification that files get.
fn times(options: &TouchArgs, session: &mut Session) -> Result<[timespec; 2]> {
    let special = |value| timespec {
        tv_sec: 0,
        tv_nsec: value,
    };
    let mut times = match (&options.date, &options.reference) {
        (Some(date), _) => [*date; 2],
        (None, Some(reference)) => reference_times(options, session, &image_place(reference)?)?,
        (None, None) => [special(libc::UTIME_NOW); 2],
    };
    if options.access != options.modification {
        let other = usize::from(options.access);
        times[other] = special(libc::UTIME_OMIT);
    }
    Ok(times)
}

fn reference_times(
    options: &TouchArgs,
    session: &mut Session,
    place: &Place,
) -> Result<[timespec; 2]> {
    let id = session.open(place, false)?;
    let found = Named::find(session.tree(id), place, !options.no_dereference)
        .map_err(|error| Error::of_file("cannot look at", place.operand(), &error))?;
    let stat = found.stat;
    let time = |tv_sec, tv_nsec| timespec { tv_sec, tv_nsec };
    Ok([
        time(stat.st_atime, stat.st_atime_nsec),
        time(stat.st_mtime, stat.st_mtime_nsec),
    ])
}

fn touch(
    options: &TouchArgs,
    session: &mut Session,
    place: &Place,
    times: &[timespec; 2],
) -> Result<()> {
    let id = session.open(place, true)?;
    let tree = session.tree(id);
    let result = match set(options, tree, place, times) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if options.no_create || options.no_dereference {
                return Ok(());
            }
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NONBLOCK | libc::O_NOCTTY;
            tree.open_fd(place.path(), flags, 0o666 & !session.umask())
                .and_then(|file| {
                    file.set_times(times)?;
                    check_kept(options, times, &file.stat()?, &file)
                })
        }
        other => other,
    };
    result.map_err(|error| Error::of_file("cannot touch", place.operand(), &error))
}

fn set(options: &TouchArgs, tree: &Tree, place: &Place, times: &[timespec; 2]) -> io::Result<()> {
    let file = Named::find(tree, place, !options.no_dereference)?;
    file.directory.set_times_at(&file.name, times, ITSELF)?;
    let now = file.directory.stat_at(&file.name, ITSELF)?;
    check_kept(options, times, &now, &file.directory)
}

/// Fails if the file has another time now: file systems take the nearest one that they know. Not
/// all know more than one time, so that of access counts only if it was asked for alone. `near`: a
/// file of the same file system.
fn check_kept(
    options: &TouchArgs,
    times: &[timespec; 2],
    now: &libc::stat,
    near: &Fd,
) -> io::Result<()> {
    let only_access = options.access && !options.modification;
    let (wanted, reported) = if only_access {
        (&times[0], now.st_atime)
    } else {
        (&times[1], now.st_mtime)
    };
    let found = stored(reported, || near.statfs().ok().map(|found| found.kind));
    let kept = found.is_some_and(|found| {
        if only_access {
            is_access_kept(wanted, found)
        } else {
            is_kept(wanted, found)
        }
    });
    if kept {
        return Ok(());
    }
    let wanted = moment(wanted.tv_sec, wanted.tv_nsec);
    Err(io::Error::other(match found {
        Some(found) => format!(
            "its file system cannot hold the time {wanted}: it took {} instead",
            moment(found, 0)
        ),
        None => format!("its file system cannot hold the time {wanted}"),
    }))
}
