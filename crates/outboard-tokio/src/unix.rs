// SPDX-License-Identifier: GPL-2.0-only
//! UNIX sockets. Their paths are in the kernel's root.

use crate::nonblocking::{stream_traits, Direction, Nonblocking};
use outboard::net::{self, Net};
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection of UNIX sockets. References are readers and writers, too.
#[derive(Debug)]
pub struct UnixStream(Nonblocking<net::UnixStream>);

stream_traits!(UnixStream);

impl UnixStream {
    /// Connects to a path. Blocks while the listener has too many connections waiting.
    pub fn connect(net: &Net, path: impl AsRef<Path>) -> io::Result<Self> {
        Self::new(net, net.unix_connect(path)?)
    }

    /// Two sockets that are connected to each other.
    pub fn pair(net: &Net) -> io::Result<(Self, Self)> {
        let (one, other) = net.unix_pair()?;
        Ok((Self::new(net, one)?, Self::new(net, other)?))
    }

    /// Uses a connection that exists.
    pub fn new(net: &Net, stream: net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Nonblocking::new(net, stream).map(Self)
    }

    /// The socket, for its addresses and credentials. It is nonblocking.
    pub fn get_ref(&self) -> &net::UnixStream {
        self.0.socket()
    }
}

/// A UNIX socket that others connect to.
#[derive(Debug)]
pub struct UnixListener {
    net: Net,
    inner: Nonblocking<net::UnixListener>,
}

impl UnixListener {
    /// Listens at a path, which must not exist.
    pub fn bind(net: &Net, path: impl AsRef<Path>) -> io::Result<Self> {
        Self::new(net, net.unix_listen(path)?)
    }

    /// Uses a listener that exists.
    pub fn new(net: &Net, listener: net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            net: net.clone(),
            inner: Nonblocking::new(net, listener)?,
        })
    }

    /// Waits for a connection. Several tasks may wait.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let accept = net::UnixListener::accept;
        let (stream, peer) = self.inner.call(Direction::Read, accept).await?;
        Ok((UnixStream::new(&self.net, stream)?, peer))
    }

    /// The socket. It is nonblocking.
    pub fn get_ref(&self) -> &net::UnixListener {
        self.inner.socket()
    }
}

/// A UNIX socket for datagrams.
#[derive(Debug)]
pub struct UnixDatagram(Nonblocking<net::UnixDatagram>);

impl UnixDatagram {
    /// A socket at a path, which must not exist.
    pub fn bind(net: &Net, path: impl AsRef<Path>) -> io::Result<Self> {
        Self::new(net, net.unix_datagram(path)?)
    }

    /// Two sockets that are connected to each other.
    pub fn pair(net: &Net) -> io::Result<(Self, Self)> {
        let (one, other) = net.unix_datagram_pair()?;
        Ok((Self::new(net, one)?, Self::new(net, other)?))
    }

    /// Uses a socket that exists.
    pub fn new(net: &Net, socket: net::UnixDatagram) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Nonblocking::new(net, socket).map(Self)
    }

    /// Sends a datagram to the connected address.
    pub async fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        let send = |socket: &net::UnixDatagram| socket.send(buffer);
        self.0.call(Direction::Write, send).await
    }

    /// Receives a datagram. Bytes that do not fit into the buffer are lost.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let receive = |socket: &net::UnixDatagram| socket.recv(buffer);
        self.0.call(Direction::Read, receive).await
    }

    /// Receives a datagram and its sender.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let receive = |socket: &net::UnixDatagram| socket.recv_from(buffer);
        self.0.call(Direction::Read, receive).await
    }

    /// The socket, for its addresses. It is nonblocking.
    pub fn get_ref(&self) -> &net::UnixDatagram {
        self.0.socket()
    }
}
