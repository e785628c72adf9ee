// SPDX-License-Identifier: GPL-2.0-only
//! Reports on standard error while a command runs: failures after which it goes on, and warnings.
//! They are kept for a program that reads the command's output, if it asks for them; a copy of this
//! process sends its own home. In calls of the library they go into a list
//! ([`crate::notes`]) instead.

use crate::bounded::{self, FailureReason};
use crate::failure::{ErrorKind, Failure};
use crate::format;
use crate::notes::Notes;
use crate::stderr;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

/// Something that failed while the rest went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The failed action, its file and the reason.
    pub message: String,
    /// The file, as the user would write it.
    pub path: Option<Vec<u8>>,
    /// The number of the system call's error.
    pub errno: Option<i32>,
}

impl Reported {
    fn reason(&self) -> FailureReason {
        FailureReason::new(self.kind, self.errno, self.path.as_deref(), &self.message)
    }
}

impl From<Failure> for Reported {
    fn from(failure: Failure) -> Self {
        Self {
            kind: failure.kind(),
            message: failure.message().to_owned(),
            path: failure
                .path()
                .map(|path| path.as_os_str().as_bytes().to_vec()),
            errno: failure.errno(),
        }
    }
}

impl From<String> for Reported {
    fn from(message: String) -> Self {
        Failure::new(ErrorKind::Other, message).into()
    }
}

/// The reports of one kind.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reports<T> {
    /// The first of them.
    pub first: Vec<T>,
    /// How many came after those.
    pub more: u64,
}

impl<T> Default for Reports<T> {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            more: 0,
        }
    }
}

impl<T> Reports<T> {
    /// Most reports that are kept: a damaged image can cause millions.
    pub const MOST: usize = 1000;

    fn add(&mut self, report: T) {
        if self.first.len() < Self::MOST {
            self.first.push(report);
        } else {
            self.more += 1;
        }
    }

    fn add_all(&mut self, reports: Reports<T>) {
        reports
            .first
            .into_iter()
            .for_each(|report| self.add(report));
        self.more = self.more.saturating_add(reports.more);
    }
}

/// The messages that [`report`] and [`warn`] printed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Failures after which the command went on.
    pub failures: Reports<Reported>,
    /// Notes and warnings.
    pub warnings: Reports<String>,
}

/// `None`: no program asks for them.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// Keeps what [`report`] and [`warn`] print from now on.
pub fn keep_reports() {
    *KEPT.lock().expect("no thread panics") = Some(Kept::default());
}

/// Whether reports are kept: then standard output is for a program.
pub fn are_kept() -> bool {
    KEPT.lock().expect("no thread panics").is_some()
}

/// Returns the reports since [`keep_reports`], and keeps no more.
pub fn take_reports() -> Kept {
    let kept = KEPT.lock().expect("no thread panics").take();
    kept.unwrap_or_default()
}

/// In a copy of this process: keeps its own reports, if this process keeps any.
pub fn begin_copy() {
    bounded::forget();
    if let Some(kept) = KEPT.lock().expect("no thread panics").as_mut() {
        *kept = Kept::default();
    }
}

/// Adds what a copy of this process has printed.
pub fn add_of_copy(reports: Kept) {
    if let Some(kept) = KEPT.lock().expect("no thread panics").as_mut() {
        kept.failures.add_all(reports.failures);
        kept.warnings.add_all(reports.warnings);
    }
}

/// Adds a failure that a copy of this process has printed in other words.
pub fn add_failure_of_copy(failure: Failure) {
    keep(|kept| &mut kept.failures, failure.into());
}

fn keep<T>(list: impl FnOnce(&mut Kept) -> &mut Reports<T>, report: T) {
    if let Some(kept) = KEPT.lock().expect("no thread panics").as_mut() {
        list(kept).add(report);
    }
}

/// Adds a message to the list of a call of the library ([`Notes`]). Returns whether there is one.
fn note(message: &str) -> bool {
    let notes = Notes::current();
    if let Some(notes) = &notes {
        notes.push(format::message(message));
    }
    notes.is_some()
}

/// Reports a note or a warning.
pub fn warn(message: impl Display) {
    let message = message.to_string();
    if !note(&message) {
        stderr::print(&message);
        keep(|kept| &mut kept.warnings, message);
    }
}

/// Reports a failure. The command goes on. The number of printed failures is bounded.
pub fn report(failure: impl Into<Reported>) {
    let failure = failure.into();
    if !note(&failure.message) {
        if bounded::admits(failure.reason()) {
            stderr::print(&failure.message);
        }
        keep(|kept| &mut kept.failures, failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reports_are_kept() {
        let mut reports = Reports::default();
        (0..Reports::<usize>::MOST + 3).for_each(|number| reports.add(number));
        assert_eq!((reports.first.len(), reports.more), (1000, 3));
        assert_eq!(reports.first[0], 0);
        let mut all = Reports::default();
        all.add(7);
        all.add_all(reports);
        assert_eq!((all.first.len(), all.more), (1000, 4));
        assert_eq!(all.first[..2], [7, 0]);
    }
}
