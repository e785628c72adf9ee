// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong, in words for people.

use crate::format;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io;

/// Why a command ended without success. Messages name the thing and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Error {
    /// The command line makes no sense.
    Usage(String),
    Failed(String),
    /// The user stopped it.
    Interrupted(String),
    /// It failed, and everything was said already.
    Told,
    /// As `Told`, with an exit code that says more.
    Status(u8),
}

/// A result of this crate and those above it.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A check of a file system could not be made, as fsck(8) reports it.
    const CHECK_FAILED: u8 = 8;
    /// Nobody reads standard output any more: quiet, with the exit code that shells give for SIGPIPE, once all is unmounted.
    pub const READER_GONE: Error = Error::Status(128 + libc::SIGPIPE as u8);

    /// The same error, with more lines about it. Those of an error without a text are told at once.
    pub fn with_note(self, note: &str) -> Self {
        match self {
            Error::Usage(text) => Error::Usage(format!("{text}\n{note}")),
            Error::Failed(text) => Error::Failed(format!("{text}\n{note}")),
            Error::Interrupted(text) => Error::Interrupted(format!("{text}\n{note}")),
            Error::Told | Error::Status(_) => {
                warn(note);
                self
            }
        }
    }

    /// The same error, with the name that the user knows in the place of a private file's path.
    pub fn naming(self, path: &str, shown: &str) -> Self {
        match self {
            Error::Usage(text) => Error::Usage(text.replace(path, shown)),
            Error::Failed(text) => Error::Failed(text.replace(path, shown)),
            Error::Interrupted(text) => Error::Interrupted(text.replace(path, shown)),
            Error::Told | Error::Status(_) => self,
        }
    }

    /// The text for the user, if there is one.
    pub fn message(&self) -> Option<&str> {
        match self {
            Error::Usage(text) | Error::Failed(text) | Error::Interrupted(text) => Some(text),
            Error::Told | Error::Status(_) => None,
        }
    }

    /// Whether the host may be the reason, and not the command line, the user, or what was
    /// compared.
    pub fn may_be_of_the_host(&self) -> bool {
        match self {
            Error::Failed(_) | Error::Told => true,
            Error::Status(code) => *code == Self::CHECK_FAILED,
            Error::Usage(_) | Error::Interrupted(_) => false,
        }
    }

    /// The exit code of a program that ends so.
    pub fn code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Interrupted(_) => signal_code().unwrap_or(130),
            Error::Failed(_) | Error::Told => 1,
            Error::Status(code) => *code,
        }
    }

    /// `what` failed for the reason that `error` gives.
    pub fn failed(what: impl Display, error: &io::Error) -> Self {
        Error::Failed(format!("{what}: {}", reason(error)))
    }
}

/// The exit code of a program that a signal asked to end; `None` if none did.
pub fn signal_code() -> Option<u8> {
    let first = outboard::signals::first()?;
    u8::try_from(128 + first).ok()
}

/// The reason of an error, without the number that Rust adds to it.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => text
            .trim_end_matches(&format!(" (os error {number})"))
            .to_owned(),
        None => text,
    }
}

/// Says something on standard error. Nothing in it reaches a terminal as a control character.
pub fn warn(message: impl Display) {
    eprintln!("outboard: {}", format::message(&message.to_string()));
}

/// Failures that do not end a command, only its success: each is told at once, and the rest goes on.
#[derive(Debug, Default)]
pub struct Failures {
    any: bool,
}

impl Failures {
    /// Reports a failure at once.
    pub fn tell(&mut self, message: impl Display) {
        warn(message);
        self.any = true;
    }

    /// Tells of what failed in a part of a command. What concerns all of it is an error still.
    pub fn take<T>(&mut self, part: Result<T>) -> Result<Option<T>> {
        match part {
            Ok(value) => return Ok(Some(value)),
            Err(Error::Failed(message)) => self.tell(message),
            Err(Error::Told) => self.any = true,
            Err(other) => return Err(other),
        }
        Ok(None)
    }

    /// An error if there was any failure.
    pub fn finish(self) -> Result<()> {
        match self.any {
            true => Err(Error::Told),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_no_numbers() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(reason(&error), "No such file or directory");
        assert_eq!(reason(&io::Error::other("why (x)")), "why (x)");
    }
}
