// SPDX-License-Identifier: GPL-2.0-only
//! `outboard diff`: compares two trees, of images or of the host.
//!
//! One thread goes through both trees side by side and compares what is known of each pair of files
//! ([`walk`]); others compare contents ([`contents`]). What differs is collected, and told in the order of paths.

mod contents;
mod walk;

use crate::commands::uses;
use crate::output::Output;
use clap::{Args, ValueEnum};
use outboard::{Fd, System};
use outboard_sandbox::error::{reason, warn, Error, Result};
use outboard_sandbox::format::{escaped, name};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use serde::Serialize;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

/// Compare two trees of files: names, types, modes, owners, attributes, contents
///
/// One line for each difference; a directory that only one tree has is one line. Exit code 0: the
/// same, 1: they differ, 2: something could not be compared.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  outboard diff old.img:/ new.img:/\n  outboard diff --times rootfs disk.img@1:/\n  outboard diff --ignore owners,xattrs -x lost+found disk.img:/ rootfs"
)]
pub struct Diff {
    /// The first tree: IMAGE:/PATH, IMAGE@N:/PATH, or a path of the host
    #[arg(value_name = "A:/")]
    pub left: OsString,
    /// The second tree
    #[arg(value_name = "B:/")]
    pub right: OsString,
    /// Compare times of modification too
    #[arg(long)]
    pub times: bool,
    /// Do not compare these
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    pub ignore: Vec<Ignored>,
    /// Leave out files of this name, with all below them
    #[arg(short = 'x', long, value_name = "NAME")]
    pub exclude: Vec<OsString>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ignored {
    Modes,
    Owners,
    Xattrs,
}

/// One difference.
#[derive(Debug)]
struct Difference {
    /// Relative to the two trees; empty: they themselves.
    path: Vec<u8>,
    /// "mode", "owner", "contents"...; "missing": only one tree has the file.
    what: String,
    left: Option<String>,
    right: Option<String>,
}

#[derive(Serialize)]
struct Record<'a> {
    path: String,
    /// Only for a path that is not UTF-8, which `path` then shows with replacements.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<&'a [u8]>,
    what: &'a str,
    left: Option<&'a str>,
    right: Option<&'a str>,
}

/// What has been found so far.
#[derive(Default)]
struct Findings {
    differences: Mutex<Vec<Difference>>,
    troubles: Mutex<Vec<String>>,
}

impl Findings {
    fn differ(&self, difference: Difference) {
        let mut differences = self.differences.lock().expect("no thread panics");
        differences.push(difference);
    }

    fn trouble(&self, side: &Side, path: &[u8], error: &io::Error) {
        let shown = side.shown(path);
        let text = format!("cannot compare {shown}: {}", reason(error));
        self.troubles.lock().expect("no thread panics").push(text);
    }
}

/// One of the two trees.
struct Side {
    place: Place,
    root: Fd,
}

impl Side {
    fn shown(&self, path: &[u8]) -> String {
        match path {
            b"" => self.place.shown(),
            path => self.place.below(path).shown(),
        }
    }
}

/// What the threads share.
struct Comparison<'a> {
    options: &'a Diff,
    sides: [Side; 2],
    findings: Findings,
    interrupt: Interrupt,
}

impl Diff {
    pub fn host_access(&self) -> HostAccess {
        let mut access = uses(&Place::find(&self.left), false);
        access.add(uses(&Place::find(&self.right), false));
        access.keeps_attributes = true;
        access
    }
}

pub fn run(options: &Diff, session: &mut Session) -> Result<()> {
    // What ends without a comparison is trouble, whatever else it is.
    match compare(options, session) {
        Err(error @ (Error::Failed(_) | Error::Known(_))) => {
            warn(error.into_failure_text()?);
            Err(Error::Status(2))
        }
        other => other,
    }
}

fn compare(options: &Diff, session: &mut Session) -> Result<()> {
    let interrupt = session.catch_interrupts();
    let _ = System::Host.raise_file_limit(1 << 20);
    let places = [Place::find(&options.left), Place::find(&options.right)];
    let left = session.open(&places[0], false)?;
    let right = session.open(&places[1], false)?;
    let [first, second] = places;
    let comparison = Comparison {
        options,
        sides: [side(session, left, first)?, side(session, right, second)?],
        findings: Findings::default(),
        interrupt,
    };
    walk::run(&comparison, session.vcpus());
    if comparison.interrupt.asked() {
        return Err(Error::Interrupted(
            "interrupted: not all was compared".to_owned(),
        ));
    }
    tell(comparison)
}

fn side(session: &Session, id: TreeId, place: Place) -> Result<Side> {
    let opened = session.tree(id).open_fd(place.path(), libc::O_PATH, 0);
    let root =
        opened.map_err(|error| Error::failed(format!("cannot open {}", place.shown()), &error))?;
    Ok(Side { place, root })
}

fn tell(comparison: Comparison) -> Result<()> {
    let Comparison {
        options,
        sides,
        findings,
        ..
    } = comparison;
    let mut differences = findings.differences.into_inner().expect("no thread panics");
    let mut troubles = findings.troubles.into_inner().expect("no thread panics");
    differences.sort_by(|a, b| (&a.path, &a.what).cmp(&(&b.path, &b.what)));
    troubles.sort();
    let mut output = Output::new();
    if options.json {
        let records: Vec<Record> = differences.iter().map(record).collect();
        output.json(&records)?;
    } else {
        for difference in &differences {
            output.line(line(difference, &sides, output.is_terminal()))?;
        }
    }
    output.finish()?;
    troubles.iter().for_each(warn);
    match (troubles.is_empty(), differences.is_empty()) {
        (false, _) => Err(Error::Status(2)),
        (true, false) => Err(Error::Status(1)),
        (true, true) => Ok(()),
    }
}

fn record(difference: &Difference) -> Record<'_> {
    let path = &difference.path;
    Record {
        path: String::from_utf8_lossy(path).into_owned(),
        path_bytes: std::str::from_utf8(path).is_err().then_some(path),
        what: &difference.what,
        left: difference.left.as_deref(),
        right: difference.right.as_deref(),
    }
}

/// As `diff` says it: "Only in A:/etc: hosts"; else "etc/hosts: mode: 0644 and 0600".
fn line(difference: &Difference, sides: &[Side; 2], terminal: bool) -> Vec<u8> {
    let path = &difference.path;
    let mut line = Vec::new();
    if difference.what == "missing" {
        let side = &sides[usize::from(difference.left.is_none())];
        let (directory, file) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&path[..0], path.as_slice()),
        };
        let place = match directory {
            b"" => side.place.operand(),
            directory => side.place.below(directory).operand(),
        };
        line.extend(b"Only in ");
        line.extend(name(&place, terminal));
        line.extend(b": ");
        line.extend(name(file, terminal));
        return line;
    }
    let path = if path.is_empty() {
        b".".as_slice()
    } else {
        path
    };
    line.extend(name(path, terminal));
    line.extend(format!(": {}", difference.what).bytes());
    if let (Some(left), Some(right)) = (&difference.left, &difference.right) {
        line.extend(format!(": {left} and {right}").bytes());
    }
    line
}

/// A value as it stands in a line.
fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", escaped(bytes))
}

fn is_excluded(options: &Diff, name: &[u8]) -> bool {
    options.exclude.iter().any(|found| found.as_bytes() == name)
}
