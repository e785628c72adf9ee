// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod nonblocking;
mod tcp;
mod udp;
mod unix;

pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};

/// The examples of the page compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/net-rust.md")]
mod net_page {}

use outboard::net::Net;
use std::io;
use std::net::SocketAddr;

/// The addresses of a host, by [`Net::resolve`] on a thread where it may block.
pub async fn resolve(net: &Net, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let (net, host) = (net.clone(), host.to_owned());
    let resolved = tokio::task::spawn_blocking(move || net.resolve(&host, port)).await;
    resolved.map_err(io::Error::other)?
}
