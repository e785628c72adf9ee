// SPDX-License-Identifier: GPL-2.0-only
//! The network of a kernel behind the host's addresses, by libslirp in a process of its own.
//!
//! | process | has |
//! |---|---|
//! | this one, with the kernel | one end of a pair of sockets, for frames |
//! | the NAT | the other end, sockets of the host, /etc/resolv.conf |
//!
//! So a program that takes the kernel's process over has no sockets of the host: what the NAT
//! refuses, such as the host's loopback, stays out of its reach.

use crate::host_port::{HostPort, PassedSocket};
use crate::sandbox::{HostAccess, NetworkAccess, Sandbox};
use outboard::{ignore, Nat, NatOptions};
use outboard_error::{Error, ErrorKind, Result};
use outboard_worker::{CopyOptions, Descriptors, WorkerProcess};
use std::ffi::CString;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The name servers of the host, which libslirp reads.
const RESOLVER: &str = "/etc/resolv.conf";
/// An address that no host has, for a look at the host's routes.
const ANY_HOST6: &str = "[2001:db8::1]:9";
/// Signals to the group of this process's terminal: the program decides when it ends.
const NOT_FOR_NAT: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// A NAT to start.
#[derive(Debug, Default)]
pub struct NatRequest {
    /// Ports of the host.
    pub ports: Vec<HostPort>,
    /// Sockets that listen already. Each takes connections when its gate is opened.
    pub sockets: Vec<PassedSocket>,
    /// The gateway's address leads to the host's loopback.
    pub host_loopback: bool,
    /// The NAT is not sandboxed.
    pub no_sandbox: bool,
}

/// Whether the NAT works; false: libslirp is not installed.
type IsThere = bool;

/// A NAT in its process, which ends when this is dropped and the kernel has no interface of it.
pub struct NatProcess {
    process: WorkerProcess<(), std::result::Result<IsThere, Error>>,
    socket: UnixStream,
    gate: Option<UnixStream>,
    ipv6: bool,
}

fn cannot(error: &io::Error) -> Error {
    Error::failed("cannot start the network of programs", error)
}

/// Whether the host has a route to hosts of IPv6.
fn reaches_ipv6() -> bool {
    let socket = UdpSocket::bind("[::]:0");
    socket.is_ok_and(|socket| socket.connect(ANY_HOST6).is_ok())
}

/// The NAT's needs of the host.
fn access() -> HostAccess {
    HostAccess {
        reads: vec![PathBuf::from(RESOLVER)],
        parses: true,
        network: Some(NetworkAccess {
            translates: true,
            ..NetworkAccess::default()
        }),
        ..HostAccess::default()
    }
}

/// In the NAT's process.
fn open(forwards: &str, options: NatOptions, no_sandbox: bool) -> Result<Option<Nat>> {
    NOT_FOR_NAT.into_iter().for_each(ignore);
    let forwards = CString::new(forwards).map_err(|error| cannot(&error.into()))?;
    let nat = match Nat::open(&forwards, options) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(|error| cannot(&error))?,
    };
    if !no_sandbox {
        Sandbox::enter(&access(), None, &[])?.close()?;
    }
    Ok(Some(nat))
}

impl NatProcess {
    /// Starts a NAT. The process must have one thread.
    pub fn start(mut request: NatRequest) -> Result<Self> {
        let mut ports = request.ports.iter_mut();
        let chosen = ports.try_for_each(HostPort::choose);
        chosen.map_err(|error| cannot(&error))?;
        let is_v6 = |port: &HostPort| matches!(port.address.ip(), IpAddr::V6(_));
        let has_v6 = |passed: &PassedSocket| passed.socket.address.is_ipv6();
        let ipv6 =
            request.sockets.iter().any(has_v6) || request.ports.iter().any(is_v6) || reaches_ipv6();
        let options = NatOptions {
            ipv6,
            host_loopback: request.host_loopback,
        };
        let ports = request.ports.iter().map(HostPort::words);
        let words = ports.chain(request.sockets.iter().map(PassedSocket::words));
        let words: Vec<String> = words.collect();
        let (gate, their_gate) = UnixStream::pair().map_err(|error| cannot(&error))?;
        let (socket, theirs) = UnixStream::pair().map_err(|error| cannot(&error))?;
        let copy = CopyOptions {
            descriptors: Descriptors::Without(vec![socket.as_raw_fd(), gate.as_raw_fd()]),
            ..CopyOptions::default()
        };
        let process = WorkerProcess::copy(copy, |parent| {
            let opened = open(&words.join(","), options, request.no_sandbox);
            let (report, nat) = match opened {
                Ok(nat) => (Ok(nat.is_some()), nat),
                Err(error) => (Err(error), None),
            };
            parent.send(&report)?;
            if let Some(mut nat) = nat {
                nat.serve(&theirs, Some(their_gate.as_fd()));
            }
            Ok(())
        });
        Ok(Self {
            process: process.map_err(|error| cannot(&error))?,
            socket,
            gate: Some(gate),
            ipv6,
        })
    }

    /// Waits until the NAT serves. False: libslirp is not installed.
    pub fn wait(&mut self) -> Result<bool> {
        self.process.receive(None)?
    }

    /// The gate of the passed sockets: a byte with the number of one opens it. Once.
    pub fn take_gate(&mut self) -> Option<UnixStream> {
        self.gate.take()
    }

    /// Whether the kernel reaches hosts of IPv6.
    pub fn has_ipv6(&self) -> bool {
        self.ipv6
    }
}

/// The error of a network without libslirp.
pub fn no_libslirp() -> Error {
    Error::known(
        ErrorKind::Unsupported,
        "cannot connect programs to the network: libslirp is not installed; install the package \
         libslirp0",
    )
}

/// The end for the kernel's interface.
impl AsFd for NatProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
