// SPDX-License-Identifier: GPL-2.0-only
//! Failures, which are reported at once, and losses (the file was copied without an attribute),
//! which are counted and reported at the end.

use outboard::{errno, Stopped};
use outboard_error::{report, warn, Error, Failure, Reported, Result};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// An attribute that could not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    Owner,
    Mode,
    Times,
    AccessList,
    Attribute,
    HardLink,
    /// Parts that Linux does not show.
    Hidden,
    Socket,
    /// The copy may mix old and new contents.
    Changed,
}

impl Loss {
    /// The loss of an extended attribute of this name.
    pub fn of_xattr(name: &CStr) -> Self {
        if name.to_bytes().starts_with(b"system.posix_acl") {
            Loss::AccessList
        } else {
            Loss::Attribute
        }
    }

    fn text(self) -> &'static str {
        match self {
            Loss::Owner => "owner or group",
            Loss::Mode => "permissions",
            Loss::Times => "times",
            Loss::AccessList => "access control list",
            Loss::Attribute => "extended attributes",
            Loss::HardLink => "hard link (copied as a file of its own)",
            Loss::Hidden => "parts that Linux does not show",
            Loss::Socket => "sockets, which archives do not have:",
            Loss::Changed => "one state of the contents",
        }
    }

    /// The line about the loss. `names`: the files.
    fn line(self, names: &str) -> String {
        match self {
            Loss::Changed => format!("changed while it was read: {names}"),
            _ => format!("not kept: {} of {names}", self.text()),
        }
    }
}

/// Number of examples of each loss in the report.
const EXAMPLES: usize = 3;

#[derive(Default)]
struct Tally {
    count: u64,
    examples: Vec<String>,
}

/// Shows the user how far a copy is. By itself it shows nothing.
pub trait Progress: Send + Sync {
    /// Sets the total.
    fn expect(&self, _total: u64) {}
    /// Whether the progress is shown on a terminal.
    fn is_shown(&self) -> bool {
        false
    }
    /// Says how much of the whole is done.
    fn reach(&self, _position: u64) {}
    /// Sets the number of files and bytes copied so far. Called for each file.
    fn show(&self, _files: u64, _bytes: u64) {}
    /// Runs something that writes to the terminal.
    fn suspend(&self, write: &mut dyn FnMut());
    /// Ends the display.
    fn finish(&self) {}
}

/// Prints the names of files and of their copies.
pub trait NamePrinter: Sync {
    /// Prints the names of a file that was copied and of its copy.
    fn copied(&self, report: &Report, source: &[u8], copy: &[u8]);
    /// Whether names could not be printed.
    fn failed(&self) -> bool;
}

/// Shows nothing.
struct Silent;

impl Progress for Silent {
    fn suspend(&self, write: &mut dyn FnMut()) {
        write();
    }
}

/// The failures, losses and progress of a copy.
pub struct Report {
    failures: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
    hopeless: AtomicBool,
    full: AtomicBool,
    /// Whether the total is a number of bytes to copy.
    by_bytes: AtomicBool,
    losses: Mutex<BTreeMap<Loss, Tally>>,
    first: OnceLock<Failure>,
    progress: Box<dyn Progress>,
}

impl Default for Report {
    fn default() -> Self {
        Self::new(Box::new(Silent))
    }
}

/// Errors of the destination that every other file would have, too.
fn is_hopeless(error: &io::Error) -> bool {
    matches!(
        errno(error),
        Some(libc::ENOSPC | libc::EDQUOT | libc::EROFS | libc::ENODEV | libc::ENXIO)
    )
}

impl Report {
    /// A report of a copy that has not begun.
    pub fn new(progress: Box<dyn Progress>) -> Self {
        Self {
            failures: AtomicU64::default(),
            files: AtomicU64::default(),
            bytes: AtomicU64::default(),
            hopeless: AtomicBool::default(),
            full: AtomicBool::default(),
            by_bytes: AtomicBool::default(),
            losses: Mutex::default(),
            first: OnceLock::new(),
            progress,
        }
    }

    /// Reports a file that could not be copied.
    pub fn fail(&self, failure: impl Into<Reported>) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let failure = failure.into();
        self.progress.suspend(&mut || report(failure.clone()));
    }

    /// Whether the destination was found to be too small.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// One of the things that were lost, in words; `None`: nothing was lost.
    pub fn first_loss(&self) -> Option<&'static str> {
        let losses = self.losses.lock().expect("no thread panics with it");
        losses.keys().next().map(|loss| loss.text())
    }

    /// Ends the copy because the destination is full, without a message.
    pub fn note_full(&self) {
        self.full.store(true, Ordering::Relaxed);
        self.hopeless.store(true, Ordering::Relaxed);
    }

    /// Tells of an error that ends a part of the copy. One that ends all of it comes back.
    pub fn fail_known(&self, error: Error) -> Result<()> {
        let failure = error.into_failure()?;
        let _ = self.first.set(failure.clone());
        self.fail(failure);
        Ok(())
    }

    /// The first failure with a kind or an errno.
    pub fn first_failure(&self) -> Option<&Failure> {
        self.first.get()
    }

    /// Whether a limit of the caller has ended a call: that ends the copy, and is no failure of a
    /// file.
    fn is_stopped_by(&self, error: &io::Error) -> bool {
        let is_stopped = Stopped::of(error).is_some();
        if is_stopped {
            self.give_up();
        }
        is_stopped
    }

    /// Reports an error on reading. `path`: the file, as the user would write it.
    pub fn fail_reading(&self, what: &str, path: Vec<u8>, error: &io::Error) {
        if self.is_stopped_by(error) {
            return;
        }
        let failure = Failure::of_file(what, path, error);
        let _ = self.first.set(failure.clone());
        self.fail(failure);
    }

    /// Ends the copy.
    pub fn give_up(&self) {
        self.hopeless.store(true, Ordering::Relaxed);
    }

    /// Reports an error on writing. The whole copy ends if every other file would have it, too.
    /// `path`: the file, as the user would write it.
    pub fn fail_writing(&self, what: &str, path: Vec<u8>, error: &io::Error) {
        if self.is_stopped_by(error) {
            return;
        }
        if is_hopeless(error) && self.hopeless.swap(true, Ordering::Relaxed) {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let failure = Failure::of_file(what, path, error);
        let _ = self.first.set(failure.clone());
        self.fail(failure);
    }

    /// Whether every other file would fail, too.
    pub fn is_hopeless(&self) -> bool {
        self.hopeless.load(Ordering::Relaxed)
    }

    /// Notes that a file was copied without something.
    pub fn lose(&self, loss: Loss, path: impl FnOnce() -> String) {
        let mut losses = self.losses.lock().expect("no thread panics");
        let tally = losses.entry(loss).or_default();
        tally.count += 1;
        if tally.examples.len() < EXAMPLES {
            tally.examples.push(path());
        }
    }

    /// Counts a file that was copied.
    pub fn count_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.show();
    }

    /// Counts bytes that were copied.
    pub fn count_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.show();
    }

    /// Sets the total. From then on [`Report::reach`] sets the progress.
    pub fn expect(&self, total: u64) {
        self.progress.expect(total);
    }

    /// Sets the number of bytes to copy. From then on the copied bytes are the progress.
    pub fn expect_bytes(&self, total: u64) {
        self.by_bytes.store(true, Ordering::Relaxed);
        self.progress.expect(total);
    }

    /// Whether the progress is visible to a user.
    pub fn is_shown(&self) -> bool {
        self.progress.is_shown()
    }

    /// Runs something that writes to the terminal.
    pub fn suspend(&self, write: &mut dyn FnMut()) {
        self.progress.suspend(write);
    }

    /// Says how much of the whole is done.
    pub fn reach(&self, position: u64) {
        self.progress.reach(position);
    }

    fn show(&self) {
        let files = self.files.load(Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed);
        if self.by_bytes.load(Ordering::Relaxed) {
            self.progress.reach(bytes);
        }
        self.progress.show(files, bytes);
    }

    /// How many files were copied.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// How many bytes were copied.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many files could not be copied.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Whether something could not be kept.
    pub fn has_losses(&self) -> bool {
        !self.losses.lock().expect("no thread panics").is_empty()
    }

    /// Reports the losses.
    pub fn print_losses(&self) {
        self.progress.finish();
        for (loss, tally) in self.losses.lock().expect("no thread panics").iter() {
            let more = tally.count - tally.examples.len() as u64;
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let names = format!("{}{more}", tally.examples.join(", "));
            warn(loss.line(&names));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_counted_with_examples() {
        let report = Report::default();
        for index in 0..10 {
            report.lose(Loss::Owner, || format!("file{index}"));
        }
        let losses = report.losses.lock().unwrap();
        let tally = &losses[&Loss::Owner];
        assert_eq!(tally.count, 10);
        assert_eq!(tally.examples, ["file0", "file1", "file2"]);
        assert_eq!(report.failures(), 0);
    }

    #[test]
    fn a_full_disk_is_told_once() {
        let report = Report::default();
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        report.fail_writing("cannot write", b"a".to_vec(), &full);
        report.fail_writing("cannot write", b"b".to_vec(), &full);
        assert!(report.is_hopeless());
        assert_eq!(report.failures(), 2);
    }
}
