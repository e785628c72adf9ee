// SPDX-License-Identifier: GPL-2.0-only
//! Why the metadata of an image cannot be used.

use crate::source::{watched, Source, Watched};
use std::fmt::{self, Display, Formatter};
use std::io;

/// EIO.
const IO_ERROR: i32 = 5;

/// A reason, as a text that continues "the image, but ...".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The metadata contradict themselves, or a part of the image is missing.
    Damaged(String),
    /// The image may be good: this program cannot use its format.
    Unsupported(String),
    /// The metadata could not be read. The errno of the failed read.
    Unreadable(i32),
}

impl Fault {
    pub(crate) fn damaged(text: impl Into<String>) -> Self {
        Self::Damaged(text.into())
    }

    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self::Unsupported(text.into())
    }
}

/// Runs a parser, in which a failed read is the fault.
pub(crate) fn unless_unreadable<S: Source + ?Sized, T>(
    source: &S,
    parse: impl FnOnce(&Watched<S>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    watched(source, parse).unwrap_or_else(|error| {
        let errno = error.raw_os_error().unwrap_or(IO_ERROR);
        Err(Fault::Unreadable(errno))
    })
}

impl Display for Fault {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        match self {
            Self::Damaged(text) | Self::Unsupported(text) => formatter.write_str(text),
            Self::Unreadable(errno) => io::Error::from_raw_os_error(*errno).fmt(formatter),
        }
    }
}
