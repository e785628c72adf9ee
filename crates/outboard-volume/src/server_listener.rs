// SPDX-License-Identifier: GPL-2.0-only
//! A socket at which a server listens, and what comes from it.

use outboard_protocol::url::ServerUrl;
use outboard_tls::{NetworkConnection, NetworkListener};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

/// See above.
pub(crate) enum ServerListener {
    Host(UnixListener),
    Network(NetworkListener),
}

/// A connection.
pub(crate) enum Accepted {
    /// By a process of this host, which the host names.
    Host(UnixStream),
    /// Over a network, by somebody who has to prove that it may use the server.
    Network(NetworkConnection),
}

impl ServerListener {
    /// A socket that listens at this URL. Reads the files that the URL names.
    pub(crate) fn new(socket: OwnedFd, url: &ServerUrl) -> io::Result<Self> {
        Ok(match url {
            ServerUrl::Unix(_) => Self::Host(socket.into()),
            ServerUrl::Network(url) => {
                Self::Network(NetworkListener::new(TcpListener::from(socket), url)?)
            }
        })
    }

    /// Waits for a connection. Blocks.
    pub(crate) fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Host(listener) => listener.accept().map(|(socket, _)| Accepted::Host(socket)),
            Self::Network(listener) => listener.accept().map(Accepted::Network),
        }
    }
}

impl Accepted {
    /// The bytes.
    pub(crate) fn stream(&self) -> &UnixStream {
        match self {
            Self::Host(socket) => socket,
            Self::Network(connection) => &connection.stream,
        }
    }

    pub(crate) fn into_stream(self) -> UnixStream {
        match self {
            Self::Host(socket) => socket,
            Self::Network(connection) => connection.stream,
        }
    }
}
