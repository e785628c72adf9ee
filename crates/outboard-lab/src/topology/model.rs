// SPDX-License-Identifier: GPL-2.0-only
//! The parts of a topology.

use super::step::{is_of_v6, LabStep};
use crate::firewall::Firewall;
use outboard::net::{Netem, Prefix};
use std::net::{IpAddr, SocketAddrV4};

#[derive(Clone, Debug, Default)]
pub struct Topology {
    pub name: String,
    pub nodes: Vec<Node>,
    pub links: Vec<TopologyLink>,
    /// Whether the lab computes routes: the shortest paths by the costs of links.
    pub computes_routes: bool,
    /// The seed of the choices of netem.
    pub seed: Option<u64>,
    pub steps: Vec<LabStep>,
}

/// One kernel.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub name: String,
    /// Whether it is a router.
    pub forwards: bool,
    pub vcpus: u32,
    pub sysctls: Vec<(String, String)>,
    pub routes: Vec<StaticRoute>,
    pub firewall: Option<Firewall>,
    /// Addresses that do not depend on a link: routes lead to them over any.
    pub loopbacks: Vec<Prefix>,
    /// The indexes of its links. An interface's number is its place here.
    pub links: Vec<usize>,
    /// The other end, if this node is no host or router but a tunnel.
    pub tunnel: Option<SocketAddrV4>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    pub line: usize,
    pub destination: Prefix,
    pub gateway: IpAddr,
}

/// An Ethernet segment.
#[derive(Clone, Debug)]
pub struct TopologyLink {
    pub name: String,
    pub line: usize,
    pub ports: Vec<Port>,
    /// Whether a part of it is on another machine, beyond its last port.
    pub is_tunnelled: bool,
    pub cost: u32,
    pub mtu: Option<u32>,
    /// Of each port, in the direction that it sends.
    pub netem: Option<Netem>,
    /// Whether `--pcap` captures it.
    pub captures: bool,
}

/// The interface of a node on a link.
#[derive(Clone, Debug)]
pub struct Port {
    pub node: usize,
    /// The number behind `eth`.
    pub interface: usize,
    pub addresses: Vec<Prefix>,
}

impl Port {
    pub fn interface(&self) -> String {
        format!("eth{}", self.interface)
    }
}

impl TopologyLink {
    /// The hardware address of a port. `link`: the index of this link. The labs at both ends of a
    /// tunnel number their ports alike, but have different IP addresses.
    pub fn hardware_address(&self, link: usize, port: usize) -> [u8; 6] {
        let mut addresses = self.ports[port].addresses.iter();
        let [a, b, c, d] = match addresses.next().filter(|_| self.is_tunnelled) {
            Some(prefix) => last_bytes(prefix.address()),
            None => [(link >> 8) as u8, link as u8, 0, port as u8],
        };
        [2, u8::from(self.is_tunnelled), a, b, c, d]
    }
}

/// The part of an address that differs on one link.
fn last_bytes(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => (u128::from(address) as u32).to_be_bytes(),
    }
}

impl Topology {
    /// The ports of a node, with the indexes of their links and of themselves.
    pub fn ports_of(&self, node: usize) -> impl Iterator<Item = (usize, usize, &Port)> {
        self.nodes[node].links.iter().filter_map(move |&link| {
            let mut ports = self.links[link].ports.iter().enumerate();
            let (port, found) = ports.find(|(_, port)| port.node == node)?;
            Some((link, port, found))
        })
    }

    /// The name of the capture of a node at a link: `LINK-NODE.pcapng`. Names may have a hyphen:
    /// where two ends would have one name, a dot, which no name has, stands between the two.
    pub fn capture_name(&self, link: usize, node: usize) -> String {
        let (own, node) = (&self.links[link].name, &self.nodes[node].name);
        let name = format!("{own}-{node}");
        // A lab may have thousands of ends: no name is put together for each.
        let is_same = |link: &TopologyLink, port: &Port| {
            let rest = name.strip_prefix(&link.name);
            let rest = rest.and_then(|rest| rest.strip_prefix('-'));
            rest == Some(&self.nodes[port.node].name)
        };
        let links = self.links.iter();
        let same = links.flat_map(|link| link.ports.iter().filter(|port| is_same(link, port)));
        match same.count() {
            0 | 1 => format!("{name}.pcapng"),
            _ => format!("{own}.{node}.pcapng"),
        }
    }

    /// Whether there is work to do when all links work.
    pub fn has_worse_links_or_firewalls(&self) -> bool {
        self.links.iter().any(|link| link.netem.is_some())
            || self.nodes.iter().any(|node| node.firewall.is_some())
    }

    /// Whether any address or setting is of IPv6.
    pub fn has_v6(&self) -> bool {
        let ports = self.links.iter().flat_map(|link| &link.ports);
        let own = ports.flat_map(|port| &port.addresses);
        let loopbacks = self.nodes.iter().flat_map(|node| &node.loopbacks);
        let mut all = own.chain(loopbacks);
        let settings = self.nodes.iter().flat_map(|node| &node.sysctls);
        all.any(|prefix| prefix.address().is_ipv6())
            || settings.into_iter().any(|(name, _)| is_of_v6(name))
            || self.steps.iter().any(LabStep::has_v6)
    }

    /// The first address of a node, of one family or of any: that of loopback, if it has one.
    pub fn address_of(&self, node: usize, is_v6: Option<bool>) -> Option<IpAddr> {
        let ports = self.ports_of(node).flat_map(|(_, _, port)| &port.addresses);
        let loopbacks = self.nodes[node].loopbacks.iter();
        let all = loopbacks.chain(ports).map(|prefix| prefix.address());
        let mut wanted = all.filter(|address| is_v6.is_none_or(|is_v6| address.is_ipv6() == is_v6));
        wanted.next()
    }
}
