// SPDX-License-Identifier: MIT
//! Connections to servers, wherever they are.

use crate::dialed::Dialed;
use crate::identity::TlsIdentity;
use crate::keepalive::prepare;
use crate::token::Token;
use outboard_protocol::frames::{Frame, Request};
use outboard_protocol::url::{NetworkProof, NetworkUrl, ServerUrl};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long an address may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Streams are read, written and ended alike, whatever their sockets are.
pub(crate) fn as_stream(socket: TcpStream) -> UnixStream {
    UnixStream::from(OwnedFd::from(socket))
}

fn open(place: &str) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::NotFound.into();
    for address in place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => {
                prepare(&socket)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn dial_network(url: &NetworkUrl) -> io::Result<Dialed> {
    match &url.proof {
        NetworkProof::Token(file) => {
            let token = Token::read(file)?;
            let stream = as_stream(open(&url.place)?);
            Frame::send(&mut &stream, &Request::Token(token.text().to_owned()))?;
            Ok(stream.into())
        }
        NetworkProof::Certificates(directory) => {
            let identity = TlsIdentity::read(directory, "client")?;
            identity.dial(open(&url.place)?)
        }
    }
}

/// Connects to a server, as [`connect`] does. For programs that call fork(2).
pub fn dial(url: &ServerUrl) -> io::Result<Dialed> {
    match url {
        ServerUrl::Unix(path) => UnixStream::connect(path).map(Dialed::from),
        ServerUrl::Network(url) => dial_network(url),
    }
}

/// Connects to a server: its first frame may follow. A server that does not take the proof ends the
/// connection, which the first read shows. With TLS, the answer to the first request then is
/// [`RunAnswer::Failed`](outboard_protocol::frames::RunAnswer::Failed), with the reason. Blocks for
/// 10 s for each address of the host at most.
pub fn connect(url: &ServerUrl) -> io::Result<UnixStream> {
    dial(url).map(|dialed| dialed.stream)
}
