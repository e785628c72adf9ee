// SPDX-License-Identifier: GPL-2.0-only
//! Sockets that systemd passes (sd_listen_fds(3)), in the place of ports of `-p`.

use outboard::{Inherited, ListeningSocket};
use outboard_error::{Error, Result};
use outboard_sandbox::{HostPort, PassedSocket};
use std::io;
use std::os::fd::RawFd;

/// Takes the sockets that this process got. Each one must be for a port of `publish`.
pub fn take(publish: &[HostPort], inherited: &mut Inherited) -> Result<Vec<PassedSocket>> {
    let take = |number| passed(number, publish, inherited);
    numbers()?.into_iter().map(take).collect()
}

/// The descriptors of sockets for this process.
pub fn numbers() -> Result<Vec<RawFd>> {
    let found = sd_notify::listen_fds().map(Iterator::collect);
    found.map_err(|error| Error::failed("cannot use the sockets that systemd passes", &error))
}

fn passed(number: RawFd, publish: &[HostPort], inherited: &mut Inherited) -> Result<PassedSocket> {
    for_port(take_tcp(number, inherited)?, publish)
}

/// Takes a TCP socket.
pub fn take_tcp(number: RawFd, inherited: &mut Inherited) -> Result<ListeningSocket> {
    let taken = inherited.take_listener(number);
    taken.map_err(|error| no_listener(number, &error))
}

/// The port that a socket takes the place of.
pub fn for_port(socket: ListeningSocket, publish: &[HostPort]) -> Result<PassedSocket> {
    check_family(&socket)?;
    let port = socket.address.port();
    let is_for = |found: &&HostPort| !found.udp && found.address.port() == port;
    match publish.iter().find(is_for) {
        Some(found) => Ok(PassedSocket {
            socket,
            port: found.port,
        }),
        None => Err(Error::Usage(format!(
            "the socket {} that systemd passes leads nowhere: add -p {port}:PORT",
            socket.address
        ))),
    }
}

fn no_listener(number: RawFd, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::InvalidInput => "it is no TCP socket that listens".to_owned(),
        io::ErrorKind::NotFound => "there is no such descriptor".to_owned(),
        _ => error.to_string(),
    };
    Error::Failed(format!(
        "cannot use descriptor {number} that systemd passes: {reason}; use ListenStream= with an \
         address and a port, and Accept=no"
    ))
}

/// The NAT leads each family to an address of the same family.
fn check_family(socket: &ListeningSocket) -> Result<()> {
    if !socket.takes_both {
        return Ok(());
    }
    let port = socket.address.port();
    Err(Error::Failed(format!(
        "the socket {} that systemd passes takes IPv4 and IPv6 at a time, and the network of \
         programs needs one socket for each: use ListenStream=0.0.0.0:{port}, or add \
         BindIPv6Only=ipv6-only",
        socket.address
    )))
}
