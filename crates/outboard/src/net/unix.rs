// SPDX-License-Identifier: GPL-2.0-only
//! UNIX sockets. Their paths are in the kernel's root, not in the host's.

use crate::net::address::{path_to_raw, unix_from_raw, unix_to_raw};
use crate::net::socket::{common_methods, stream_traits, timeout_methods, Socket};
use crate::net::Net;
use outboard_sys::{libc, RawAddress, SocketOption};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::iter::FusedIterator;
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// The process, user and group at the other end of a UNIX socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// Process.
    pub pid: i32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// A connection of UNIX sockets, with the methods of [`std::os::unix::net::UnixStream`].
#[derive(Debug)]
pub struct UnixStream(pub(crate) Socket);

common_methods!(UnixStream);
timeout_methods!(UnixStream);
stream_traits!(UnixStream);

impl UnixStream {
    /// The address of the other end.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        unix_from_raw(&self.0.peer_address()?)
    }

    /// The address of this end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        unix_from_raw(&self.0.local_address()?)
    }

    /// Ends one direction, or both. Threads that are blocked in it return.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// The other end's process, user and group when it connected or began to listen.
    pub fn peer_cred(&self) -> io::Result<Credentials> {
        let option = SocketOption::PEER_CREDENTIALS;
        let value = self.0.fd().socket_option::<12>(option)?;
        let part = |index: usize| {
            let bytes = value[index * 4..].first_chunk().copied();
            u32::from_ne_bytes(bytes.unwrap_or_default())
        };
        Ok(Credentials {
            pid: part(0) as i32,
            uid: part(1),
            gid: part(2),
        })
    }
}

/// A UNIX socket that others connect to, with the methods of
/// [`std::os::unix::net::UnixListener`].
#[derive(Debug)]
pub struct UnixListener(pub(crate) Socket);

common_methods!(UnixListener);

impl UnixListener {
    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        unix_from_raw(&self.0.local_address()?)
    }

    /// Waits for a connection.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (socket, peer) = self.0.accept()?;
        Ok((UnixStream(socket), unix_from_raw(&peer)?))
    }

    /// The connections, endlessly.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }
}

/// The connections of a [`UnixListener`].
#[derive(Debug)]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for UnixIncoming<'_> {}

/// A UNIX socket for datagrams, with the methods of [`std::os::unix::net::UnixDatagram`].
#[derive(Debug)]
pub struct UnixDatagram(pub(crate) Socket);

common_methods!(UnixDatagram);
timeout_methods!(UnixDatagram);

impl UnixDatagram {
    /// Sends to this path by [`UnixDatagram::send`].
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.0.connect(&path_to_raw(path.as_ref())?)
    }

    /// Sends to this address by [`UnixDatagram::send`].
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        self.0.connect(&unix_to_raw(address)?)
    }

    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        unix_from_raw(&self.0.local_address()?)
    }

    /// The address that the socket is connected to.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        unix_from_raw(&self.0.peer_address()?)
    }

    /// Receives a datagram and its sender. Bytes that do not fit into the buffer are lost.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (length, sender) = self.0.receive_from(buffer, 0)?;
        Ok((length, unix_from_raw(&sender)?))
    }

    /// Receives a datagram. Bytes that do not fit into the buffer are lost.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer)
    }

    /// Sends a datagram to a path.
    pub fn send_to(&self, buffer: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.0.send_to(buffer, &path_to_raw(path.as_ref())?)
    }

    /// Sends a datagram to an address.
    pub fn send_to_addr(&self, buffer: &[u8], address: &SocketAddr) -> io::Result<usize> {
        self.0.send_to(buffer, &unix_to_raw(address)?)
    }

    /// Sends a datagram to the connected address.
    pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        self.0.send(buffer)
    }

    /// Ends one direction, or both. Threads that are blocked in it return.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }
}

impl Net {
    fn unix_socket(&self, kind: i32) -> io::Result<Socket> {
        self.socket(libc::AF_UNIX, kind, 0)
    }

    fn connect_unix(&self, address: &RawAddress) -> io::Result<UnixStream> {
        let socket = self.unix_socket(libc::SOCK_STREAM)?;
        socket.connect(address)?;
        Ok(UnixStream(socket))
    }

    /// Connects to the socket at a path of the kernel's root.
    pub fn unix_connect(&self, path: impl AsRef<Path>) -> io::Result<UnixStream> {
        self.connect_unix(&path_to_raw(path.as_ref())?)
    }

    /// Connects to an address, which may be abstract.
    pub fn unix_connect_addr(&self, address: &SocketAddr) -> io::Result<UnixStream> {
        self.connect_unix(&unix_to_raw(address)?)
    }

    /// Two sockets that are connected to each other.
    pub fn unix_pair(&self) -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = Socket::pair(self.system(), libc::SOCK_STREAM)?;
        Ok((UnixStream(one), UnixStream(other)))
    }

    fn listen_unix(&self, address: &RawAddress) -> io::Result<UnixListener> {
        let socket = self.unix_socket(libc::SOCK_STREAM)?;
        socket.bind(address)?;
        socket.listen()?;
        Ok(UnixListener(socket))
    }

    /// Listens at a path of the kernel's root, which must not exist.
    pub fn unix_listen(&self, path: impl AsRef<Path>) -> io::Result<UnixListener> {
        self.listen_unix(&path_to_raw(path.as_ref())?)
    }

    /// Listens at an address, which may be abstract.
    pub fn unix_listen_addr(&self, address: &SocketAddr) -> io::Result<UnixListener> {
        self.listen_unix(&unix_to_raw(address)?)
    }

    /// A socket for datagrams at a path of the kernel's root, which must not exist.
    pub fn unix_datagram(&self, path: impl AsRef<Path>) -> io::Result<UnixDatagram> {
        let socket = self.unix_socket(libc::SOCK_DGRAM)?;
        socket.bind(&path_to_raw(path.as_ref())?)?;
        Ok(UnixDatagram(socket))
    }

    /// A socket for datagrams at an address, which may be abstract.
    pub fn unix_datagram_addr(&self, address: &SocketAddr) -> io::Result<UnixDatagram> {
        let socket = self.unix_socket(libc::SOCK_DGRAM)?;
        socket.bind(&unix_to_raw(address)?)?;
        Ok(UnixDatagram(socket))
    }

    /// A socket for datagrams without an address.
    pub fn unix_datagram_unbound(&self) -> io::Result<UnixDatagram> {
        self.unix_socket(libc::SOCK_DGRAM).map(UnixDatagram)
    }

    /// Two sockets for datagrams that are connected to each other.
    pub fn unix_datagram_pair(&self) -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = Socket::pair(self.system(), libc::SOCK_DGRAM)?;
        Ok((UnixDatagram(one), UnixDatagram(other)))
    }
}
