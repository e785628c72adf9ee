// SPDX-License-Identifier: GPL-2.0-only
//! Ports of the host that lead to programs.

use outboard::ListeningSocket;
use outboard_error::warn;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;

/// A port of the host that leads to a port of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// UDP; else TCP.
    pub udp: bool,
    /// The host's address and port. Port 0: a free one, which a note names.
    pub address: SocketAddr,
    /// The kernel's port.
    pub port: u16,
}

impl HostPort {
    /// In the words of the library.
    pub(crate) fn words(&self) -> String {
        let protocol = if self.udp { "udp" } else { "tcp" };
        format!("{protocol}:{}:{}", self.address, self.port)
    }

    /// Chooses a port if there is none yet.
    pub(crate) fn choose(&mut self) -> io::Result<()> {
        if self.address.port() != 0 {
            return Ok(());
        }
        self.address = if self.udp {
            UdpSocket::bind(self.address)?.local_addr()?
        } else {
            TcpListener::bind(self.address)?.local_addr()?
        };
        warn(format!(
            "note: {} leads to port {} of the programs",
            self.address, self.port
        ));
        Ok(())
    }
}

/// A TCP socket of the host that listens already, as systemd passes it, and leads to a port of the
/// kernel.
#[derive(Debug)]
pub struct PassedSocket {
    /// The socket.
    pub socket: ListeningSocket,
    /// The kernel's port.
    pub port: u16,
}

impl PassedSocket {
    /// In the words of the library.
    pub(crate) fn words(&self) -> String {
        format!("tcp:fd={}:{}", self.socket.socket.as_raw_fd(), self.port)
    }

    /// Whether it is in the place of a port that would be bound.
    pub fn is_for(&self, port: &HostPort) -> bool {
        let own = (false, self.socket.address.port(), self.port);
        own == (port.udp, port.address.port(), port.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_words() {
        let mut port = HostPort {
            udp: false,
            address: "127.0.0.1:8080".parse().unwrap(),
            port: 80,
        };
        assert_eq!(port.words(), "tcp:127.0.0.1:8080:80");
        port.address = "[::1]:53".parse().unwrap();
        port.udp = true;
        assert_eq!(port.words(), "udp:[::1]:53:80");
    }

    #[test]
    fn a_free_port_is_chosen() {
        let mut port = HostPort {
            udp: true,
            address: "127.0.0.1:0".parse().unwrap(),
            port: 80,
        };
        port.choose().unwrap();
        assert_ne!(port.address.port(), 0);
    }
}
