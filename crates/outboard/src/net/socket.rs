// SPDX-License-Identifier: GPL-2.0-only
//! The part that all sockets have in common.

use crate::Fd;
use outboard_sys::{libc, Deadline, RawAddress, SocketOption, System};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::time::Duration;

/// Most connections that wait for `accept`. The kernel's net.core.somaxconn limits it further.
pub(crate) const BACKLOG: i32 = 4096;

/// Bytes of `struct timeval`.
const TIME_SIZE: usize = 16;

/// An open socket. EINTR ends calls that block.
#[derive(Debug)]
pub(crate) struct Socket(Fd);

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// A `struct timeval`. `None`: no limit, which the kernel has as zero.
fn to_timeval(limit: Option<Duration>) -> io::Result<[u8; TIME_SIZE]> {
    let (seconds, microseconds) = match limit {
        None => (0, 0),
        Some(Duration::ZERO) => return Err(invalid("a time limit is not zero")),
        Some(limit) => (
            i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            i64::from(limit.subsec_micros()).max(i64::from(limit.as_secs() == 0)),
        ),
    };
    let mut bytes = [0; TIME_SIZE];
    bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
    bytes[8..].copy_from_slice(&microseconds.to_ne_bytes());
    Ok(bytes)
}

fn from_timeval(bytes: [u8; TIME_SIZE]) -> Option<Duration> {
    let part = |half: &[u8]| {
        let bytes = half.first_chunk().copied().unwrap_or_default();
        u64::try_from(i64::from_ne_bytes(bytes)).unwrap_or(0)
    };
    let (seconds, rest) = bytes.split_at(8);
    let limit = Duration::from_secs(part(seconds)) + Duration::from_micros(part(rest));
    (!limit.is_zero()).then_some(limit)
}

impl Socket {
    pub(crate) fn new(system: &System, family: i32, kind: i32, protocol: i32) -> io::Result<Self> {
        system.socket(family, kind, protocol).map(Self)
    }

    pub(crate) fn pair(system: &System, kind: i32) -> io::Result<(Self, Self)> {
        let (one, other) = system.socket_pair(kind)?;
        Ok((Self(one), Self(other)))
    }

    pub(crate) fn fd(&self) -> &Fd {
        &self.0
    }

    pub(crate) fn duplicate(&self) -> io::Result<Self> {
        self.0.duplicate().map(Self)
    }

    pub(crate) fn bind(&self, address: &RawAddress) -> io::Result<()> {
        self.0.bind(address)
    }

    pub(crate) fn listen(&self) -> io::Result<()> {
        self.0.listen(BACKLOG)
    }

    pub(crate) fn connect(&self, address: &RawAddress) -> io::Result<()> {
        self.0.connect(address)
    }

    /// Begins to connect without blocking.
    pub(crate) fn begin_connect(&self, address: &RawAddress) -> io::Result<()> {
        self.set_nonblocking(true)?;
        match self.0.connect(address) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            other => other,
        }
    }

    pub(crate) fn connect_timeout(&self, address: &RawAddress, limit: Duration) -> io::Result<()> {
        if limit.is_zero() {
            return Err(invalid("a time limit is not zero"));
        }
        let deadline = Deadline::after(limit);
        self.begin_connect(address)?;
        if !self.wait(libc::POLLOUT, deadline)? {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "connection timed out",
            ));
        }
        if let Some(error) = self.take_error()? {
            return Err(error);
        }
        self.set_nonblocking(false)
    }

    /// Waits for an event (`POLL*`). `false`: the deadline has passed.
    pub(crate) fn wait(&self, event: i16, deadline: Deadline) -> io::Result<bool> {
        let limit = Some(deadline.rest());
        self.0.poll(event, limit).map(|events| events != 0)
    }

    pub(crate) fn accept(&self) -> io::Result<(Self, RawAddress)> {
        let (fd, peer) = self.0.accept()?;
        Ok((Self(fd), peer))
    }

    pub(crate) fn local_address(&self) -> io::Result<RawAddress> {
        self.0.local_address()
    }

    pub(crate) fn peer_address(&self) -> io::Result<RawAddress> {
        self.0.peer_address()
    }

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer, 0)
    }

    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer, libc::MSG_PEEK)
    }

    pub(crate) fn receive_vectored(&self, buffers: &mut [IoSliceMut]) -> io::Result<usize> {
        self.0.receive_vectored(buffers)
    }

    /// `flags`: `MSG_*`.
    pub(crate) fn receive_from(
        &self,
        buffer: &mut [u8],
        flags: i32,
    ) -> io::Result<(usize, RawAddress)> {
        self.0.receive_from(buffer, flags)
    }

    pub(crate) fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        self.0.send(buffer, 0)
    }

    pub(crate) fn send_vectored(&self, buffers: &[IoSlice]) -> io::Result<usize> {
        self.0.send_vectored(buffers)
    }

    pub(crate) fn send_to(&self, buffer: &[u8], to: &RawAddress) -> io::Result<usize> {
        self.0.send_to(buffer, 0, to)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shut_down(match how {
            Shutdown::Read => libc::SHUT_RD,
            Shutdown::Write => libc::SHUT_WR,
            Shutdown::Both => libc::SHUT_RDWR,
        })
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }

    pub(crate) fn set(&self, option: SocketOption, value: u32) -> io::Result<()> {
        self.0.set_socket_option(option, &value.to_ne_bytes())
    }

    pub(crate) fn set_bytes(&self, option: SocketOption, value: &[u8]) -> io::Result<()> {
        self.0.set_socket_option(option, value)
    }

    pub(crate) fn get(&self, option: SocketOption) -> io::Result<u32> {
        self.0.socket_option(option).map(u32::from_ne_bytes)
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        let error = self.get(SocketOption::ERROR)? as i32;
        Ok((error != 0).then(|| io::Error::from_raw_os_error(error)))
    }

    pub(crate) fn set_time(&self, option: SocketOption, limit: Option<Duration>) -> io::Result<()> {
        self.0.set_socket_option(option, &to_timeval(limit)?)
    }

    pub(crate) fn time(&self, option: SocketOption) -> io::Result<Option<Duration>> {
        self.0.socket_option(option).map(from_timeval)
    }

    pub(crate) fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        let seconds = linger.map_or(0, |time| time.as_secs().min(u64::from(u16::MAX)));
        let parts = [u32::from(linger.is_some()), seconds as u32];
        let value = parts.map(u32::to_ne_bytes).concat();
        self.0.set_socket_option(SocketOption::LINGER, &value)
    }

    pub(crate) fn linger(&self) -> io::Result<Option<Duration>> {
        let value = self.0.socket_option::<8>(SocketOption::LINGER)?;
        let (on, seconds) = value.split_at(4);
        let seconds = seconds.first_chunk().copied().unwrap_or_default();
        let time = Duration::from_secs(u32::from_ne_bytes(seconds).into());
        Ok((on != [0; 4]).then_some(time))
    }
}

/// The methods that sockets of every kind have in std.
macro_rules! common_methods {
    ($name:ident) => {
        impl $name {
            /// Another descriptor of the same socket.
            pub fn try_clone(&self) -> io::Result<Self> {
                self.0.duplicate().map(Self)
            }

            /// The pending error of the socket, which is cleared.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.0.take_error()
            }

            /// Whether calls fail with `WouldBlock` instead of blocking. Holds for clones, too.
            pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.0.set_nonblocking(nonblocking)
            }
        }

        impl $crate::net::EventSource for $name {
            fn descriptor(&self) -> &$crate::Fd {
                self.0.fd()
            }
        }
    };
}

/// The methods that sockets with data have in std.
macro_rules! timeout_methods {
    ($name:ident) => {
        impl $name {
            /// Limits the time that a read blocks: then it fails with `WouldBlock`. `None`: no
            /// limit. A limit of zero is an error.
            pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
                self.0.set_time(SocketOption::RECEIVE_TIMEOUT, limit)
            }

            /// Limits the time that a write blocks, like [`Self::set_read_timeout`].
            pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
                self.0.set_time(SocketOption::SEND_TIMEOUT, limit)
            }

            /// The time limit of reads.
            pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
                self.0.time(SocketOption::RECEIVE_TIMEOUT)
            }

            /// The time limit of writes.
            pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
                self.0.time(SocketOption::SEND_TIMEOUT)
            }
        }
    };
}

/// Reads and writes of a stream, by value and by reference.
macro_rules! stream_traits {
    ($name:ident) => {
        impl Read for &$name {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.receive(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.0.receive_vectored(buffers)
            }
        }

        impl Write for &$name {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                self.0.send(buffer)
            }

            fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                self.0.send_vectored(buffers)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl Read for $name {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                (&*self).read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&*self).read_vectored(buffers)
            }
        }

        impl Write for $name {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                (&*self).write(buffer)
            }

            fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                (&*self).write_vectored(buffers)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(crate) use {common_methods, stream_traits, timeout_methods};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_survive_the_kernels_layout() {
        for limit in [None, Some(Duration::from_millis(1500))] {
            assert_eq!(from_timeval(to_timeval(limit).unwrap()), limit);
        }
        assert!(to_timeval(Some(Duration::ZERO)).is_err());
        let shortest = to_timeval(Some(Duration::from_nanos(1))).unwrap();
        assert_eq!(from_timeval(shortest), Some(Duration::from_micros(1)));
    }
}
