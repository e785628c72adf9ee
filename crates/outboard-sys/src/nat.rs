// SPDX-License-Identifier: GPL-2.0-only
//! Rootless NAT by libslirp, in a process without a kernel.

use crate::ffi;
use crate::instance::with_reason;
use libc::c_uint;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::null_mut;

/// How a NAT works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatOptions {
    /// IPv6, too.
    pub ipv6: bool,
    /// The gateway's address leads to the host's loopback.
    pub host_loopback: bool,
}

/// A NAT with its ports of the host. They are closed when this is dropped.
pub struct Nat(*mut ffi::ob_net_nat);

impl Nat {
    /// Loads libslirp, and opens ports of the host that lead to the kernel: `forwards` is as
    /// "127.0.0.1:8080:80,udp:53:5353,fd=3:80", or empty. `NotFound`: libslirp is not installed.
    /// The error has the reason.
    pub fn open(forwards: &CStr, options: NatOptions) -> io::Result<Self> {
        let mut flags: c_uint = 0;
        if !options.ipv6 {
            flags |= ffi::OB_NET_NAT_NO_IPV6;
        }
        if !options.host_loopback {
            flags |= ffi::OB_NET_NAT_NO_HOST_LOOPBACK;
        }
        let words = if forwards.is_empty() {
            std::ptr::null()
        } else {
            forwards.as_ptr()
        };
        let mut nat = null_mut();
        // SAFETY: the string ends with a NUL, and there is room for the handle.
        let result = unsafe { ffi::ob_net_nat_new(words, flags, &mut nat) };
        if result < 0 {
            return Err(with_reason(io::Error::from_raw_os_error(-result)));
        }
        Ok(Self(nat))
    }

    /// Serves the kernel that has the interface "stream" at the other end of the socket. Blocks
    /// until that end is closed. Trusts nothing that comes from it. A byte from `gate` is the
    /// number of a socket of this process among the forwards: it takes connections from then on.
    pub fn serve(&mut self, socket: impl AsFd, gate: Option<BorrowedFd>) {
        let gate = gate.map_or(-1, |gate| gate.as_raw_fd());
        // SAFETY: the handle is good, and the descriptors are open during the call.
        unsafe { ffi::ob_net_nat_serve(self.0, socket.as_fd().as_raw_fd(), gate) };
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        // SAFETY: the handle is good, and nothing uses it later.
        unsafe { ffi::ob_net_nat_free(self.0) };
    }
}
