// SPDX-License-Identifier: GPL-2.0-only
//! Reports on standard error while a command runs: failures after which it goes on, and warnings.
//! They are kept for a program that reads the command's output, if it asks for them.

mod bounded;

use bounded::{admits, FailureReason};
use outboard_error::{format, Kept, Reported};
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard};

/// `None`: no program asks for reports.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<Kept>> {
    KEPT.lock().expect("no thread panics")
}

/// Keeps all reports from now on.
pub fn keep() {
    *kept() = Some(Kept::default());
}

/// Whether reports are kept: then standard output is for a program.
pub fn are_kept() -> bool {
    kept().is_some()
}

/// Returns the reports since [`keep`], and keeps no more.
pub fn take() -> Kept {
    kept().take().unwrap_or_default()
}

/// In a copy of this process: keeps its own reports, if this process keeps any.
pub fn begin_copy() {
    bounded::forget();
    if let Some(kept) = kept().as_mut() {
        *kept = Kept::default();
    }
}

/// Adds the reports that a copy of this process has printed.
pub fn add_of_copy(reports: Kept) {
    if let Some(kept) = kept().as_mut() {
        kept.add_all(reports);
    }
}

/// Prints a failure. [`bounded`] bounds what is printed.
pub fn failure(failure: Reported) {
    if admits(FailureReason::of(&failure)) {
        print(&failure.message);
    }
    if let Some(kept) = kept().as_mut() {
        kept.failures.add(failure);
    }
}

/// Prints a note or a warning.
pub fn warning(message: String) {
    print(&message);
    if let Some(kept) = kept().as_mut() {
        kept.warnings.add(message);
    }
}

/// Prints how many failures of each reason were not printed.
pub fn print_rest() {
    bounded::rest().iter().for_each(|line| print(line));
}

/// Prints a message. No control character reaches a terminal. If the message cannot be printed,
/// because its reader has gone or a disk is full, the command goes on: it may be writing an image.
fn print(message: &str) {
    let line = format!("outboard: {}\n", format::message(message));
    let _ = io::stderr().write_all(line.as_bytes());
}
