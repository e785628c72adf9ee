// SPDX-License-Identifier: GPL-2.0-only
//! Sockets that listen already when this process starts, as systemd passes them.

use crate::process::Inherited;
use libc::c_int;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;

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

impl ListeningSocket {
    /// Takes a socket over. `InvalidInput`: it is no TCP socket that listens.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        check_listens(&socket)?;
        let listener = TcpListener::from(socket.try_clone()?);
        // Others have an address of another family.
        let address = listener.local_addr()?;
        // A peer may go between poll() and accept().
        listener.set_nonblocking(true)?;
        let is_v6 = option(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
        Ok(Self {
            takes_both: address.is_ipv6() && is_v6? == 0,
            socket,
            address,
        })
    }
}

impl Inherited {
    /// Takes a descriptor out of the others, a TCP socket that listens: [`ListeningSocket::new`].
    /// `NotFound`: there is no such descriptor any more.
    pub fn take_listener(&mut self, number: RawFd) -> io::Result<ListeningSocket> {
        ListeningSocket::new(self.take(number).ok_or(io::ErrorKind::NotFound)?)
    }

    /// Takes the descriptor out of the others if it is a Unix socket that listens, whose address
    /// is a path.
    pub fn take_unix_listener(&mut self, number: RawFd) -> Option<UnixListener> {
        let at = self.at(number)?;
        check_listens(at).ok()?;
        let address = UnixListener::from(at.try_clone_to_owned().ok()?).local_addr();
        address.ok()?.as_pathname()?;
        self.take(number).map(UnixListener::from)
    }
}

/// `InvalidInput`: it is no stream socket that listens.
fn check_listens(socket: impl AsFd) -> io::Result<()> {
    let is = |name| option(&socket, libc::SOL_SOCKET, name);
    if is(libc::SO_TYPE)? == libc::SOCK_STREAM && is(libc::SO_ACCEPTCONN)? != 0 {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidInput.into())
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
