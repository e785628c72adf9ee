// SPDX-License-Identifier: GPL-2.0-only
//! Standard input. The process on the other end of a pipe may write nothing for hours. A signal
//! restarts read(2), so a program that polls an [`Interrupt`] polls it here too.

use outboard::Fd;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use std::io::{self, Read};
use std::os::fd::AsFd;

/// Milliseconds until a signal is noticed that comes just before the wait.
const PATIENCE: i32 = 100;

/// Standard input, not locked: commands of a script may read it as well.
pub struct StandardInput {
    fd: Fd,
    interrupt: Interrupt,
}

impl StandardInput {
    /// Opens standard input. `interrupt` ends a read that waits.
    pub fn open(interrupt: &Interrupt) -> Result<Self> {
        Self::of_file(&io::stdin(), interrupt)
            .map_err(|error| Error::failed("cannot use standard input", &error))
    }

    /// Reads from a terminal in place of standard input.
    pub fn of_file(file: &impl AsFd, interrupt: &Interrupt) -> io::Result<Self> {
        Ok(Self {
            fd: Fd::from(file.as_fd().try_clone_to_owned()?),
            interrupt: interrupt.clone(),
        })
    }

    /// For commands that may be a line of a script, where a signal only sets a flag.
    pub fn of_a_command() -> Result<Self> {
        Self::open(&Interrupt::if_polled())
    }
}

impl Read for StandardInput {
    /// Fails if the user wants to stop; [`Interrupt::check`] has the error to report then.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.interrupt.asked() {
            if self.fd.wait_to_read(PATIENCE)? {
                return self.fd.read(buffer);
            }
        }
        // Not ErrorKind::Interrupted, because readers try again after that.
        Err(io::Error::other("interrupted"))
    }
}
