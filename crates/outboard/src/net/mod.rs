// SPDX-License-Identifier: GPL-2.0-only
//! Sockets of a kernel, and the configuration of its network.
//!
//! [`Kernel::net`](crate::Kernel::net) returns a [`Net`], which makes sockets. These have the
//! methods and traits of std's sockets. A new kernel has one interface, `lo`, which is down.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use std::io::{Read, Write};
//! let kernel = outboard::Kernel::builder().boot()?;
//! let net = kernel.net();
//! net.set_up("lo")?;
//! let listener = net.tcp_listen("127.0.0.1:0")?;
//! let mut client = net.tcp_connect(listener.local_addr()?)?;
//! let (mut server, _) = listener.accept()?;
//! client.write_all(b"Hello")?;
//! let mut text = [0; 5];
//! server.read_exact(&mut text)?;
//! # Ok(())
//! # }
//! ```
//!
//! | for | see |
//! |---|---|
//! | connections and datagrams | [`TcpStream`], [`TcpListener`], [`UdpSocket`], [`UnixStream`] |
//! | ending a blocked call of another thread | [`crate::Cancel`], [`crate::Deadline`] |
//! | waiting for many sockets, in an event loop of the host | [`Poller`], [`Net::watch`] |
//! | interfaces, addresses, routes | [`Net::links`], [`Net::add_address`], [`Net::add_route`] |
//! | network namespaces | [`Net::new_namespace`] |
//! | names of hosts | [`Net::resolve`] |
//!
//! After the halt of a kernel, calls on its sockets fail with [`KernelError::Halted`], also those
//! that block. Sockets do not keep a kernel running; a [`Net`] does.
//!
//! [`KernelError::Halted`]: crate::KernelError::Halted

mod address;
mod counters;
mod dns;
mod firewall;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod link;
pub(crate) mod messages;
mod netem;
mod netlink;
mod network;
mod poller;
mod prefix;
mod raw;
mod resolve;
mod routing;
mod socket;
mod tcp;
mod udp;
mod unix;

pub use crate::readiness::{EventSource, Ready, Watch};
pub use address::ToAddresses;
pub use counters::Counters;
pub use firewall::{ConnectionState, FirewallRule, IpProtocol, Verdict};
pub use link::Link;
pub use netem::Netem;
pub use network::Net;
pub use poller::{Event, Poller, Registration};
pub use prefix::{Prefix, ToPrefix};
pub use raw::RawSocket;
pub use routing::{LinkAddress, Neighbour, Route};
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{Credentials, UnixDatagram, UnixIncoming, UnixListener, UnixStream};
