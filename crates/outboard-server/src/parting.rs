// SPDX-License-Identifier: GPL-2.0-only
//! The last answer of a connection.

use outboard_protocol::frames::{Frame, RunAnswer};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the other end may take to read it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends an answer, and waits until the other end has it and closes the connection. TCP takes back
/// what it has sent from a socket that is closed while bytes wait in it; and a thread may have to
/// encrypt the answer, which ends with this process. Blocks, but not for long.
pub fn send_last(mut socket: &UnixStream, answer: &RunAnswer) -> io::Result<()> {
    socket.set_write_timeout(Some(PATIENCE))?;
    Frame::send(&mut socket, answer)?;
    socket.shutdown(Shutdown::Write)?;
    let until = Instant::now() + PATIENCE;
    let mut rest = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // No time is an error.
        socket.set_read_timeout(Some(left))?;
        if socket.read(&mut rest)? == 0 {
            return Ok(());
        }
    }
}
