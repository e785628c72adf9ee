// SPDX-License-Identifier: GPL-2.0-only
//! Why a limit has ended a call.

use libc::c_int;
use std::error::Error;
use std::fmt;
use std::io;

/// Why a call has ended, or was not made: the limit of a [`Cancel`](crate::Cancel) or of a
/// [`Deadline`](crate::Deadline).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// Another thread has cancelled it.
    Cancelled,
    /// The deadline has passed.
    TimedOut,
}

impl Stopped {
    pub(crate) fn errno(self) -> c_int {
        match self {
            Self::Cancelled => libc::ECANCELED,
            Self::TimedOut => libc::ETIMEDOUT,
        }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cancelled => "cancelled",
            Self::TimedOut => "the deadline has passed",
        })
    }
}

impl Error for Stopped {}

impl From<Stopped> for io::Error {
    fn from(stopped: Stopped) -> Self {
        let kind = match stopped {
            // Not `Interrupted`: std repeats calls that fail with that, for ever.
            Stopped::Cancelled => io::ErrorKind::Other,
            Stopped::TimedOut => io::ErrorKind::TimedOut,
        };
        io::Error::new(kind, stopped)
    }
}
