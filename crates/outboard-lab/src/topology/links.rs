// SPDX-License-Identifier: GPL-2.0-only
//! The links of a topology file.

use super::addresses::{self, prefixes};
use super::model::{Node, Port, Topology, TopologyLink};
use super::names::{check_name, expand, find, NameIndex, MOST_NODES};
use super::nodes::truth;
use crate::error::{Error, Result};
use crate::quantity::{number, rate, share, time, ParseResult};
use crate::yaml::{MapReader, Yaml};
use outboard::net::{Netem, Prefix};
use std::net::SocketAddrV4;

/// Most links.
const MOST_LINKS: usize = 4000;
/// Most nodes on one link: ports of a hub.
const MOST_PORTS: usize = 64;

/// Keys that name the nodes of a link; a link has one of them.
const SHAPES: [&str; 3] = ["nodes", "line", "ring"];
/// Keys that make a link a worse one.
const NETEM: [&str; 7] = [
    "delay",
    "jitter",
    "loss",
    "rate",
    "reorder",
    "duplicate",
    "limit",
];
/// The other keys.
const OTHERS: [&str; 6] = ["prefix", "cost", "mtu", "seed", "capture", "tunnel"];

fn netem(members: &MapReader, line: usize) -> Result<Option<Netem>> {
    let plain = Netem::default();
    let netem = Netem {
        delay: members.parse("delay", time)?.unwrap_or_default(),
        jitter: members.parse("jitter", time)?.unwrap_or_default(),
        loss: members.parse("loss", share)?.unwrap_or_default(),
        duplicate: members.parse("duplicate", share)?.unwrap_or_default(),
        reorder: members.parse("reorder", share)?.unwrap_or_default(),
        rate: members.parse("rate", rate)?.map(|bits| (bits / 8.0) as u64),
        limit: members
            .parse("limit", number(1, 1_000_000))?
            .map_or(plain.limit, |limit| limit as u32),
        seed: members.parse("seed", number(0, u64::MAX))?,
    };
    if netem.reorder > 0.0 && netem.delay.is_zero() {
        let text = "reorder: packets overtake others only where these are delayed: set a delay";
        return Err(Error::topology(line, text));
    }
    let is_worse = NETEM.iter().any(|name| members.get(name).is_some());
    Ok(is_worse.then_some(netem))
}

/// A node on a link, its line, and its addresses in the file.
type LinkEnd = (usize, usize, Vec<Prefix>);

fn ends(yaml: &Yaml, names: &NameIndex) -> Result<Vec<LinkEnd>> {
    let mut ends = Vec::new();
    if let Ok(pairs) = yaml.pairs("nodes") {
        for (key, value) in pairs {
            let node = find(names, "node", &key.name, key.line)?;
            ends.push((node, key.line, prefixes(value, &key.name)?));
        }
        return Ok(ends);
    }
    for item in yaml.items("nodes")? {
        for name in expand(item.text("nodes")?, item.line)? {
            ends.push((
                find(names, "node", &name, item.line)?,
                item.line,
                Vec::new(),
            ));
        }
    }
    Ok(ends)
}

/// The nodes of each segment that a link stands for: one, or those of a line or ring.
fn segments(members: &MapReader, line: usize, names: &NameIndex) -> Result<Vec<Vec<LinkEnd>>> {
    let mut given = SHAPES
        .iter()
        .filter_map(|shape| members.get(shape).map(|yaml| (*shape, yaml)));
    let (Some((shape, yaml)), None) = (given.next(), given.next()) else {
        let text = "a link has one of nodes, line, ring";
        return Err(Error::topology(line, text));
    };
    let ends = ends(yaml, names)?;
    // A tunnel is an end, too.
    let least = match (shape, members.get("tunnel")) {
        ("ring", _) => 3,
        (_, Some(_)) => 1,
        (_, None) => 2,
    };
    if ends.len() < least {
        let text = format!("{shape}: {} nodes are too few: write {least}", ends.len());
        return Err(Error::topology(yaml.line, text));
    }
    let mut pairs: Vec<Vec<LinkEnd>> = ends.windows(2).map(<[LinkEnd]>::to_vec).collect();
    match shape {
        "nodes" => return Ok(vec![ends]),
        "ring" => pairs.push(vec![ends[ends.len() - 1].clone(), ends[0].clone()]),
        _ => {}
    }
    Ok(pairs)
}

/// The port of VXLAN.
const TUNNEL_PORT: u16 = 4789;
/// VXLAN's headers need 50 of an Ethernet's 1500 bytes.
const TUNNEL_MTU: u32 = 1450;

/// `ADDRESS` or `ADDRESS:PORT` of another machine.
fn tunnel(text: &str) -> ParseResult<SocketAddrV4> {
    let with_port = text.parse().ok();
    let found = with_port.or_else(|| Some(SocketAddrV4::new(text.parse().ok()?, TUNNEL_PORT)));
    found
        .filter(|found| found.port() > 0 && !found.ip().is_unspecified())
        .ok_or_else(|| "write an IPv4 address, as 192.0.2.1 or 192.0.2.1:4790".to_owned())
}

impl Topology {
    /// Adds the node that joins a link to its part on another machine.
    fn add_tunnel(
        &mut self,
        link: &mut TopologyLink,
        remote: SocketAddrV4,
        nodes: &NameIndex,
    ) -> Result<()> {
        let wrong = |text: &str| Err(Error::topology(link.line, format!("{}: {text}", link.name)));
        let name = format!("{}-tunnel", link.name);
        if link.ports.iter().any(|port| port.addresses.is_empty()) {
            return wrong("tunnel: write the addresses of the nodes, as nodes: {a: 10.0.0.1/24}");
        }
        if link.mtu.is_some_and(|mtu| mtu > TUNNEL_MTU) {
            return wrong("tunnel: the largest mtu is 1450");
        }
        let mut tunnels = self.nodes.iter().filter_map(|node| node.tunnel);
        if tunnels.any(|other| other.port() == remote.port()) {
            return wrong("tunnel: another link has this port: write another one, as ADDRESS:4790");
        }
        let is_full = link.ports.len() == MOST_PORTS || self.nodes.len() == MOST_NODES;
        if is_full || nodes.contains_key(&name) {
            return wrong("tunnel: the node of the tunnel has no room, or its name is in use");
        }
        link.mtu = link.mtu.or(Some(TUNNEL_MTU));
        link.is_tunnelled = true;
        link.ports.push(Port {
            node: self.nodes.len(),
            interface: 0,
            addresses: Vec::new(),
        });
        self.nodes.push(Node {
            name,
            vcpus: 1,
            tunnel: Some(remote),
            ..Node::default()
        });
        Ok(())
    }

    pub(super) fn read_links(
        &mut self,
        yaml: &Yaml,
        nodes: &NameIndex,
        pools: Option<&Yaml>,
    ) -> Result<NameIndex> {
        let mut names = NameIndex::new();
        let mut prefixes_of = Vec::new();
        let known = [SHAPES.as_slice(), &NETEM, &OTHERS].concat();
        for (key, value) in yaml.pairs("links")? {
            check_name(&key.name, key.line)?;
            let members = value.members(&key.name, &known)?;
            let segments = segments(&members, key.line, nodes)?;
            let is_one = members.get("nodes").is_some();
            let given = members.get("prefix");
            let remote = members.parse("tunnel", tunnel)?;
            for (index, ends) in segments.into_iter().enumerate() {
                let name = if is_one {
                    key.name.clone()
                } else {
                    format!("{}{}", key.name, index + 1)
                };
                if names.insert(name.clone(), self.links.len()).is_some() {
                    let text = format!("there are two links {name:?}");
                    return Err(Error::topology(key.line, text));
                }
                let mut link = self.read_link(name, key.line, &members, ends)?;
                if let Some(remote) = remote {
                    self.add_tunnel(&mut link, remote, nodes)?;
                }
                for port in &link.ports {
                    self.nodes[port.node].links.push(self.links.len());
                }
                self.links.push(link);
                prefixes_of.push(match given.filter(|_| is_one) {
                    Some(yaml) => prefixes(yaml, "prefix")?,
                    None => Vec::new(),
                });
            }
            if let Some(given) = given.filter(|_| !is_one || remote.is_some()) {
                let text = match remote {
                    Some(_) => "prefix: with a tunnel, write the addresses of the nodes",
                    None => "prefix: a line or ring takes its addresses from the key addresses",
                };
                return Err(Error::topology(given.line, text));
            }
        }
        let pools = pools.map_or_else(addresses::default_pools, addresses::read_pools)?;
        addresses::assign(self, &prefixes_of, pools)?;
        Ok(names)
    }

    fn read_link(
        &self,
        name: String,
        line: usize,
        members: &MapReader,
        ends: Vec<LinkEnd>,
    ) -> Result<TopologyLink> {
        let too_many = |what: String| Err(Error::topology(line, what));
        if self.links.len() == MOST_LINKS {
            return too_many(format!("more than {MOST_LINKS} links"));
        }
        if ends.len() > MOST_PORTS {
            return too_many(format!("{name}: more than {MOST_PORTS} nodes on one link"));
        }
        let mut ports: Vec<Port> = Vec::new();
        for (node, line, addresses) in ends {
            if ports.iter().any(|port| port.node == node) {
                let node = &self.nodes[node].name;
                let text = format!("{name}: node {node:?} is on this link twice");
                return Err(Error::topology(line, text));
            }
            ports.push(Port {
                node,
                interface: self.nodes[node].links.len(),
                addresses,
            });
        }
        Ok(TopologyLink {
            name,
            line,
            ports,
            cost: members.parse("cost", number(1, 65535))?.unwrap_or(1) as u32,
            mtu: members
                .parse("mtu", number(68, 65521))?
                .map(|mtu| mtu as u32),
            is_tunnelled: false,
            netem: netem(members, line)?,
            captures: members.parse("capture", truth)?.unwrap_or(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_key_of_a_link_has_its_effect() {
        let text = "
nodes: {a: , b: }
links:
  plain: {nodes: [a, b]}
  worse:
    nodes: [a, b]
    delay: 5ms
    jitter: 1ms
    loss: 10%
    duplicate: 20%
    reorder: 30%
    rate: 8 Mbit/s
    limit: 50
    seed: 7
    cost: 3
    mtu: 1400
    capture: true
  quiet: {nodes: [a, b], capture: false}
";
        let links = Topology::parse(text).unwrap().links;
        let wanted = Netem {
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(1),
            loss: 0.1,
            duplicate: 0.2,
            reorder: 0.3,
            rate: Some(1_000_000),
            limit: 50,
            seed: Some(7),
        };
        assert_eq!(links[1].netem, Some(wanted));
        assert_eq!((links[1].cost, links[1].mtu), (3, Some(1400)));
        let captured: Vec<bool> = links.iter().map(|link| link.captures).collect();
        assert_eq!(captured, [false, true, false]);
        assert_eq!(
            (links[0].netem, links[0].cost, links[0].mtu),
            (None, 1, None)
        );
    }

    #[test]
    fn messages_about_values_have_units_and_ranges() {
        for (member, hint) in [
            ("delay: 5", "write a time with us, ms, s or min, as 50ms"),
            ("jitter: 2h", "the longest is 60min"),
            ("loss: 120%", "write a share of 0% to 100%"),
            ("rate: 10", "bit/s, kbit/s, Mbit/s or Gbit/s"),
            ("mtu: 40", "write a whole number of 68 to 65521"),
            ("cost: 0", "write a whole number of 1 to 65535"),
            ("limit: 0", "write a whole number of 1 to 1000000"),
            ("capture: yes", "write true or false"),
            ("tunnel: 192.0.2", "write an IPv4 address"),
        ] {
            let text = format!("nodes: {{a: , b: }}\nlinks:\n  l: {{nodes: [a, b], {member}}}");
            let found = Topology::parse(&text).unwrap_err().to_string();
            let (key, value) = member.split_once(": ").unwrap();
            let start = format!("line 3: {key}: {value:?} is refused: ");
            assert!(found.starts_with(&start) && found.contains(hint), "{found}");
        }
        for (text, wanted) in [
            (
                "nodes: {a: {vcpus: 99}}",
                "vcpus: \"99\" is refused: write a whole number of 1 to 16",
            ),
            (
                "nodes: {a: {forward: 1}}",
                "forward: \"1\" is refused: write true or false",
            ),
            (
                "nodes: {a: }\nrouting: ospf",
                "routing: \"ospf\" is refused: write static or computed",
            ),
        ] {
            let found = Topology::parse(text).unwrap_err().to_string();
            assert!(found.ends_with(wanted), "{found}");
        }
    }
}
