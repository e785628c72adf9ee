// SPDX-License-Identifier: GPL-2.0-only
//! Messages over a socket: four bytes with the length of the rest (little endian), then JSON.
//!
//! The other end may be controlled by an image. A receiver refuses a length above its limit before
//! it reads on, and takes memory only for bytes that came. No byte after a message is read with it:
//! a descriptor may follow.

use crate::error::WorkerError;
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes before a message.
const HEADER: usize = 4;
/// Most bytes of one read.
const PIECE: usize = 1 << 16;
/// How often a wait in which nothing happens calls its [`WaitCheck`].
const INTERVAL: Duration = Duration::from_millis(100);

/// Called while a wait goes on, also between the pieces of a message: its sender may be slow. An
/// error ends the wait. `None`: nothing ends it.
pub type WaitCheck<'a> = Option<&'a mut dyn FnMut() -> Result<(), WorkerError>>;

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    longest: usize,
    /// Whether reads and writes return after [`INTERVAL`].
    has_interval: bool,
}

/// Nothing happened for an interval, or a signal came.
fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}

impl Channel {
    /// `longest`: most bytes of a message, in both directions.
    pub fn new(socket: impl Into<OwnedFd>, longest: usize) -> Self {
        Self {
            socket: socket.into().into(),
            longest,
            has_interval: false,
        }
    }

    /// Sends a message.
    pub fn send(
        &mut self,
        message: &impl Serialize,
        mut check: WaitCheck,
    ) -> Result<(), WorkerError> {
        let mut bytes = vec![0; HEADER];
        serde_json::to_writer(&mut bytes, message)?;
        let length = bytes.len() - HEADER;
        let header = u32::try_from(length)
            .ok()
            .filter(|_| length <= self.longest);
        let header = header.ok_or(WorkerError::TooLong)?;
        bytes[..HEADER].copy_from_slice(&header.to_le_bytes());
        self.prepare(&check)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(length) => rest = &rest[length..],
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if !rest.is_empty() {
                call(&mut check)?;
            }
        }
        Ok(())
    }

    /// The next message. `None`: the other end is closed.
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        mut check: WaitCheck,
    ) -> Result<Option<T>, WorkerError> {
        self.prepare(&check)?;
        let Some(header) = self.read(HEADER, &mut check)? else {
            return Ok(None);
        };
        let header: [u8; HEADER] = header.try_into().unwrap_or_default();
        let length = u32::from_le_bytes(header) as usize;
        if length > self.longest {
            return Err(WorkerError::TooLong);
        }
        let bytes = self.read(length, &mut check)?.ok_or_else(cut_off)?;
        Ok(Some(serde_json::from_slice(&bytes)?))
    }

    /// Exactly `length` bytes. `None`: the other end was closed before them.
    fn read(
        &mut self,
        length: usize,
        check: &mut WaitCheck,
    ) -> Result<Option<Vec<u8>>, WorkerError> {
        let mut bytes = Vec::new();
        let mut piece = vec![0; length.min(PIECE)];
        while bytes.len() < length {
            let most = PIECE.min(length - bytes.len());
            match self.socket.read(&mut piece[..most]) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&piece[..count]),
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if bytes.len() < length {
                call(check)?;
            }
        }
        match bytes.len() {
            count if count == length => Ok(Some(bytes)),
            0 => Ok(None),
            _ => Err(cut_off()),
        }
    }

    /// The sandbox refuses options of sockets: an end inside of it never has a [`WaitCheck`].
    fn prepare(&mut self, check: &WaitCheck) -> io::Result<()> {
        let wanted = check.is_some();
        if wanted != self.has_interval {
            let interval = wanted.then_some(INTERVAL);
            self.socket.set_read_timeout(interval)?;
            self.socket.set_write_timeout(interval)?;
            self.has_interval = wanted;
        }
        Ok(())
    }

    /// The other end receives no message after those that are on their way, whoever else has this
    /// end open.
    pub fn end_messages(&self) {
        // The other process may have closed its end.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The other end was closed inside of a message.
fn cut_off() -> WorkerError {
    WorkerError::Host(io::ErrorKind::UnexpectedEof.into())
}

fn call(check: &mut WaitCheck) -> Result<(), WorkerError> {
    check.as_mut().map_or(Ok(()), |check| check())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(longest: usize) -> (Channel, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Channel::new(ours, longest), theirs)
    }

    fn received(bytes: &[u8]) -> Result<Option<String>, WorkerError> {
        let (mut channel, mut other) = pair(10);
        other.write_all(bytes).unwrap();
        drop(other);
        channel.receive(None)
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (mut channel, other) = pair(10);
        let mut other = Channel::new(other, 10);
        for text in ["", "a", "12345678"] {
            channel.send(&text, None).unwrap();
        }
        channel.end_messages();
        for text in ["", "a", "12345678"] {
            let message: Option<String> = other.receive(None).unwrap();
            assert_eq!(message.as_deref(), Some(text));
        }
        assert_eq!(other.receive::<String>(None).unwrap(), None);
        // The other direction stays.
        other.send(&"b", None).unwrap();
        let message: Option<String> = channel.receive(None).unwrap();
        assert_eq!(message.as_deref(), Some("b"));
    }

    #[test]
    fn messages_have_a_limit() {
        let (mut channel, _other) = pair(10);
        let sent = channel.send(&"123456789", None);
        assert!(matches!(sent, Err(WorkerError::TooLong)), "{sent:?}");
        // Nothing follows: the length alone is refused.
        let longer = received(&[11, 0, 0, 0]);
        assert!(matches!(longer, Err(WorkerError::TooLong)), "{longer:?}");
        let longest = received(&[255; HEADER]);
        assert!(matches!(longest, Err(WorkerError::TooLong)), "{longest:?}");
    }

    #[test]
    fn garbage_is_no_message() {
        assert!(matches!(received(b""), Ok(None)));
        let cases: [&[u8]; 2] = [&[0, 0, 0, 0], &[2, 0, 0, 0, b'1', b'2']];
        for bytes in cases {
            let message = received(bytes);
            assert!(
                matches!(message, Err(WorkerError::Garbage(_))),
                "{bytes:?}: {message:?}"
            );
        }
    }

    #[test]
    fn a_message_may_be_cut_off() {
        let cases: [&[u8]; 4] = [&[1], &[3, 0, 0], &[3, 0, 0, 0], &[3, 0, 0, 0, b'"']];
        for bytes in cases {
            let message = received(bytes);
            let Err(WorkerError::Host(error)) = message else {
                panic!("{bytes:?}: {message:?}");
            };
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn a_check_ends_a_wait() {
        let (mut channel, _other) = pair(1 << 30);
        let mut checks = 0;
        let mut check = || {
            checks += 1;
            if checks == 2 {
                Err(WorkerError::Late)
            } else {
                Ok(())
            }
        };
        let message = channel.receive::<String>(Some(&mut check));
        assert!(matches!(message, Err(WorkerError::Late)));
        // More than the socket takes: nobody reads it.
        let sent = channel.send(
            &"x".repeat(1 << 22),
            Some(&mut || Err(WorkerError::Interrupted)),
        );
        assert!(matches!(sent, Err(WorkerError::Interrupted)));
    }
}
