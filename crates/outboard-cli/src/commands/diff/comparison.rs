// SPDX-License-Identifier: GPL-2.0-only
//! A comparison of two trees: the command's options, and what its threads share.

use super::difference::Difference;
use super::side::Side;
use clap::{Args, ValueEnum};
use outboard_error::{Failure, Reported};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_transfer::hidden::HiddenFinder;
use outboard_volume::access::uses;
use outboard_volume::address::Place;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, OnceLock};

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

/// Differences and errors so far.
#[derive(Default)]
pub struct Findings {
    pub differences: Mutex<Vec<Difference>>,
    pub troubles: Mutex<Vec<Reported>>,
}

impl Findings {
    pub fn differ(&self, difference: Difference) {
        let mut differences = self.differences.lock().expect("no thread panics");
        differences.push(difference);
    }
}

/// Data that the threads share.
pub struct Comparison<'a> {
    pub options: &'a DiffArgs,
    pub sides: [Side; 2],
    pub findings: Findings,
    pub hidden: HiddenFinder,
    pub interrupt: Interrupt,
}

impl Comparison<'_> {
    /// Notes that a file of one tree cannot be compared.
    pub fn trouble(&self, side: usize, path: &[u8], error: &io::Error) {
        let place = self.sides[side].place_of(path);
        let trouble = Failure::of_file("cannot compare", place.operand(), error).into();
        let mut troubles = self.findings.troubles.lock().expect("no thread panics");
        troubles.push(trouble);
    }
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
}

pub fn is_excluded(options: &DiffArgs, name: &[u8]) -> bool {
    options.exclude.iter().any(|found| found.as_bytes() == name)
}
