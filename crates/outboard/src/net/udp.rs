// SPDX-License-Identifier: GPL-2.0-only
//! UDP.

use crate::net::address::{family, first_of, from_raw, to_raw};
use crate::net::socket::{common_methods, timeout_methods, Socket};
use crate::net::{Net, ToAddresses};
use outboard_sys::{libc, SocketOption};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// A UDP socket, with the methods of [`std::net::UdpSocket`].
#[derive(Debug)]
pub struct UdpSocket(pub(crate) Socket);

common_methods!(UdpSocket);
timeout_methods!(UdpSocket);

fn membership_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> [u8; 8] {
    let mut value = [0; 8];
    value[..4].copy_from_slice(&group.octets());
    value[4..].copy_from_slice(&interface.octets());
    value
}

fn membership_v6(group: &Ipv6Addr, interface: u32) -> [u8; 20] {
    let mut value = [0; 20];
    value[..16].copy_from_slice(&group.octets());
    value[16..].copy_from_slice(&interface.to_ne_bytes());
    value
}

impl UdpSocket {
    /// Receives a datagram and its sender. Bytes that do not fit into the buffer are lost.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (length, sender) = self.0.receive_from(buffer, 0)?;
        Ok((length, from_raw(&sender)?))
    }

    /// Like [`UdpSocket::recv_from`], and leaves the datagram for the next call.
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (length, sender) = self.0.receive_from(buffer, libc::MSG_PEEK)?;
        Ok((length, from_raw(&sender)?))
    }

    /// Sends a datagram to an address. An address of the type [`SocketAddr`] needs no resolver.
    pub fn send_to(&self, buffer: &[u8], address: impl Into<SocketAddr>) -> io::Result<usize> {
        self.0.send_to(buffer, &to_raw(&address.into())?)
    }

    /// Sends to this address by [`UdpSocket::send`], and receives from it only.
    pub fn connect(&self, address: impl Into<SocketAddr>) -> io::Result<()> {
        self.0.connect(&to_raw(&address.into())?)
    }

    /// Sends a datagram to the connected address.
    pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        self.0.send(buffer)
    }

    /// Receives a datagram. Bytes that do not fit into the buffer are lost.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer)
    }

    /// Receives a datagram that the next call receives again.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.peek(buffer)
    }

    /// The address that the socket is connected to.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        from_raw(&self.0.peer_address()?)
    }

    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        from_raw(&self.0.local_address()?)
    }

    /// Whether the socket may send to broadcast addresses.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.0.set(SocketOption::BROADCAST, broadcast.into())
    }

    /// Whether the socket may send to broadcast addresses.
    pub fn broadcast(&self) -> io::Result<bool> {
        Ok(self.0.get(SocketOption::BROADCAST)? != 0)
    }

    /// Hops that a packet may take (`IP_TTL`).
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set(SocketOption::TTL, ttl)
    }

    /// Hops that a packet may take.
    pub fn ttl(&self) -> io::Result<u32> {
        self.0.get(SocketOption::TTL)
    }

    /// Whether this kernel receives its own multicast packets, with IPv4.
    pub fn set_multicast_loop_v4(&self, enabled: bool) -> io::Result<()> {
        self.0.set(SocketOption::MULTICAST_LOOP_V4, enabled.into())
    }

    /// Whether this kernel receives its own multicast packets, with IPv4.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        Ok(self.0.get(SocketOption::MULTICAST_LOOP_V4)? != 0)
    }

    /// Hops that a multicast packet may take, with IPv4.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.0.set(SocketOption::MULTICAST_TTL_V4, ttl)
    }

    /// Hops that a multicast packet may take, with IPv4.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.0.get(SocketOption::MULTICAST_TTL_V4)
    }

    /// Whether this kernel receives its own multicast packets, with IPv6.
    pub fn set_multicast_loop_v6(&self, enabled: bool) -> io::Result<()> {
        self.0.set(SocketOption::MULTICAST_LOOP_V6, enabled.into())
    }

    /// Whether this kernel receives its own multicast packets, with IPv6.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        Ok(self.0.get(SocketOption::MULTICAST_LOOP_V6)? != 0)
    }

    /// Joins a multicast group at the interface with this address.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        let value = membership_v4(group, interface);
        self.0.set_bytes(SocketOption::JOIN_V4, &value)
    }

    /// Leaves a multicast group.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        let value = membership_v4(group, interface);
        self.0.set_bytes(SocketOption::LEAVE_V4, &value)
    }

    /// Joins a multicast group at the interface with this index.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        let value = membership_v6(group, interface);
        self.0.set_bytes(SocketOption::JOIN_V6, &value)
    }

    /// Leaves a multicast group.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        let value = membership_v6(group, interface);
        self.0.set_bytes(SocketOption::LEAVE_V6, &value)
    }
}

impl Net {
    /// A UDP socket at the first address that is free. Port 0: any port.
    pub fn udp_bind(&self, addresses: impl ToAddresses) -> io::Result<UdpSocket> {
        first_of(&addresses.to_addresses(self)?, |address| {
            let socket = self.socket(family(address), libc::SOCK_DGRAM, 0)?;
            socket.bind(&to_raw(address)?)?;
            Ok(UdpSocket(socket))
        })
    }
}
