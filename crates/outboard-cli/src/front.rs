// SPDX-License-Identifier: GPL-2.0-only
//! The program as the front of the engine: its words, its standard error, its progress bars.

use crate::commands::progress::byte_bar;
use crate::{exit_code, hints, reports};
use outboard_error::{Front, Hint, Kept, Reported};
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
