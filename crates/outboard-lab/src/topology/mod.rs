// SPDX-License-Identifier: GPL-2.0-only
//! A topology: nodes, links between them, and the steps of an experiment. `parse` reads and checks
//! a file; everything after it can trust the indexes and names here.

mod addresses;
mod hosts;
mod links;
mod networks;
mod nodes;
mod steps;

use crate::error::{Error, Result};
use crate::firewall::Firewall;
use crate::quantity;
use crate::yaml::{self, Yaml};
use outboard::net::{Netem, Prefix};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddrV4};

pub use steps::{Action, Bound, Echo, Expectation, LabStep, Metric, TransferStep};

/// Most nodes: each is a process.
pub const MOST_NODES: usize = 2000;
/// Most links.
pub const MOST_LINKS: usize = 4000;
/// Most nodes on one link: ports of a hub.
pub const MOST_PORTS: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Topology {
    pub name: String,
    pub nodes: Vec<Node>,
    pub links: Vec<TopologyLink>,
    /// Whether the lab computes routes: the shortest paths by the costs of links.
    pub computes_routes: bool,
    /// Where the choices of netem begin.
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

/// The index of each name.
pub(crate) type NameIndex = HashMap<String, usize>;

/// Whether a text can be the name of a node or link, and part of a file's name.
fn is_name(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=32).contains(&text.len()) && text.bytes().all(is_word)
}

fn check_name(text: &str, line: usize) -> Result<()> {
    if is_name(text) {
        Ok(())
    } else {
        let text = format!("{text:?} is no name: use up to 32 letters, digits, - and _");
        Err(Error::topology(line, text))
    }
}

/// The names of `n1..n255` or `n01..n255`, or the one name.
fn expand(text: &str, line: usize) -> Result<Vec<String>> {
    let Some((first, last)) = text.split_once("..") else {
        check_name(text, line)?;
        return Ok(vec![text.to_owned()]);
    };
    let range = numbered(first).zip(numbered(last));
    match range {
        Some(((stem, from, width), (other, to, other_width)))
            if stem == other && from <= to && to - from < MOST_NODES =>
        {
            let width = width.max(other_width);
            let names = (from..=to).map(|number| {
                let name = format!("{stem}{number:0width$}");
                check_name(&name, line).map(|()| name)
            });
            names.collect()
        }
        _ => {
            let text =
                format!("{text:?} is no range: write it as n1..n9, of at most {MOST_NODES} names");
            Err(Error::topology(line, text))
        }
    }
}

/// Splits the number at the end of a name off: the stem, the number, and how many digits the
/// numbers of a range have at least. As in a shell, a leading zero asks for numbers of one width.
fn numbered(name: &str) -> Option<(&str, usize, usize)> {
    let stem = name.trim_end_matches(|character: char| character.is_ascii_digit());
    let digits = &name[stem.len()..];
    let has_zero = digits.len() > 1 && digits.starts_with('0');
    let width = if has_zero { digits.len() } else { 0 };
    Some((stem, digits.parse().ok()?, width))
}

impl Topology {
    /// Parses and checks the text of a file.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > yaml::LARGEST {
            let most = yaml::LARGEST >> 20;
            return Err(Error::topology(
                0,
                format!("the file has more than {most} MiB"),
            ));
        }
        Self::read(&yaml::parse(text)?)
    }

    fn read(file: &Yaml) -> Result<Self> {
        let known = [
            "name",
            "addresses",
            "loopbacks",
            "nodes",
            "links",
            "routing",
            "seed",
            "steps",
        ];
        let members = file.members("the file", &known)?;
        let missing = |name: &str| Error::topology(file.line, format!("{name} are missing"));
        let mut topology = Self {
            name: members
                .parse("name", |text| Ok(text.to_owned()))?
                .unwrap_or_default(),
            seed: members.parse("seed", quantity::number(0, u64::MAX))?,
            ..Self::default()
        };
        let computed = members.parse("routing", |text| match text {
            "computed" => Ok(true),
            "static" => Ok(false),
            _ => Err("write static or computed".to_owned()),
        })?;
        topology.computes_routes = computed.unwrap_or(false);
        let nodes = members.get("nodes").ok_or_else(|| missing("nodes"))?;
        let names = topology.read_nodes(nodes)?;
        if let Some(pools) = members.get("loopbacks") {
            addresses::assign_loopbacks(&mut topology, pools)?;
        }
        let link_names = match members.get("links") {
            Some(links) => topology.read_links(links, &names, members.get("addresses"))?,
            None => NameIndex::new(),
        };
        hosts::check(&topology)?;
        networks::check(&topology)?;
        if let Some(steps) = members.get("steps") {
            topology.read_steps(steps, &names, &link_names)?;
        }
        Ok(topology)
    }

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

/// Whether a setting is one of IPv6.
fn is_of_v6(name: &str) -> bool {
    name.contains("ipv6")
}

/// The index that a name has.
fn find(names: &NameIndex, kind: &str, name: &str, line: usize) -> Result<usize> {
    names
        .get(name)
        .copied()
        .ok_or_else(|| Error::topology(line, format!("there is no {kind} {name:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        expand(text, 1).unwrap()
    }

    #[test]
    fn a_range_has_the_names_that_it_shows() {
        assert_eq!(names("n1"), ["n1"]);
        assert_eq!(names("n9..n11"), ["n9", "n10", "n11"]);
        assert_eq!(names("n01..n03"), ["n01", "n02", "n03"]);
        assert_eq!(names("n08..n10"), ["n08", "n09", "n10"]);
        assert_eq!(names("n1..n03"), ["n01", "n02", "n03"]);
        assert_eq!(names("n099..n101"), ["n099", "n100", "n101"]);
        assert_eq!(names("n0..n1"), ["n0", "n1"]);
        assert_eq!(names("r2-n1..r2-n2"), ["r2-n1", "r2-n2"]);
        assert_eq!(names("7..8"), ["7", "8"]);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        let long = "a".repeat(32);
        for text in [
            "n2..n1",
            "n1..m2",
            "n..n2",
            "n1..",
            "n1..n99999999999999999999999",
            "n1..n2001",
            "a/1..a/2",
            &format!("{long}1..{long}9"),
            &format!("{0}9..{0}10", &long[1..]),
        ] {
            assert!(expand(text, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn captures_have_names_of_their_own() {
        let text = "
nodes: {a: , b-c: , c: , tunnel: }
links:
  a-b: {nodes: [a, c]}
  a: {nodes: [a, b-c]}
";
        let topology = Topology::parse(text).unwrap();
        let ends = [(0, 0), (0, 2), (1, 0), (1, 1)];
        let names = ends.map(|(link, node)| topology.capture_name(link, node));
        let wanted = ["a-b-a.pcapng", "a-b.c.pcapng", "a-a.pcapng", "a.b-c.pcapng"];
        assert_eq!(names, wanted);
    }
}
