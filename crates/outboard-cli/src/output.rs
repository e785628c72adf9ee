// SPDX-License-Identifier: GPL-2.0-only
//! Standard output: text for people, or JSON for programs.

mod json;

use crate::exit_code::CommandStatus;
use crate::reports;
use json::Json;
pub use json::JsonLayout;
use outboard::has_no_output;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::stream_output::StreamOutput;
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, Write};

/// Buffered standard output whose errors become the command's.
pub struct Output {
    writer: BufWriter<StreamOutput>,
    interrupt: Interrupt,
    terminal: bool,
    /// `None`: the output is text.
    json: Option<Json>,
}

/// Something that a command prints: `Serialize` is its JSON, `print` writes its text.
pub trait Print: Serialize {
    fn print(&self, output: &mut Output) -> Result<()>;
}

pub fn check(result: io::Result<()>) -> Result<()> {
    result.map_err(|error| Error::of_output("standard output", &error))
}

/// An error if standard output was closed when the program was started.
pub fn check_open() -> Result<()> {
    if has_no_output() {
        check(Err(io::Error::from_raw_os_error(libc::EBADF)))
    } else {
        Ok(())
    }
}

/// Writes a whole text to standard output.
pub fn print_all(text: &[u8]) -> Result<()> {
    let mut output = Output::new()?;
    output.bytes(text)?;
    output.flush()
}

impl Output {
    /// Text.
    pub fn new() -> Result<Self> {
        let interrupt = Interrupt::if_guarded();
        let stdout = StreamOutput::standard(&interrupt)?;
        Ok(Self {
            writer: BufWriter::with_capacity(1 << 16, stdout),
            interrupt,
            terminal: io::stdout().is_terminal(),
            json: None,
        })
    }

    /// JSON. `command`: its name, if the command line names one.
    pub fn json(command: Option<&'static str>, layout: JsonLayout) -> Result<Self> {
        reports::keep();
        Ok(Self {
            json: Some(Json::new(command, layout)),
            ..Self::new()?
        })
    }

    pub fn is_json(&self) -> bool {
        self.json.is_some()
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Text from an image, as [`crate::format::name`] has it.
    pub fn text(&self, text: &str) -> String {
        if self.terminal {
            escaped(text.as_bytes())
        } else {
            text.to_owned()
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        check_open()?;
        let written = self.writer.write_all(bytes);
        self.check(written)
    }

    pub fn line(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        self.bytes(line.as_ref())?;
        self.bytes(b"\n")
    }

    /// Prints one of many items.
    pub fn item(&mut self, item: &impl Print) -> Result<()> {
        if self.is_json() {
            self.json_item(item)
        } else {
            item.print(self)
        }
    }

    /// Prints an item as JSON, if that is the output's form. The command prints its text.
    pub fn json_item(&mut self, item: &impl Serialize) -> Result<()> {
        let Some(json) = &mut self.json else {
            return Ok(());
        };
        let lines = json.item(item)?;
        lines.iter().try_for_each(|line| self.line(line))
    }

    /// Prints what a command found out: as a member of this name in JSON.
    pub fn member(&mut self, name: &'static str, value: &impl Print) -> Result<()> {
        if self.is_json() {
            self.json_member(name, value)
        } else {
            value.print(self)
        }
    }

    /// Adds a member to JSON, if that is the output's form.
    pub fn json_member(&mut self, name: &'static str, value: &impl Serialize) -> Result<()> {
        match &mut self.json {
            Some(json) => json.member(name, value),
            None => Ok(()),
        }
    }

    pub fn flush(&mut self) -> Result<()> {
        let written = self.writer.flush();
        self.check(written)
    }

    /// The error of a write. One that waited for the reader ends with an interrupt.
    fn check(&self, written: io::Result<()>) -> Result<()> {
        match written {
            Ok(()) => Ok(()),
            failed => self.interrupt.check().and_then(|()| check(failed)),
        }
    }

    /// Ends the output of a command that ended with `result`. Returns `result`, or an error of the
    /// output.
    pub fn end(mut self, result: Result<CommandStatus>) -> Result<CommandStatus> {
        let ended = match self.json.take() {
            Some(json) => json.end(&result).and_then(|lines| {
                let mut lines = lines.iter();
                lines.try_for_each(|line| self.line(line))
            }),
            None => Ok(()),
        };
        let ended = ended.and_then(|()| self.flush());
        let status = result?;
        ended.map(|()| status)
    }
}
