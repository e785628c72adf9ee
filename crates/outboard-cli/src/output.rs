// SPDX-License-Identifier: GPL-2.0-only
//! Standard output.

use crate::error::{Error, Result};
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Buffered standard output whose errors become the command's. A reader that
/// goes away is told by the exit code alone.
pub struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

fn check(result: io::Result<()>) -> Result<()> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::Told,
        _ => Error::failed("cannot write to standard output", &error),
    })
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

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        check(self.writer.write_all(bytes))
    }

    pub fn line(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        self.bytes(line.as_ref())?;
        self.bytes(b"\n")
    }

    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec_pretty(value)
            .map_err(|error| Error::Failed(format!("cannot make JSON: {error}")))?;
        self.line(text)
    }

    pub fn finish(mut self) -> Result<()> {
        check(self.writer.flush())
    }
}
