// SPDX-License-Identifier: GPL-2.0-only
//! UDP.

use crate::nonblocking::{Direction, Nonblocking};
use outboard::net::{self, Net};
use std::io;
use std::net::SocketAddr;

/// A UDP socket. Several tasks may send and receive at a time.
#[derive(Debug)]
pub struct UdpSocket(Nonblocking<net::UdpSocket>);

impl UdpSocket {
    /// A socket at an address. Port 0: any port.
    pub fn bind(net: &Net, address: SocketAddr) -> io::Result<Self> {
        Self::new(net, net.udp_bind(address)?)
    }

    /// Uses a socket that exists.
    pub fn new(net: &Net, socket: net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Nonblocking::new(net, socket).map(Self)
    }

    /// Sends to this address by [`UdpSocket::send`], and receives from it only.
    pub fn connect(&self, address: SocketAddr) -> io::Result<()> {
        self.0.socket().connect(address)
    }

    /// Sends a datagram to the connected address.
    pub async fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        let send = |socket: &net::UdpSocket| socket.send(buffer);
        self.0.call(Direction::Write, send).await
    }

    /// Sends a datagram to an address.
    pub async fn send_to(&self, buffer: &[u8], address: SocketAddr) -> io::Result<usize> {
        let send = |socket: &net::UdpSocket| socket.send_to(buffer, address);
        self.0.call(Direction::Write, send).await
    }

    /// Receives a datagram. Bytes that do not fit into the buffer are lost.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let receive = |socket: &net::UdpSocket| socket.recv(buffer);
        self.0.call(Direction::Read, receive).await
    }

    /// Receives a datagram and its sender.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let receive = |socket: &net::UdpSocket| socket.recv_from(buffer);
        self.0.call(Direction::Read, receive).await
    }

    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket().local_addr()
    }

    /// The socket, for its options. It is nonblocking.
    pub fn get_ref(&self) -> &net::UdpSocket {
        self.0.socket()
    }
}
