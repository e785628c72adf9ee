// SPDX-License-Identifier: GPL-2.0-only
//! TCP.

use crate::nonblocking::{stream_traits, Direction, Nonblocking};
use outboard::net::{self, Net};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A TCP connection. References are readers and writers, too, so that one task can read while
/// another one writes.
#[derive(Debug)]
pub struct TcpStream(Nonblocking<net::TcpStream>);

stream_traits!(TcpStream);

impl TcpStream {
    /// Connects. Names of hosts: see [`crate::resolve`].
    pub async fn connect(net: &Net, address: SocketAddr) -> io::Result<Self> {
        let stream = Self(Nonblocking::new(net, net.tcp_begin_connect(&address)?)?);
        let is_connected = |socket: &net::TcpStream| {
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            match socket.peer_addr() {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                other => other,
            }
        };
        stream.0.call(Direction::Write, is_connected).await?;
        Ok(stream)
    }

    /// Uses a connection that exists.
    pub fn new(net: &Net, stream: net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Nonblocking::new(net, stream).map(Self)
    }

    /// The socket, for its options and addresses. It is nonblocking.
    pub fn get_ref(&self) -> &net::TcpStream {
        self.0.socket()
    }

    /// Receives data that the next read receives again.
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let peek = |socket: &net::TcpStream| socket.peek(buffer);
        self.0.call(Direction::Read, peek).await
    }
}

/// A TCP socket that others connect to.
#[derive(Debug)]
pub struct TcpListener {
    net: Net,
    inner: Nonblocking<net::TcpListener>,
}

impl TcpListener {
    /// Listens at an address. Port 0: any port.
    pub fn bind(net: &Net, address: SocketAddr) -> io::Result<Self> {
        Self::new(net, net.tcp_listen(address)?)
    }

    /// Uses a listener that exists.
    pub fn new(net: &Net, listener: net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            net: net.clone(),
            inner: Nonblocking::new(net, listener)?,
        })
    }

    /// Waits for a connection. Several tasks may wait.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accept = net::TcpListener::accept;
        let (stream, peer) = self.inner.call(Direction::Read, accept).await?;
        Ok((TcpStream::new(&self.net, stream)?, peer))
    }

    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.socket().local_addr()
    }

    /// The socket, for its options. It is nonblocking.
    pub fn get_ref(&self) -> &net::TcpListener {
        self.inner.socket()
    }
}
