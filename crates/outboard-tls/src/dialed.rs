// SPDX-License-Identifier: MIT
//! A connection, as a program sees it that calls fork(2).

use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

/// A connection to a server, or of one.
#[derive(Debug)]
pub struct Dialed {
    /// Its bytes.
    pub stream: UnixStream,
    /// Descriptors of the thread that speaks TLS, which closes them after the stream's end. As long
    /// as a child of fork(2) has them, the connection does not end with this process.
    pub behind: Vec<RawFd>,
    /// Why TLS has ended the connection, once it has.
    pub failure: Arc<OnceLock<String>>,
}

impl From<UnixStream> for Dialed {
    fn from(stream: UnixStream) -> Self {
        Self {
            stream,
            behind: Vec::new(),
            failure: Arc::default(),
        }
    }
}
