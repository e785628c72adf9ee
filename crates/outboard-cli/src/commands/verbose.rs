// SPDX-License-Identifier: GPL-2.0-only
//! The names that `cp -v` prints: a line for each file that was copied and each directory that was
//! made.

use crate::format;
use crate::output::{Output, Print};
use crate::record::Bytes;
use outboard_error::{Error, Result};
use outboard_transfer::report::{NamePrinter, Report};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

/// A file that was copied.
#[derive(Serialize)]
struct Copy<'a> {
    #[serde(flatten)]
    source: Bytes<'a>,
    #[serde(flatten)]
    destination: Bytes<'a>,
}

impl Print for Copy<'_> {
    fn print(&self, output: &mut Output) -> Result<()> {
        let shown = |name: &Bytes| format::name(name.as_ref(), output.is_terminal());
        let (source, copy) = (shown(&self.source), shown(&self.destination));
        output.line([b"'", &*source, b"' -> '", &*copy, b"'"].concat())
    }
}

/// Prints names to standard output.
pub struct StdoutNamePrinter<'a> {
    printer: Mutex<Printer<'a>>,
    failed: AtomicBool,
}

struct Printer<'a> {
    output: &'a mut Output,
    /// The first error.
    error: Option<Error>,
}

impl Printer<'_> {
    fn print(&mut self, copy: &Copy) -> Result<()> {
        self.output.item(copy)?;
        if self.output.is_terminal() {
            self.output.flush()
        } else {
            Ok(())
        }
    }
}

impl<'a> StdoutNamePrinter<'a> {
    pub fn new(output: &'a mut Output) -> Self {
        let printer = Printer {
            output,
            error: None,
        };
        Self {
            printer: Mutex::new(printer),
            failed: AtomicBool::new(false),
        }
    }
}

impl NamePrinter for StdoutNamePrinter<'_> {
    fn copied(&self, report: &Report, source: &[u8], copy: &[u8]) {
        let mut printer = self.printer.lock().expect("no thread panics");
        if printer.error.is_some() {
            return;
        }
        let copy = Copy {
            source: Bytes::new("source", source),
            destination: Bytes::new("destination", copy),
        };
        let mut printed = Ok(());
        if printer.output.is_terminal() {
            report.suspend(&mut || printed = printer.print(&copy));
        } else {
            printed = printer.print(&copy);
        }
        if let Err(error) = printed {
            printer.error = Some(error);
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

impl StdoutNamePrinter<'_> {
    /// The first error.
    pub fn finish(&self) -> Result<()> {
        let mut printer = self.printer.lock().expect("no thread panics");
        match printer.error.take() {
            Some(error) => Err(error),
            None => printer.output.flush(),
        }
    }
}
