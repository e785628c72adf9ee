// SPDX-License-Identifier: GPL-2.0-only
//! Network interfaces.

use crate::net::netlink::{describe, Netlink};
use crate::net::Net;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::RouteNetlinkMessage as Message;
use outboard_sys::libc;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Most bytes of an interface's name.
const NAME_LIMIT: usize = 15;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Its number in its namespace.
    pub index: u32,
    /// Its name, as in `eth0`.
    pub name: String,
    /// Its type if it is a virtual one, as in `veth`.
    pub kind: Option<String>,
    /// Its hardware address: six bytes for Ethernet.
    pub hardware_address: Vec<u8>,
    /// Largest packet that it sends, in bytes.
    pub mtu: u32,
    /// Whether it was set up.
    pub is_up: bool,
    /// Whether it can send and receive: it is up, and the other end of a veth or cable is, too.
    pub is_running: bool,
    /// The index of the bridge or bond that it is a port of.
    pub controller: Option<u32>,
}

impl Link {
    fn parse(message: &LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut link = Self {
            index: message.header.index,
            name: String::new(),
            kind: None,
            hardware_address: Vec::new(),
            mtu: 0,
            is_up: flags.contains(LinkFlags::Up),
            is_running: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
            controller: None,
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::Address(address) => link.hardware_address.clone_from(address),
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::Controller(index) => link.controller = Some(*index),
                LinkAttribute::LinkInfo(infos) => {
                    link.kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        link
    }
}

/// A name that the kernel's messages can carry.
fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name.len() > NAME_LIMIT || name.contains('\0') {
        let text = format!("{name:?} is no name of an interface: it has 1 to {NAME_LIMIT} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

fn named(name: &str) -> LinkMessage {
    let mut message = LinkMessage::default();
    message
        .attributes
        .push(LinkAttribute::IfName(name.to_owned()));
    message
}

/// A message about an interface that exists.
fn numbered(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn find(netlink: &Netlink, name: &str) -> io::Result<Link> {
    check_name(name)?;
    match netlink.get(Message::GetLink(named(name)))? {
        Message::NewLink(message) => Ok(Link::parse(&message)),
        _ => Err(io::Error::from_raw_os_error(libc::ENODEV)),
    }
}

/// The names of all interfaces by their indexes.
pub(crate) fn names(netlink: &Netlink) -> io::Result<HashMap<u32, String>> {
    let links = list(netlink)?.into_iter();
    Ok(links.map(|link| (link.index, link.name)).collect())
}

fn list(netlink: &Netlink) -> io::Result<Vec<Link>> {
    let all = netlink.list(&Message::GetLink(LinkMessage::default()))?;
    let links = all.iter().filter_map(|message| match message {
        Message::NewLink(message) => Some(Link::parse(message)),
        _ => None,
    });
    Ok(links.collect())
}

impl Net {
    /// Works with an interface. Errors get `what` and the interface's name in front.
    pub(crate) fn with_link<T>(
        &self,
        what: fmt::Arguments,
        name: &str,
        work: impl FnOnce(&Netlink, u32) -> io::Result<T>,
    ) -> io::Result<T> {
        let attempt = || {
            let netlink = Netlink::open(self)?;
            let link = find(&netlink, name)?;
            work(&netlink, link.index)
        };
        attempt().map_err(|error| describe(error, format_args!("cannot {what} {name}")))
    }

    fn change_link(
        &self,
        what: fmt::Arguments,
        name: &str,
        change: impl FnOnce(&mut LinkMessage),
    ) -> io::Result<()> {
        self.with_link(what, name, |netlink, index| {
            let mut message = numbered(index);
            change(&mut message);
            netlink.change(Message::SetLink(message), 0)
        })
    }

    /// All interfaces of this namespace.
    pub fn links(&self) -> io::Result<Vec<Link>> {
        let all = Netlink::open(self).and_then(|netlink| list(&netlink));
        all.map_err(|error| describe(error, format_args!("cannot list interfaces")))
    }

    /// An interface by its name.
    pub fn link(&self, name: &str) -> io::Result<Link> {
        let link = Netlink::open(self).and_then(|netlink| find(&netlink, name));
        link.map_err(|error| describe(error, format_args!("cannot find {name}")))
    }

    /// Lets an interface send and receive.
    pub fn set_up(&self, name: &str) -> io::Result<()> {
        self.change_link(format_args!("set up"), name, |message| {
            message.header.flags = LinkFlags::Up;
            message.header.change_mask = LinkFlags::Up;
        })
    }

    /// Stops an interface. Its routes are removed.
    pub fn set_down(&self, name: &str) -> io::Result<()> {
        self.change_link(format_args!("set down"), name, |message| {
            message.header.change_mask = LinkFlags::Up;
        })
    }

    /// Sets the largest packet that an interface sends, in bytes.
    pub fn set_mtu(&self, name: &str, mtu: u32) -> io::Result<()> {
        self.change_link(format_args!("set the MTU {mtu} of"), name, |message| {
            message.attributes.push(LinkAttribute::Mtu(mtu));
        })
    }

    /// Lets the kernel merge packets for an interface (TSO, GSO, GRO), or not. Without it, each
    /// packet passes a queue by itself: the loss of [`Net::set_netem`] is then that of a cable.
    pub fn set_merging(&self, name: &str, merges: bool) -> io::Result<()> {
        let (packets, bytes) = if merges {
            (u32::from(u16::MAX), 65536)
        } else {
            (1, 1)
        };
        self.change_link(format_args!("set the merging of"), name, |message| {
            message.attributes.extend([
                LinkAttribute::GsoMaxSegs(packets),
                LinkAttribute::GroMaxSize(bytes),
                LinkAttribute::GroIpv4MaxSize(bytes),
            ]);
        })
    }

    /// Sets the hardware address of an interface.
    pub fn set_hardware_address(&self, name: &str, address: &[u8]) -> io::Result<()> {
        let what = format_args!("set the hardware address of");
        self.change_link(what, name, |message| {
            let address = LinkAttribute::Address(address.to_vec());
            message.attributes.push(address);
        })
    }

    /// Gives an interface another name. It may have to be down.
    pub fn rename_link(&self, name: &str, new_name: &str) -> io::Result<()> {
        check_name(new_name)?;
        self.change_link(format_args!("rename"), name, |message| {
            let name = LinkAttribute::IfName(new_name.to_owned());
            message.attributes.push(name);
        })
    }

    /// Makes an interface a port of a bridge or bond. `None`: of nothing.
    pub fn set_controller(&self, name: &str, controller: Option<&str>) -> io::Result<()> {
        let index = match controller {
            Some(controller) => self.link(controller)?.index,
            None => 0,
        };
        let what = format_args!("set the controller of");
        self.change_link(what, name, |message| {
            message.attributes.push(LinkAttribute::Controller(index));
        })
    }

    /// Moves an interface into another network namespace of the same kernel, where it is down and
    /// has no addresses. EXDEV: the namespace is another kernel's.
    pub fn move_link(&self, name: &str, target: &Net) -> io::Result<()> {
        if self.system() != target.system() {
            let error = io::Error::from_raw_os_error(libc::EXDEV);
            return Err(describe(error, format_args!("cannot move {name}")));
        }
        let namespace = target.namespace()?;
        self.change_link(format_args!("move"), name, |message| {
            let namespace = LinkAttribute::NetNsFd(namespace.raw());
            message.attributes.push(namespace);
        })
    }

    fn add_link(&self, name: &str, kind: InfoKind, data: Option<InfoData>) -> io::Result<()> {
        let add = || {
            check_name(name)?;
            let mut message = named(name);
            let mut infos = vec![LinkInfo::Kind(kind)];
            infos.extend(data.map(LinkInfo::Data));
            message.attributes.push(LinkAttribute::LinkInfo(infos));
            let flags = NLM_F_CREATE | NLM_F_EXCL;
            Netlink::open(self)?.change(Message::NewLink(message), flags)
        };
        add().map_err(|error| describe(error, format_args!("cannot add {name}")))
    }

    /// Adds two interfaces that are connected to each other. Both are down.
    pub fn add_veth(&self, name: &str, peer: &str) -> io::Result<()> {
        check_name(peer)?;
        let peer = InfoData::Veth(InfoVeth::Peer(named(peer)));
        self.add_link(name, InfoKind::Veth, Some(peer))
    }

    /// Adds an interface that drops what it sends.
    pub fn add_dummy(&self, name: &str) -> io::Result<()> {
        // Loaded on demand, the component adds an interface dummy0. An error shows in add_link().
        let _ = self.kernel().load_component("dummy", "numdummies=0");
        self.add_link(name, InfoKind::Dummy, None)
    }

    /// Adds a bridge without ports: see [`Net::set_controller`].
    pub fn add_bridge(&self, name: &str) -> io::Result<()> {
        self.add_link(name, InfoKind::Bridge, None)
    }

    /// Adds an interface whose frames travel in UDP to one other computer: VXLAN. `number`: of the
    /// network, the same at both ends, below 2^24. Datagrams come from and go to the remote's port.
    pub fn add_vxlan(&self, name: &str, number: u32, remote: SocketAddr) -> io::Result<()> {
        let port = remote.port();
        let group = match remote {
            SocketAddr::V4(remote) => InfoVxlan::Group(*remote.ip()),
            SocketAddr::V6(remote) => InfoVxlan::Group6(*remote.ip()),
        };
        let data = vec![
            InfoVxlan::Id(number),
            group,
            InfoVxlan::Port(port),
            InfoVxlan::PortRange((port, port.saturating_add(1))),
            // An address translation on the way would be learnt as the remote.
            InfoVxlan::Learning(false),
        ];
        self.add_link(name, InfoKind::Vxlan, Some(InfoData::Vxlan(data)))
    }

    /// Removes an interface; of two that are connected by veth, both.
    pub fn delete_link(&self, name: &str) -> io::Result<()> {
        self.with_link(format_args!("delete"), name, |netlink, index| {
            netlink.change(Message::DelLink(numbered(index)), 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_limits() {
        assert!(check_name("eth0").is_ok());
        for name in ["", "an-interface-too-long", "a\0b"] {
            let error = check_name(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
