// SPDX-License-Identifier: GPL-2.0-only
//! A connection until a deadline, however slowly its bytes come.

use crate::net::TcpStream;
use outboard_sys::libc;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Calls fail with ETIMEDOUT once the deadline has passed. It changes the stream's time limits.
pub(crate) struct UntilDeadline<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

fn timed_out() -> io::Error {
    io::Error::from_raw_os_error(libc::ETIMEDOUT)
}

fn limited(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => timed_out(),
        _ => error,
    }
}

impl<'a> UntilDeadline<'a> {
    pub(crate) fn new(stream: &'a TcpStream, deadline: Instant) -> Self {
        Self { stream, deadline }
    }

    /// The rest of the time, which is never zero.
    fn rest(&self) -> io::Result<Option<Duration>> {
        let rest = self.deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            Err(timed_out())
        } else {
            Ok(Some(rest))
        }
    }
}

impl Read for UntilDeadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.rest()?)?;
        let mut stream = self.stream;
        stream.read(buffer).map_err(limited)
    }
}

impl Write for UntilDeadline<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.rest()?)?;
        let mut stream = self.stream;
        stream.write(buffer).map_err(limited)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
