// SPDX-License-Identifier: GPL-2.0-only
//! Sockets that listen already when this process starts, as systemd passes them.

use crate::process::Inherited;
use libc::c_int;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// A TCP socket that listens.
#[derive(Debug)]
pub struct ListeningSocket {
    /// The socket, which is this value's own.
    pub socket: OwnedFd,
    /// Its address and port.
    pub address: SocketAddr,
    /// It takes connections of IPv4 and IPv6.
    pub takes_both: bool,
}

impl Inherited {
    /// Takes a descriptor out of the others. `InvalidInput`: it is no TCP socket that listens.
    /// `NotFound`: there is no such descriptor any more.
    pub fn take_listener(&mut self, number: RawFd) -> io::Result<ListeningSocket> {
        let socket = self.take(number).ok_or(io::ErrorKind::NotFound)?;
        let is = |level, name| Ok::<_, io::Error>(option(&socket, level, name)? != 0);
        let listens = option(&socket, libc::SOL_SOCKET, libc::SO_TYPE)? == libc::SOCK_STREAM
            && is(libc::SOL_SOCKET, libc::SO_ACCEPTCONN)?;
        if !listens {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let listener = TcpListener::from(socket.try_clone()?);
        // Others have an address of another family.
        let address = listener.local_addr()?;
        // A peer may go between poll() and accept().
        listener.set_nonblocking(true)?;
        let takes_both = address.is_ipv6() && !is(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)?;
        Ok(ListeningSocket {
            socket,
            address,
            takes_both,
        })
    }
}

fn option(socket: impl AsFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` has `size` bytes, and the descriptor is open during the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &mut size,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value)
}
