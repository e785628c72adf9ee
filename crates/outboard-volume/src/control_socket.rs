// SPDX-License-Identifier: GPL-2.0-only
//! The control socket of a run in the background, by which other commands reach it. It listens
//! before the sandbox closes, and is this process's standard input.

use outboard::{accept, receive_fd};
use outboard_error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;

/// What the command has sent that has started this run: it is the first to connect.
pub struct ControlSocket {
    pub(crate) starter: UnixStream,
    /// Gets the exit code.
    pub(crate) record: File,
}

impl ControlSocket {
    /// Takes standard input as the socket. To be called before the sandbox closes.
    pub fn open() -> Result<Self> {
        let opened = || {
            let starter = Self::accept()?;
            let record = File::from(receive_fd(&starter)?);
            Ok(Self { starter, record })
        };
        opened().map_err(|error| Error::failed("cannot use the control socket", &error))
    }

    /// Waits for the next command.
    pub(crate) fn accept() -> io::Result<UnixStream> {
        accept(io::stdin()).map(UnixStream::from)
    }
}
