// SPDX-License-Identifier: GPL-2.0-only
//! The names that `cp -v` prints: a line for each file that was copied and each directory that was made.

use outboard::has_no_output;
use outboard_sandbox::format;
use outboard_transfer::report::{NamePrinter, Report};
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

/// Prints names to standard output.
pub struct Names {
    printer: Mutex<Printer>,
    failed: AtomicBool,
}

struct Printer {
    output: BufWriter<Stdout>,
    terminal: bool,
    /// The first error.
    error: Option<io::Error>,
}

impl Printer {
    fn print(&mut self, line: &[u8]) -> io::Result<()> {
        if has_no_output() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        self.output.write_all(line)?;
        match self.terminal {
            true => self.output.flush(),
            false => Ok(()),
        }
    }
}

impl Default for Names {
    fn default() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self {
            printer: Mutex::new(Printer {
                output: BufWriter::with_capacity(1 << 16, stdout),
                terminal,
                error: None,
            }),
            failed: AtomicBool::new(false),
        }
    }
}

impl NamePrinter for Names {
    fn copied(&self, report: &Report, source: &[u8], copy: &[u8]) {
        let mut printer = self.printer.lock().expect("no thread panics");
        if printer.error.is_some() {
            return;
        }
        let shown = |name: &[u8]| format::name(name, printer.terminal);
        let line = [b"'", &*shown(source), b"' -> '", &*shown(copy), b"'\n"].concat();
        let mut printed = Ok(());
        match printer.terminal {
            true => report.suspend(&mut || printed = printer.print(&line)),
            false => printed = printer.print(&line),
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

impl Names {
    /// Prints what is left. Returns the first error.
    pub fn finish(&self) -> io::Result<()> {
        let mut printer = self.printer.lock().expect("no thread panics");
        match printer.error.take() {
            Some(error) => Err(error),
            None => printer.output.flush(),
        }
    }
}
