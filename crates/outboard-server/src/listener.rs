// SPDX-License-Identifier: GPL-2.0-only
//! A socket at which a server listens, and connections from it.

use crate::answers::failed;
use crate::peer::{ClientPeer, InsideUser};
use crate::peer_rules::PeerRules;
use outboard_protocol::frames::RunAnswer;
use outboard_protocol::url::ServerUrl;
use outboard_tls::{NetworkConnection, NetworkListener};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, OnceLock};

/// The user of the host in whose place a client of a network is.
pub(crate) const NO_USER: u32 = u32::MAX;

/// A socket that listens.
pub struct ServerListener(Socket);

enum Socket {
    Host(UnixListener, PeerRules),
    Network(NetworkListener),
}

/// A connection that came.
pub struct NewConnection {
    stream: NewStream,
    /// The other end. The error: the answer to it.
    pub(crate) peer: Result<ClientPeer, RunAnswer>,
}

enum NewStream {
    Ready(UnixStream),
    /// The other end has to prove that it may use the server.
    Unproven(NetworkConnection),
}

/// The other end of a connection of a network.
pub(crate) struct FarEnd {
    pub(crate) address: SocketAddr,
    pub(crate) failure: Arc<OnceLock<String>>,
}

impl ServerListener {
    /// A socket that listens at this URL. `rules`: who of this host may use it. Reads the files
    /// that the URL names.
    pub fn new(socket: OwnedFd, url: &ServerUrl, rules: PeerRules) -> io::Result<Self> {
        Ok(Self(match url {
            ServerUrl::Unix(_) => Socket::Host(socket.into(), rules),
            ServerUrl::Network(url) => {
                let socket = TcpListener::from(socket);
                Socket::Network(NetworkListener::new(socket, url)?)
            }
        }))
    }

    /// Waits for a connection. Blocks.
    pub fn accept(&self) -> io::Result<NewConnection> {
        match &self.0 {
            Socket::Host(listener, rules) => {
                let (socket, _) = listener.accept()?;
                Ok(NewConnection::of_host(socket, rules))
            }
            Socket::Network(listener) => listener.accept().map(NewConnection::of_network),
        }
    }
}

impl NewConnection {
    /// One whose other end is the owner's, and root inside.
    pub fn of_owner(socket: UnixStream) -> Self {
        Self {
            stream: NewStream::Ready(socket),
            peer: Ok(ClientPeer {
                process: 0,
                user: 0,
                inside: InsideUser::ROOT,
            }),
        }
    }

    fn of_host(socket: UnixStream, rules: &PeerRules) -> Self {
        let peer = match rules.peer(&socket) {
            Ok(Ok(peer)) => Ok(peer),
            Ok(Err(user)) => Err(failed(format!("the server has no rule for user {user}"))),
            Err(error) => Err(failed(format!("cannot see who connects: {error}"))),
        };
        Self {
            stream: NewStream::Ready(socket),
            peer,
        }
    }

    fn of_network(connection: NetworkConnection) -> Self {
        let (user, group) = connection.user;
        Self {
            stream: NewStream::Unproven(connection),
            peer: Ok(ClientPeer {
                process: 0,
                user: NO_USER,
                inside: InsideUser { user, group },
            }),
        }
    }

    /// The bytes.
    pub(crate) fn stream(&self) -> &UnixStream {
        match &self.stream {
            NewStream::Ready(socket) => socket,
            NewStream::Unproven(connection) => &connection.stream,
        }
    }

    /// All its sockets, which children of fork(2) must not keep open.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let behind = match &self.stream {
            NewStream::Ready(_) => &[][..],
            NewStream::Unproven(connection) => &connection.behind,
        };
        [&[self.stream().as_raw_fd()], behind].concat()
    }

    /// For a connection of a network: its other end, and why TLS ends it, once it does.
    pub(crate) fn far_end(&self) -> Option<FarEnd> {
        match &self.stream {
            NewStream::Ready(_) => None,
            NewStream::Unproven(connection) => Some(FarEnd {
                address: connection.address,
                failure: Arc::clone(&connection.failure),
            }),
        }
    }

    /// The bytes of an end that may use the server. The error: those of one that may not. Blocks
    /// for 10 s at most.
    pub(crate) fn proven(self) -> Result<UnixStream, UnixStream> {
        match self.stream {
            NewStream::Ready(socket) => Ok(socket),
            NewStream::Unproven(connection) if connection.is_proven() => Ok(connection.stream),
            NewStream::Unproven(connection) => Err(connection.stream),
        }
    }
}
