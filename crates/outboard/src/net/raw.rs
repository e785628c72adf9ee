// SPDX-License-Identifier: GPL-2.0-only
//! Raw sockets: packets of one protocol over IP, as ICMP.

use crate::net::address::{from_raw, to_raw};
use crate::net::socket::{common_methods, timeout_methods, Socket};
use crate::net::Net;
use outboard_sys::{libc, SocketOption};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A socket for packets of one protocol over IPv4 or IPv6.
///
/// A received IPv4 packet begins with its IP header, a received IPv6 packet does not. The kernel
/// writes the headers of sent packets, and the checksum of ICMPv6.
#[derive(Debug)]
pub struct RawSocket(Socket);

common_methods!(RawSocket);
timeout_methods!(RawSocket);

impl RawSocket {
    /// Sends a packet to an address.
    pub fn send_to(&self, packet: &[u8], address: IpAddr) -> io::Result<usize> {
        self.0
            .send_to(packet, &to_raw(&SocketAddr::new(address, 0))?)
    }

    /// Receives a packet and its sender. Bytes that do not fit into the buffer are lost.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, IpAddr)> {
        let (length, sender) = self.0.receive_from(buffer, 0)?;
        Ok((length, from_raw(&sender)?.ip()))
    }
}

impl Net {
    /// A socket for ICMP, that is, ICMPv6 if `is_v6`.
    pub fn icmp_socket(&self, is_v6: bool) -> io::Result<RawSocket> {
        let (family, protocol) = if is_v6 {
            (libc::AF_INET6, libc::IPPROTO_ICMPV6)
        } else {
            (libc::AF_INET, libc::IPPROTO_ICMP)
        };
        self.socket(family, libc::SOCK_RAW, protocol).map(RawSocket)
    }
}
