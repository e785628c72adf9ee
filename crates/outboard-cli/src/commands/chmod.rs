// SPDX-License-Identifier: GPL-2.0-only
//! `outboard chmod`.

use crate::address::Place;
use crate::commands::image_places;
use crate::error::{Error, Failures, Result};
use crate::interrupt::Interrupt;
use crate::mode::ModeChange;
use crate::operand::{is_directory, Named, ITSELF};
use crate::session::Session;
use crate::walk::{Entry, Step, Walk};
use clap::Args;
use std::ffi::OsString;
use std::io;

/// Change permissions of files in an image
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  outboard chmod 600 disk.img:/etc/shadow\n  outboard chmod -R u+rwX,go-w disk.img@1:/srv\n  outboard chmod -- -x disk.img:/bin/tool"
)]
pub struct Chmod {
    /// The new permissions, as in 644 or u+rwX,go-w; after "--" if it begins with "-"
    #[arg(value_name = "MODE", value_parser = ModeChange::parse)]
    pub mode: ModeChange,
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Also everything in directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

pub fn run(options: &Chmod, session: &mut Session) -> Result<()> {
    let places = image_places(&options.places)?;
    let interrupt = session.catch_interrupts()?;
    let mut failures = Failures::default();
    for place in &places {
        let part = change(options, session, place, &interrupt);
        failures.take(part)?;
        interrupt.check()?;
    }
    failures.finish()
}

fn change(
    options: &Chmod,
    session: &mut Session,
    place: &Place,
    interrupt: &Interrupt,
) -> Result<()> {
    let id = session.open(place, true)?;
    let umask = session.umask();
    let top = Named::find(session.tree(id), place, true).map_err(|error| {
        Error::failed(
            format!("cannot change permissions of {}", place.shown()),
            &error,
        )
    })?;
    let mut walk = Walk::new(top, place.operand(), interrupt.clone());
    let mut failures = Failures::default();
    while let Some(step) = walk.next() {
        match step {
            // Symbolic links have no permissions of their own.
            Step::Found(entry) if entry.kind == libc::S_IFLNK => {}
            Step::Found(entry) => {
                if let Err(error) = change_one(&options.mode, &entry, umask) {
                    failures.tell(entry.failure("change permissions of", &error));
                }
                if !options.recursive {
                    break;
                }
            }
            Step::Left(_) => {}
            Step::Failed(entry, error) => {
                failures.tell(entry.failure("read directory", &error));
            }
        }
    }
    failures.finish()
}

fn change_one(change: &ModeChange, entry: &Entry, umask: u32) -> io::Result<()> {
    let stat = entry.stat()?;
    let mode = change.apply(stat.st_mode, is_directory(&stat), umask);
    entry.directory.change_mode_at(entry.name, mode, ITSELF)
}
