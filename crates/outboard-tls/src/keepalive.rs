// SPDX-License-Identifier: MIT
//! Settings of sockets of a network.

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_nodelay,
    set_tcp_user_timeout,
};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Without a byte for so long, the host asks the other one whether it is there.
const IDLE: Duration = Duration::from_secs(20);
/// Between two such questions.
const INTERVAL: Duration = Duration::from_secs(10);
/// Questions without an answer.
const COUNT: u32 = 3;
/// Milliseconds that sent bytes may be without an answer: with any, no questions are asked.
const UNANSWERED: u32 = 50_000;

/// Small messages leave at once, and a host that falls silent ends the connection after 50 s.
/// `socket`: a connection, or one that listens, for all that are accepted.
pub(crate) fn prepare(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    set_tcp_nodelay(socket, true)?;
    set_tcp_keepidle(socket, IDLE)?;
    set_tcp_keepintvl(socket, INTERVAL)?;
    set_tcp_keepcnt(socket, COUNT)?;
    set_tcp_user_timeout(socket, UNANSWERED)?;
    set_socket_keepalive(socket, true)?;
    Ok(())
}
