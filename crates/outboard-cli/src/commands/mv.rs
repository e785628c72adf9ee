// SPDX-License-Identifier: GPL-2.0-only
//! `outboard mv`: moves files in images and between them.

use crate::commands::operands::{expand_places, made_names};
use crate::commands::progress;
use crate::commands::uses_image_of;
use clap::Args;
use outboard_error::{Error, ErrorKind, Failures, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::hidden::HiddenFinder;
use outboard_transfer::mv::{move_file, Moved, Moving};
use outboard_transfer::operand::base_name;
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Move or rename files in images
///
/// Between two file systems, mv copies as cp -a does, and removes the source once the copy is
/// complete and on stable storage. If the copy lacks something, such as an owner, the source stays.
#[derive(Args, Debug)]
#[command(
    override_usage = "outboard mv [OPTIONS] <SRC>... <DST>",
    after_help = "Examples:\
                  \n  outboard mv disk.img:/etc/motd disk.img:/etc/motd.old\
                  \n  outboard mv old.img:/home/ann new.img@2:/home"
)]
pub struct MvArgs {
    /// The sources, and last the destination: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"])]
    pub places: Vec<OsString>,
    /// Do not replace files that exist
    #[arg(short, long)]
    pub no_clobber: bool,
    /// Parsed once: a file that appears later does not change their meaning.
    #[arg(skip)]
    parsed: OnceCell<Vec<Place>>,
}

impl MvArgs {
    fn parsed(&self) -> &[Place] {
        let parse = || self.places.iter().map(|operand| Place::find(operand));
        self.parsed.get_or_init(|| parse().collect())
    }

    pub fn host_access(&self) -> HostAccess {
        let mut access = HostAccess::default();
        for place in self.parsed() {
            access.add(uses_image_of(place, true));
        }
        access
    }
}

pub fn run(options: &MvArgs, session: &mut Session) -> Result<()> {
    let places = options.parsed().iter().map(movable);
    let mut sources = places.collect::<Result<Vec<Place>>>()?;
    let destination = sources
        .pop()
        .ok_or_else(|| Error::Usage("mv needs a source and a destination".to_owned()))?;
    let sources = expand_places(session, sources, true)?;
    let interrupt = session.catch_interrupts();
    let target = session.open(&destination, true)?;
    let into = session.tree(target).metadata(destination.path());
    let into = into.is_ok_and(|found| found.is_dir());
    if sources.len() > 1 && !into {
        let text = format!("{} is not a directory", destination.shown());
        return Err(Error::known(ErrorKind::Usage, text));
    }
    let how = Moving {
        made: made_names(session.tree(target), &destination, sources.len())?,
        hidden: HiddenFinder::default(),
        keeps_existing: options.no_clobber,
        new_report: progress::report,
    };
    let mut failures = Failures::default();
    for source in &sources {
        let name = base_name(source.path().as_os_str().as_bytes());
        let new = if into {
            destination.below(name)
        } else {
            destination.clone()
        };
        let moved = move_file(session, source, &new, &how, &interrupt);
        let part = moved.and_then(|moved| check(moved, source));
        failures.take(part)?;
        interrupt.check()?;
    }
    failures.finish()
}

/// An error if the source stays.
fn check(moved: Moved, source: &Place) -> Result<()> {
    match moved {
        Moved::All => Ok(()),
        Moved::Copied => Err(Error::Failed(format!(
            "{} was copied but not removed, because not everything could be kept: if that is no \
             loss, remove it with outboard rm -r",
            source.shown()
        ))),
    }
}

fn movable(place: &Place) -> Result<Place> {
    match place {
        Place::Host(path) => Err(Error::Usage(format!(
            "{} is a file of the host, which mv does not move from or to: copy with outboard cp \
             -a, and then remove what is no longer needed",
            path.display()
        ))),
        place => Ok(place.clone()),
    }
}
