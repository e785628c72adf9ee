// SPDX-License-Identifier: GPL-2.0-only
//! Sockets of a kernel in this process, for tokio.
//!
//! The types are those of [`outboard::net`] with async methods, [`AsyncRead`] and [`AsyncWrite`].
//! They work in every runtime of tokio, which needs no I/O driver for them: one thread of the
//! kernel's readiness bridge wakes the tasks. Idle connections use no CPU.
//!
//! ```no_run
//! use outboard_tokio::{TcpListener, TcpStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn example() -> std::io::Result<()> {
//! let net = outboard::Kernel::builder().boot()?.net();
//! net.set_up("lo")?;
//! let listener = TcpListener::bind(&net, "127.0.0.1:80".parse().unwrap())?;
//! let mut client = TcpStream::connect(&net, "127.0.0.1:80".parse().unwrap()).await?;
//! let (mut server, _) = listener.accept().await?;
//! client.write_all(b"Hello").await?;
//! let mut text = [0; 5];
//! server.read_exact(&mut text).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A future that is dropped cancels its call: no byte is lost. After the halt of the kernel all
//! calls fail with [`KernelError::Halted`].
//!
//! [`KernelError::Halted`]: outboard::KernelError::Halted
//!
//! [`AsyncRead`]: tokio::io::AsyncRead
//! [`AsyncWrite`]: tokio::io::AsyncWrite

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
