// SPDX-License-Identifier: GPL-2.0-only
//! A comparison of two trees: what is compared, and what its threads share.

use super::difference::Difference;
use super::side::Side;
use crate::hidden::HiddenFinder;
use outboard_error::{Failure, Reported};
use outboard_sandbox::interrupt::Interrupt;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

/// The attributes that a comparison looks at, besides names, types and contents.
#[derive(Clone, Debug, Default)]
pub struct DiffOptions {
    pub modes: bool,
    pub owners: bool,
    pub xattrs: bool,
    /// Times of modification.
    pub times: bool,
    /// Names of files that are left out, with everything below them.
    pub excluded: Vec<OsString>,
}

impl DiffOptions {
    pub(super) fn excludes(&self, name: &[u8]) -> bool {
        self.excluded.iter().any(|found| found.as_bytes() == name)
    }
}

/// Differences and errors so far.
#[derive(Default)]
pub(super) struct Findings {
    differences: Mutex<Vec<Difference>>,
    troubles: Mutex<Vec<Reported>>,
}

impl Findings {
    pub(super) fn differ(&self, difference: Difference) {
        let mut differences = self.differences.lock().expect("no thread panics");
        differences.push(difference);
    }

    /// All of them, in the order of paths; those of one file by what differs.
    pub(super) fn sorted(self) -> (Vec<Difference>, Vec<Reported>) {
        let mut differences = self.differences.into_inner().expect("no thread panics");
        let mut troubles = self.troubles.into_inner().expect("no thread panics");
        differences.sort_by(|a, b| {
            let paths = a.path.cmp(&b.path);
            paths.then_with(|| a.words().cmp(&b.words()))
        });
        troubles.sort_by(|a, b| a.message.cmp(&b.message));
        (differences, troubles)
    }
}

/// Data that the threads share.
pub(super) struct Comparison<'a> {
    pub(super) options: &'a DiffOptions,
    pub(super) sides: &'a [Side; 2],
    pub(super) findings: Findings,
    pub(super) hidden: HiddenFinder,
    pub(super) interrupt: Interrupt,
}

impl Comparison<'_> {
    /// Notes that a file of one tree cannot be compared.
    pub(super) fn trouble(&self, side: usize, path: &[u8], error: &io::Error) {
        let place = self.sides[side].place_of(path);
        let trouble = Failure::of_file("cannot compare", place.operand(), error).into();
        let mut troubles = self.findings.troubles.lock().expect("no thread panics");
        troubles.push(trouble);
    }
}
