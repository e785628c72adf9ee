// SPDX-License-Identifier: GPL-2.0-only
//! Standard output.

use outboard::has_no_output;
use outboard_sandbox::error::{Error, Result};
use outboard_sandbox::format;
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Buffered standard output whose errors become the command's.
pub struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

/// How far the writing of a JSON array is.
#[derive(Debug, Default)]
pub struct JsonList {
    started: bool,
}

pub fn check(result: io::Result<()>) -> Result<()> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::READER_GONE,
        _ => Error::failed("cannot write to standard output", &error),
    })
}

/// An error if standard output was closed when the program was started.
pub fn check_open() -> Result<()> {
    match has_no_output() {
        true => check(Err(io::Error::from_raw_os_error(libc::EBADF))),
        false => Ok(()),
    }
}

fn no_json(error: serde_json::Error) -> Error {
    Error::Failed(format!("cannot make JSON: {error}"))
}

/// JSON text whose strings also have escapes for U+007F to U+009F, which terminals may obey.
fn without_controls(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}' => text.push_str(&format!("\\u{:04x}", character as u32)),
            other => text.push(other),
        }
    }
    text
}

impl Output {
    pub fn new() -> Self {
        let stdout = io::stdout().lock();
        let terminal = stdout.is_terminal();
        Self {
            writer: BufWriter::with_capacity(1 << 16, stdout),
            terminal,
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Text from an image, as [`format::name`] has it.
    pub fn text(&self, text: &str) -> String {
        match self.terminal {
            true => format::escaped(text.as_bytes()),
            false => text.to_owned(),
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        check_open()?;
        check(self.writer.write_all(bytes))
    }

    pub fn line(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        self.bytes(line.as_ref())?;
        self.bytes(b"\n")
    }

    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(no_json)?;
        self.line(without_controls(&text))
    }

    /// A JSON value in one line.
    pub fn json_text(&self, value: &impl Serialize) -> Result<String> {
        let text = serde_json::to_string(value).map_err(no_json)?;
        Ok(without_controls(&text))
    }

    /// An item of a JSON array of which not all is in memory at once.
    pub fn json_item(&mut self, list: &mut JsonList, value: &impl Serialize) -> Result<()> {
        let start: &[u8] = if list.started { b",\n" } else { b"[\n" };
        list.started = true;
        self.bytes(start)?;
        let text = self.json_text(value)?;
        self.bytes(text.as_bytes())
    }

    /// The end of a JSON array.
    pub fn json_end(&mut self, list: JsonList) -> Result<()> {
        self.line(if list.started { "\n]" } else { "[]" })
    }

    pub fn finish(mut self) -> Result<()> {
        check(self.writer.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_control_characters() {
        assert_eq!(without_controls("\"a\u{9b}\u{e9}\""), "\"a\\u009b\u{e9}\"");
    }
}
