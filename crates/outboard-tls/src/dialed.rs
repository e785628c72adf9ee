// SPDX-License-Identifier: MIT
//! A connection, as a program sees it that calls fork(2).

use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

/// A connection to a server.
#[derive(Debug)]
pub struct Dialed {
    /// Its bytes.
    pub stream: UnixStream,
    /// Descriptors of the thread that speaks TLS, which closes them after the stream's end. As long
    /// as a child of fork(2) has them, the connection does not end with this process.
    pub behind: Vec<RawFd>,
}

impl From<UnixStream> for Dialed {
    fn from(stream: UnixStream) -> Self {
        let behind = Vec::new();
        Self { stream, behind }
    }
}
