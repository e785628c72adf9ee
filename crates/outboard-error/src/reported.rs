// SPDX-License-Identifier: GPL-2.0-only
//! Reports while work goes on: failures after which it continues, and warnings.

use crate::failure::{ErrorKind, Failure};
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;

/// Something that failed while the rest went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

    /// Adds a report, or counts it.
    pub fn add(&mut self, report: T) {
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

/// The reports of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Failures after which the command went on.
    pub failures: Reports<Reported>,
    /// Notes and warnings.
    pub warnings: Reports<String>,
}

impl Kept {
    /// Adds the reports of another process.
    pub fn add_all(&mut self, other: Kept) {
        self.failures.add_all(other.failures);
        self.warnings.add_all(other.warnings);
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
