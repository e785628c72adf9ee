// SPDX-License-Identifier: GPL-2.0-only
//! `outboard diff`: compares two trees, of images or of the host.

mod difference;

use crate::exit_code::CommandStatus;
use crate::output::Output;
use clap::{Args, ValueEnum};
use difference::Line;
use outboard::System;
use outboard_error::{report, Error, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::diff::{compare, DiffOptions, Side};
use outboard_volume::access::uses;
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use std::ffi::OsString;
use std::sync::OnceLock;

/// Exit codes of diff(1).
const DIFFERENT: u8 = 1;
pub const FAILED: u8 = 2;

/// Compare two trees of files: names, types, modes, owners, attributes, contents
///
/// diff prints one line for each difference, and one for a directory that only one tree has. Exit
/// codes: 0 no differences, 1 differences, 2 something could not be compared.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard diff old.img:/ new.img:/\
                        \n  outboard diff --times rootfs disk.img@1:/\
                        \n  outboard diff --ignore owners,xattrs -x lost+found disk.img:/ rootfs")]
pub struct DiffArgs {
    /// The first tree: IMAGE:/PATH, IMAGE@N:/PATH, or a path of the host
    #[arg(value_name = "A:/")]
    pub left: OsString,
    /// The second tree
    #[arg(value_name = "B:/")]
    pub right: OsString,
    /// Compare times of modification, too
    #[arg(long)]
    pub times: bool,
    /// Do not compare these
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    pub ignore: Vec<Ignored>,
    /// Leave out files of this name, with everything below them
    #[arg(short = 'x', long, value_name = "NAME")]
    pub exclude: Vec<OsString>,
    /// The trees, parsed once: a file that appears later does not change their meaning.
    #[arg(skip)]
    pub places: OnceLock<[Place; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ignored {
    Modes,
    Owners,
    Xattrs,
}

impl DiffArgs {
    pub fn places(&self) -> &[Place; 2] {
        let parse = || [Place::find(&self.left), Place::find(&self.right)];
        self.places.get_or_init(parse)
    }

    pub fn host_access(&self) -> HostAccess {
        let [left, right] = self.places();
        let mut access = uses(left, false);
        access.add(uses(right, false));
        access.keeps_attributes = true;
        access
    }

    fn options(&self) -> DiffOptions {
        DiffOptions {
            modes: !self.ignore.contains(&Ignored::Modes),
            owners: !self.ignore.contains(&Ignored::Owners),
            xattrs: !self.ignore.contains(&Ignored::Xattrs),
            times: self.times,
            excluded: self.exclude.clone(),
        }
    }
}

pub fn run(
    options: &DiffArgs,
    session: &mut Session,
    output: &mut Output,
) -> Result<CommandStatus> {
    let interrupt = session.catch_interrupts();
    let _ = System::Host.raise_file_limit(1 << 20);
    let [first, second] = options.places().clone();
    let left = session.open(&first, false)?;
    let right = session.open(&second, false)?;
    let sides = &[side(session, left, first)?, side(session, right, second)?];
    let found = compare(sides, &options.options(), interrupt, session.vcpus());
    let (differences, troubles) = found?;
    for difference in &differences {
        output.item(&Line { difference, sides })?;
    }
    output.flush()?;
    match (troubles.is_empty(), differences.is_empty()) {
        (false, _) => {
            troubles.into_iter().for_each(report);
            Err(Error::AlreadyReported)
        }
        (true, false) => Ok(CommandStatus(DIFFERENT)),
        (true, true) => Ok(CommandStatus::SUCCESS),
    }
}

fn side(session: &Session, id: TreeId, place: Place) -> Result<Side> {
    let opened = session.tree(id).open_fd(place.path(), libc::O_PATH, 0);
    let root = opened.map_err(|error| Error::of_file("cannot open", place.operand(), &error))?;
    Ok(Side { place, root })
}
