// SPDX-License-Identifier: GPL-2.0-only
//! The streams outside of the kernel to which a program's are connected: those of this process.
//! Another command's are in `connection`, and those of a run in the background are none and a log.

use super::log_output::LogOutput;
use crate::stream_output::{outputs_are_one, StreamOutput};
use outboard::{Fd, RawTerminal, TerminalSettings, WindowSize};
use outboard_sandbox::interrupt::Interrupt;
use std::io::{self, IsTerminal, Read, Write};

/// The streams outside.
pub(super) struct Outside {
    pub(super) input: Box<dyn Read + Send>,
    /// Standard output and standard error. The first alone, unless the errors are
    /// [apart](OwnStreams::has_error_apart).
    pub(super) outputs: [Box<dyn Write + Send>; 2],
}

/// What a program's terminal takes from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutsideTerminal {
    /// Somebody sits at a terminal: when it goes away, so does the program's.
    pub(super) is_shown: bool,
    pub(super) settings: Option<TerminalSettings>,
    pub(super) size: Option<WindowSize>,
}

/// The streams of this process.
pub(super) struct OwnStreams {
    /// Standard input and output are a terminal.
    is_terminal: bool,
    /// There is no input, and a log gets all output.
    is_in_background: bool,
}

impl OwnStreams {
    pub(super) fn new(is_in_background: bool) -> Self {
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        Self {
            is_terminal: is_terminal && !is_in_background,
            is_in_background,
        }
    }

    /// The terminal that the program gets. `wanted`: also if this process has none.
    pub(super) fn terminal(&self, wanted: bool) -> io::Result<Option<OutsideTerminal>> {
        if !self.is_terminal {
            return Ok(wanted.then(OutsideTerminal::default));
        }
        Ok(Some(OutsideTerminal {
            is_shown: true,
            settings: Some(Fd::standard(0)?.terminal_settings()?),
            size: self.size(),
        }))
    }

    /// Whether the program's errors are apart from its output. `has_terminal`: it has one.
    pub(super) fn has_error_apart(&self, has_terminal: bool) -> io::Result<bool> {
        match (self.is_terminal, has_terminal) {
            (true, _) => Ok(!io::stderr().is_terminal()),
            (false, true) => Ok(false),
            (false, false) => Ok(!outputs_are_one()?),
        }
    }

    /// The size of the terminal, if there is one.
    pub(super) fn size(&self) -> Option<WindowSize> {
        let size = || Fd::standard(0).and_then(|own| own.window_size()).ok();
        self.is_terminal.then(size).flatten()
    }

    /// From now on, the terminal passes all bytes as they are, until this is dropped.
    pub(super) fn make_raw(&self) -> io::Result<Option<RawTerminal>> {
        self.is_terminal.then(RawTerminal::new).transpose()
    }

    /// `unasked` ends outputs that nobody reads.
    pub(super) fn open(&self, unasked: &Interrupt) -> io::Result<Outside> {
        if self.is_in_background {
            return Ok(Outside {
                input: Box::new(io::empty()),
                outputs: [Box::new(LogOutput::open()?), Box::new(LogOutput::open()?)],
            });
        }
        let output = |number| StreamOutput::new(Fd::standard(number)?, unasked);
        Ok(Outside {
            input: Box::new(OwnInput(Fd::standard(0)?)),
            outputs: [Box::new(output(1)?), Box::new(output(2)?)],
        })
    }
}

/// Standard input, as it is: nothing but its end ends a read.
struct OwnInput(Fd);

impl Read for OwnInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
