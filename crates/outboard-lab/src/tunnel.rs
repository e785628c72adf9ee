// SPDX-License-Identifier: GPL-2.0-only
//! A tunnel: the node that joins a link to its part in a lab on another machine.
//!
//! The node is a bridge between the link's segment and a VXLAN. The datagrams of the VXLAN leave by
//! an interface `user`, so the host sends them from an ordinary socket. A forwarded port of that
//! interface takes those that arrive.

use outboard::{Interface, Kernel};
use std::io;
use std::net::SocketAddrV4;

/// Components that only tunnels need.
pub const COMPONENTS: [&str; 2] = ["vxlan", "bridge"];
/// The number of the network. Each tunnel has a port of its own, so one number is enough.
const NUMBER: u32 = 1;
const VXLAN: &str = "vxlan0";
const BRIDGE: &str = "bridge0";

/// Joins the interface `inside` to the other end. The tunnel works as long as the result lives.
pub fn open(
    kernel: &Kernel,
    inside: &str,
    mtu: Option<u32>,
    remote: SocketAddrV4,
) -> io::Result<Interface> {
    let port = remote.port();
    let description = format!("user,name=outside,dhcp,forward=udp:{port}:{port}");
    let outside = kernel.add_interface(&description)?;
    let net = kernel.net();
    net.add_vxlan(VXLAN, NUMBER, remote.into())?;
    if let Some(mtu) = mtu {
        net.set_mtu(VXLAN, mtu)?;
    }
    net.add_bridge(BRIDGE)?;
    for port in [inside, VXLAN] {
        net.set_controller(port, Some(BRIDGE))?;
        net.set_up(port)?;
    }
    net.set_up(BRIDGE)?;
    Ok(outside)
}
