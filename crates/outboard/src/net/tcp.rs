// SPDX-License-Identifier: GPL-2.0-only
//! TCP: streams and listeners.

use crate::net::address::{family, first_of, from_raw, to_raw};
use crate::net::socket::{common_methods, stream_traits, timeout_methods, Socket};
use crate::net::{Net, ToAddresses};
use outboard_sys::{libc, SocketOption};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::iter::FusedIterator;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

/// A TCP connection, with the methods of [`std::net::TcpStream`].
///
/// It closes when it is dropped. It can be read and written by several threads at a time, through
/// references or [`TcpStream::try_clone`]. A write to a connection that the peer has closed fails
/// with `BrokenPipe` and raises no signal.
#[derive(Debug)]
pub struct TcpStream(pub(crate) Socket);

common_methods!(TcpStream);
timeout_methods!(TcpStream);
stream_traits!(TcpStream);

impl TcpStream {
    /// Its number among the open files of the kernel, for options of a mount.
    pub fn descriptor(&self) -> i32 {
        self.0.fd().raw()
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        from_raw(&self.0.peer_address()?)
    }

    /// The address of this end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        from_raw(&self.0.local_address()?)
    }

    /// Ends one direction, or both. Threads that are blocked in it return.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Receives data that the next read receives again.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.peek(buffer)
    }

    /// Whether small writes go out at once (`TCP_NODELAY`).
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.set(SocketOption::NO_DELAY, nodelay.into())
    }

    /// Whether small writes go out at once.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.0.get(SocketOption::NO_DELAY)? != 0)
    }

    /// Hops that a packet may take (`IP_TTL`).
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set(SocketOption::TTL, ttl)
    }

    /// Hops that a packet may take.
    pub fn ttl(&self) -> io::Result<u32> {
        self.0.get(SocketOption::TTL)
    }

    /// How long closing waits until the peer has the data (`SO_LINGER`, whole seconds). Zero:
    /// closing resets the connection. `None`: the kernel sends the data after closing.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.0.set_linger(linger)
    }

    /// How long closing waits.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.0.linger()
    }

    /// Whether the kernel probes an idle connection (`SO_KEEPALIVE`).
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.0.set(SocketOption::KEEP_ALIVE, keepalive.into())
    }
}

/// A TCP socket that others connect to, with the methods of [`std::net::TcpListener`].
#[derive(Debug)]
pub struct TcpListener(pub(crate) Socket);

common_methods!(TcpListener);

impl TcpListener {
    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        from_raw(&self.0.local_address()?)
    }

    /// Waits for a connection.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, peer) = self.0.accept()?;
        Ok((TcpStream(socket), from_raw(&peer)?))
    }

    /// The connections, endlessly.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Hops that packets of accepted connections may take (`IP_TTL`).
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set(SocketOption::TTL, ttl)
    }

    /// Hops that packets of accepted connections may take.
    pub fn ttl(&self) -> io::Result<u32> {
        self.0.get(SocketOption::TTL)
    }
}

/// The connections of a [`TcpListener`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}

impl Net {
    fn tcp_socket(&self, address: &SocketAddr) -> io::Result<Socket> {
        self.socket(family(address), libc::SOCK_STREAM, 0)
    }

    /// Connects to the first address that accepts.
    pub fn tcp_connect(&self, addresses: impl ToAddresses) -> io::Result<TcpStream> {
        first_of(&addresses.to_addresses(self)?, |address| {
            let socket = self.tcp_socket(address)?;
            socket.connect(&to_raw(address)?)?;
            Ok(TcpStream(socket))
        })
    }

    /// Connects within a time limit: `TimedOut` otherwise. A limit of zero is an error.
    pub fn tcp_connect_timeout(
        &self,
        address: &SocketAddr,
        limit: Duration,
    ) -> io::Result<TcpStream> {
        let socket = self.tcp_socket(address)?;
        socket.connect_timeout(&to_raw(address)?, limit)?;
        Ok(TcpStream(socket))
    }

    /// Begins to connect, and returns a nonblocking stream at once. When the stream is ready to
    /// write, [`TcpStream::take_error`] returns why it is not connected, if so.
    pub fn tcp_begin_connect(&self, address: &SocketAddr) -> io::Result<TcpStream> {
        let socket = self.tcp_socket(address)?;
        socket.begin_connect(&to_raw(address)?)?;
        Ok(TcpStream(socket))
    }

    /// Listens at the first address that is free. Port 0: any port. Up to 4,096 connections wait
    /// for `accept`.
    pub fn tcp_listen(&self, addresses: impl ToAddresses) -> io::Result<TcpListener> {
        first_of(&addresses.to_addresses(self)?, |address| {
            let socket = self.tcp_socket(address)?;
            socket.set(SocketOption::REUSE_ADDRESS, 1)?;
            socket.bind(&to_raw(address)?)?;
            socket.listen()?;
            Ok(TcpListener(socket))
        })
    }
}
