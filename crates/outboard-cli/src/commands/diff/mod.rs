// SPDX-License-Identifier: GPL-2.0-only
//! `outboard diff`: compares two trees, of images or of the host.
//!
//! One thread goes through both trees side by side and compares what is known of each pair of files
//! ([`walk`]); others compare contents ([`contents`]). Differences are collected, and printed in
//! the order of paths.

mod contents;
mod difference;
mod walk;

use crate::output::Output;
use clap::{Args, ValueEnum};
use difference::{Difference, Line};
use outboard::walk::Start;
use outboard::{Fd, System};
use outboard_error::{report, Error, Failure, Reported, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_transfer::hidden::HiddenFinder;
use outboard_volume::access::uses;
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, OnceLock};

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
    places: OnceLock<[Place; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ignored {
    Modes,
    Owners,
    Xattrs,
}

/// Differences and errors so far.
#[derive(Default)]
struct Findings {
    differences: Mutex<Vec<Difference>>,
    troubles: Mutex<Vec<Reported>>,
}

impl Findings {
    fn differ(&self, difference: Difference) {
        let mut differences = self.differences.lock().expect("no thread panics");
        differences.push(difference);
    }
}

/// One of the two trees.
struct Side {
    place: Place,
    root: Fd,
}

impl Side {
    fn place_of(&self, path: &[u8]) -> Place {
        match path {
            b"" => self.place.clone(),
            path => self.place.below(path),
        }
    }

    /// Where the walk through the tree begins.
    fn start(&self) -> io::Result<Start> {
        let kind = self.root.stat()?.st_mode & libc::S_IFMT;
        Ok(Start {
            directory: Arc::new(self.root.duplicate()?),
            name: CString::default(),
            kind,
        })
    }
}

/// Data that the threads share.
struct Comparison<'a> {
    options: &'a DiffArgs,
    sides: [Side; 2],
    findings: Findings,
    hidden: HiddenFinder,
    interrupt: Interrupt,
}

impl Comparison<'_> {
    /// Notes that a file of one tree cannot be compared.
    fn trouble(&self, side: usize, path: &[u8], error: &io::Error) {
        let place = self.sides[side].place_of(path);
        let trouble = Failure::of_file("cannot compare", place.operand(), error).into();
        let mut troubles = self.findings.troubles.lock().expect("no thread panics");
        troubles.push(trouble);
    }
}

impl DiffArgs {
    fn places(&self) -> &[Place; 2] {
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
}

pub fn run(options: &DiffArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let interrupt = session.catch_interrupts();
    let _ = System::Host.raise_file_limit(1 << 20);
    let [first, second] = options.places().clone();
    let left = session.open(&first, false)?;
    let right = session.open(&second, false)?;
    let comparison = Comparison {
        options,
        sides: [side(session, left, first)?, side(session, right, second)?],
        findings: Findings::default(),
        hidden: HiddenFinder::default(),
        interrupt,
    };
    walk::run(&comparison, session.vcpus());
    if comparison.interrupt.asked() {
        return Err(Error::Interrupted(
            "interrupted: not all was compared".to_owned(),
        ));
    }
    tell(comparison, output)
}

fn side(session: &Session, id: TreeId, place: Place) -> Result<Side> {
    let opened = session.tree(id).open_fd(place.path(), libc::O_PATH, 0);
    let root = opened.map_err(|error| Error::of_file("cannot open", place.operand(), &error))?;
    Ok(Side { place, root })
}

fn tell(comparison: Comparison, output: &mut Output) -> Result<()> {
    let Comparison {
        sides, findings, ..
    } = comparison;
    let mut differences = findings.differences.into_inner().expect("no thread panics");
    let mut troubles = findings.troubles.into_inner().expect("no thread panics");
    differences.sort_by(|a, b| {
        let paths = a.path.cmp(&b.path);
        paths.then_with(|| a.words().cmp(&b.words()))
    });
    troubles.sort_by(|a, b| a.message.cmp(&b.message));
    let same = differences.is_empty();
    for difference in &differences {
        let sides = &sides;
        output.item(&Line { difference, sides })?;
    }
    output.flush()?;
    match (troubles.is_empty(), same) {
        (false, _) => {
            troubles.into_iter().for_each(report);
            Err(Error::Told)
        }
        (true, false) => Err(Error::Status(DIFFERENT)),
        (true, true) => Ok(()),
    }
}

fn is_excluded(options: &DiffArgs, name: &[u8]) -> bool {
    options.exclude.iter().any(|found| found.as_bytes() == name)
}
