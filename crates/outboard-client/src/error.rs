// SPDX-License-Identifier: MIT
//! Why there is no connection.

use std::{fmt, io};

/// A failure to connect, to fork or to execute: what failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError {
    message: String,
    errno: i32,
    is_final: bool,
}

impl ClientError {
    pub(crate) fn new(errno: i32, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            errno,
            is_final: false,
        }
    }

    /// The server has refused: another attempt would fail, too.
    pub(crate) fn refused(errno: i32, message: impl Into<String>) -> Self {
        Self {
            is_final: true,
            ..Self::new(errno, message)
        }
    }

    pub(crate) fn of_io(what: impl fmt::Display, error: &io::Error) -> Self {
        let (errno, reason) = match (error.raw_os_error(), error.kind()) {
            // Sockets have a time limit, which Linux reports so.
            (Some(libc::EAGAIN), _) => (libc::ETIMEDOUT, "the server does not answer".to_owned()),
            (Some(errno), _) => (errno, error.to_string()),
            (None, io::ErrorKind::UnexpectedEof) => (
                libc::ECONNRESET,
                "the server has closed the connection".to_owned(),
            ),
            (None, _) => (libc::EPROTO, error.to_string()),
        };
        Self::new(errno, format!("{what}: {reason}"))
    }

    pub(crate) fn not_connected(reason: impl fmt::Display) -> Self {
        Self::new(libc::ENOTCONN, format!("there is no connection: {reason}"))
    }

    /// The error number that fits.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    pub(crate) fn is_final(&self) -> bool {
        self.is_final
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClientError {}
