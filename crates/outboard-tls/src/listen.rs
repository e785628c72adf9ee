// SPDX-License-Identifier: MIT
//! The server's end of connections over a network.

use crate::dial::as_stream;
use crate::dialed::Dialed;
use crate::identity::{TlsIdentity, TlsServer};
use crate::keepalive::prepare;
use crate::token::Token;
use outboard_protocol::frames::{Frame, Request};
use outboard_protocol::url::{NetworkProof, NetworkUrl};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a client may take to send its token.
const PATIENCE: Duration = Duration::from_secs(10);

enum ListenerProof {
    Token(Arc<Token>),
    Certificates(TlsServer),
}

/// A socket of TCP that listens.
pub struct NetworkListener {
    listener: TcpListener,
    proof: ListenerProof,
    user: (u32, u32),
}

/// A connection whose other end has to prove that it may use the server.
pub struct NetworkConnection {
    /// The bytes.
    pub stream: UnixStream,
    /// Descriptors of the thread that speaks TLS, as of [`Dialed`].
    pub behind: Vec<RawFd>,
    /// Why TLS has ended the connection, once it has.
    pub failure: Arc<OnceLock<String>>,
    /// The other end.
    pub address: SocketAddr,
    /// User and group of the client inside.
    pub user: (u32, u32),
    token: Option<Arc<Token>>,
}

impl NetworkListener {
    /// Reads the files of a URL, for a socket that listens at its place.
    pub fn new(listener: TcpListener, url: &NetworkUrl) -> io::Result<Self> {
        // A socket that is accepted inherits the settings: a sandbox may refuse them later.
        prepare(&listener)?;
        let proof = match &url.proof {
            NetworkProof::Token(file) => ListenerProof::Token(Arc::new(Token::read(file)?)),
            NetworkProof::Certificates(directory) => {
                ListenerProof::Certificates(TlsIdentity::read(directory, "server")?.server()?)
            }
        };
        Ok(Self {
            listener,
            proof,
            user: url.user,
        })
    }

    /// Waits for a connection. Blocks.
    pub fn accept(&self) -> io::Result<NetworkConnection> {
        let (socket, address) = self.listener.accept()?;
        let (dialed, token) = match &self.proof {
            ListenerProof::Token(token) => {
                (Dialed::from(as_stream(socket)), Some(Arc::clone(token)))
            }
            ListenerProof::Certificates(server) => (server.accepted(socket)?, None),
        };
        Ok(NetworkConnection {
            stream: dialed.stream,
            behind: dialed.behind,
            failure: dialed.failure,
            address,
            user: self.user,
            token,
        })
    }
}

impl NetworkConnection {
    /// Waits for the token, if the other end has to send one. Returns whether it may go on: one
    /// with a wrong certificate ends by itself. Blocks for 10 s at most.
    pub fn is_proven(&self) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let first = || {
            self.stream.set_read_timeout(Some(PATIENCE))?;
            let frame = Frame::read(&mut &self.stream);
            self.stream.set_read_timeout(None)?;
            frame
        };
        let message = first().ok().flatten().map(|frame| frame.message());
        matches!(message, Some(Ok(Request::Token(given))) if token.is(&given))
    }
}
