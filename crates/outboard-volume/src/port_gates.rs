// SPDX-License-Identifier: GPL-2.0-only
//! Sockets of the host that were passed to this process, and lead to servers of programs. Each has
//! a gate in the NAT, which opens when a server listens: until then, clients wait.

use outboard::{Kernel, NetworkUse};
use outboard_sandbox::PassedSocket;
use std::io::Write;
use std::os::unix::net::UnixStream;

/// The gates that are closed.
#[derive(Debug)]
pub(crate) struct PortGates {
    closed: Vec<PortGate>,
    /// Opens one by its number; `None`: there is no NAT yet.
    nat: Option<UnixStream>,
}

#[derive(Debug)]
struct PortGate {
    /// Among the passed sockets.
    number: u8,
    /// The server's port, and whether its clients use IPv6.
    port: u16,
    is_ipv6: bool,
}

impl PortGates {
    /// `None`: there are no sockets.
    pub(crate) fn of(sockets: &[PassedSocket]) -> Option<Self> {
        let gate = |(number, passed): (u8, &PassedSocket)| PortGate {
            number,
            port: passed.port,
            is_ipv6: passed.socket.address.is_ipv6(),
        };
        let closed: Vec<PortGate> = (0..=u8::MAX).zip(sockets).map(gate).collect();
        (!closed.is_empty()).then_some(Self { closed, nat: None })
    }

    pub(crate) fn opened_by(self, nat: UnixStream) -> Self {
        Self {
            nat: Some(nat),
            ..self
        }
    }

    /// Opens the gates of ports at which a server listens. Returns whether any is closed. To be
    /// called again and again.
    pub(crate) fn poll(&mut self, kernel: &Kernel) -> bool {
        let nat = &mut self.nat;
        let mut is_open = |gate: &PortGate| {
            let listens = NetworkUse::is_served(kernel, gate.port, gate.is_ipv6);
            let mut opened = || nat.as_mut().map(|nat| nat.write_all(&[gate.number]));
            listens.unwrap_or(false) && opened().is_some_and(|opened| opened.is_ok())
        };
        self.closed.retain(|gate| !is_open(gate));
        !self.closed.is_empty()
    }
}
