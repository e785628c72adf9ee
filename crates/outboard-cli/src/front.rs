// SPDX-License-Identifier: GPL-2.0-only
//! The program as the front of the engine: its words, its standard error, its progress bars.

use crate::commands::progress::byte_bar;
use crate::{exit_code, hints, kernel_warnings, reports};
use outboard::{log_to_stderr, Fd};
use outboard_error::format::plain_line;
use outboard_error::{AtPanic, Front, Hint, Kept, Reported};
use std::io::{self, IsTerminal, Write};

pub struct Program;

impl Front for Program {
    fn words(&self, hint: &Hint) -> Option<String> {
        hints::words(hint)
    }

    fn failure(&self, failure: Reported) {
        reports::failure(failure);
    }

    fn warning(&self, message: String) {
        reports::warning(message);
    }

    fn failure_code(&self) -> u8 {
        exit_code::failure_code()
    }

    /// On standard output, unless a program reads that.
    fn tool_line(&self, line: &str) -> io::Result<()> {
        if reports::are_kept() {
            writeln!(io::stderr(), "{line}")
        } else {
            writeln!(io::stdout(), "{line}")
        }
    }

    fn shows_progress(&self) -> bool {
        io::stderr().is_terminal()
    }

    fn progress(&self, work: &'static str, bytes: u64) -> Box<dyn Fn(u64) + Send> {
        byte_bar(work, bytes)
    }

    fn kernel_line(&self, line: &[u8]) {
        log_to_stderr(line);
    }

    fn kernel_warning(&self, line: &[u8]) {
        kernel_warnings::append(line);
    }

    fn at_panic(&self) -> io::Result<Box<AtPanic>> {
        // The standard library's own standard error has a lock.
        let stderr = Fd::standard(2)?;
        Ok(Box::new(move |text, advice| {
            print_panic(&stderr, text, advice)
        }))
    }

    fn begin_copy(&self) {
        reports::begin_copy();
    }

    fn end_copy(&self) -> Kept {
        reports::print_rest();
        reports::take()
    }

    fn add_of_copy(&self, reports: Kept) {
        reports::add_of_copy(reports);
    }
}

fn print_panic(stderr: &Fd, text: &[u8], advice: &str) {
    // A write error cannot be reported any more.
    let _ = stderr.write_all(b"outboard: kernel panic: ");
    for line in text.split(|&byte| byte == b'\n') {
        let (text, length) = plain_line(line);
        let _ = stderr.write_all(&text[..length]);
    }
    for line in advice.split_inclusive('\n') {
        let _ = stderr.write_all(b"outboard: ");
        let _ = stderr.write_all(line.as_bytes());
    }
}
