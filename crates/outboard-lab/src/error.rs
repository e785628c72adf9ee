// SPDX-License-Identifier: GPL-2.0-only
//! Errors of a lab.

use std::fmt;
use std::io;

/// Why a lab did not run.
#[derive(Debug)]
pub enum Error {
    /// The topology file is wrong. Line 0: the whole file.
    Topology { line: usize, text: String },
    /// A node, or the host, refused something.
    Failed(String),
    /// The user stopped the lab.
    Interrupted,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn topology(line: usize, text: impl Into<String>) -> Self {
        Self::Topology {
            line,
            text: text.into(),
        }
    }

    pub(crate) fn failed(what: impl fmt::Display, error: &io::Error) -> Self {
        Self::Failed(format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topology { line: 0, text } | Self::Failed(text) => formatter.write_str(text),
            Self::Topology { line, text } => write!(formatter, "line {line}: {text}"),
            Self::Interrupted => formatter.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}
