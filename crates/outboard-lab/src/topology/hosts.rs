// SPDX-License-Identifier: GPL-2.0-only
//! Whether an interface can have what a file gives it. The node would refuse it as well, but
//! without the line, and after all nodes have started.
//!
//! | rule | refused |
//! |---|---|
//! | an address is one of a host | networks, broadcasts, groups, loopback, IPv4 in IPv6 |
//! | an interface has at most 16 addresses | more |
//! | IPv6 needs an MTU of 1280 | less |
//! | a node has at most 64 interfaces | more links |

use super::model::{Node, Topology, TopologyLink};
use crate::error::{Error, Result};
use outboard::net::Prefix;
use std::net::IpAddr;

/// Most addresses of an interface.
const MOST_ADDRESSES: usize = 16;
/// Most interfaces of a node: virtio devices of a kernel.
const MOST_INTERFACES: usize = 64;
/// The least MTU of a link with IPv6.
const LEAST_MTU_OF_V6: u32 = 1280;

/// Whether other hosts can reach a host at an address.
pub(super) fn is_of_host(prefix: Prefix) -> bool {
    match prefix.address() {
        IpAddr::V4(address) => {
            let first = prefix.network().address();
            // Networks of two addresses and of one have none of their own, and no broadcasts.
            let last = prefix.broadcast();
            let is_edge = last.is_some_and(|last| address == last || first == address);
            let is_group = address.octets()[0] >= 224;
            let is_this = address.octets()[0] == 0;
            !is_edge && !is_group && !is_this && !address.is_loopback()
        }
        IpAddr::V6(address) => {
            !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && address.to_ipv4_mapped().is_none()
        }
    }
}

fn check_link(topology: &Topology, link: &TopologyLink) -> Result<()> {
    let refused = |text: String| {
        let text = format!("{}: {text}", link.name);
        Err(Error::topology(link.line, text))
    };
    for port in &link.ports {
        let node = &topology.nodes[port.node].name;
        if port.addresses.len() > MOST_ADDRESSES {
            return refused(format!(
                "node {node} has more than {MOST_ADDRESSES} addresses"
            ));
        }
        for prefix in &port.addresses {
            if prefix.length() == 0 || !is_of_host(*prefix) {
                return refused(format!("{prefix} of node {node} is no address of a host"));
            }
            let mtu = link.mtu.filter(|mtu| *mtu < LEAST_MTU_OF_V6);
            if let (Some(mtu), IpAddr::V6(_)) = (mtu, prefix.address()) {
                return refused(format!(
                    "mtu: {prefix} of node {node} needs at least {LEAST_MTU_OF_V6}, not {mtu}"
                ));
            }
        }
    }
    Ok(())
}

fn check_node(topology: &Topology, node: &Node) -> Result<()> {
    let Some(link) = node.links.get(MOST_INTERFACES) else {
        return Ok(());
    };
    let link = &topology.links[*link];
    let text = format!(
        "{}: node {} is on more than {MOST_INTERFACES} links",
        link.name, node.name
    );
    Err(Error::topology(link.line, text))
}

/// Refuses nodes and links whose interfaces would be refused by the kernel.
pub(super) fn check(topology: &Topology) -> Result<()> {
    let (mut nodes, mut links) = (topology.nodes.iter(), topology.links.iter());
    nodes.try_for_each(|node| check_node(topology, node))?;
    links.try_for_each(|link| check_link(topology, link))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(link: &str) -> String {
        let text = format!("nodes: {{a: , b: }}\nlinks:\n  l: {link}");
        let parsed = Topology::parse(&text);
        parsed.map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn addresses_are_those_of_hosts() {
        let is_of_host = |text: &str| is_of_host(text.parse().unwrap());
        for good in [
            "10.0.0.1/24",
            "10.0.0.0/31",
            "10.0.0.1/31",
            "10.0.0.255/32",
            "10.0.0.255/16",
            "fd00::/64",
            "fe80::1/64",
        ] {
            assert!(is_of_host(good), "{good}");
        }
        for bad in [
            "10.0.0.0/24",
            "10.0.0.255/24",
            "10.0.0.3/30",
            "0.0.0.1/8",
            "127.5.0.1/24",
            "224.0.0.1/24",
            "255.255.255.255/32",
            "::/64",
            "::1/128",
            "ff02::1/64",
            "::ffff:10.0.0.1/120",
        ] {
            assert!(!is_of_host(bad), "{bad}");
        }
    }

    #[test]
    fn a_node_has_a_limit_of_links() {
        let text = |count: usize| {
            let links = (0..count).map(|n| format!("  l{n}: {{nodes: [a, b]}}\n"));
            let links: String = links.collect();
            format!("nodes: {{a: , b: }}\nlinks:\n{links}")
        };
        assert!(Topology::parse(&text(64)).is_ok());
        let found = Topology::parse(&text(66)).unwrap_err().to_string();
        assert_eq!(found, "line 67: l64: node a is on more than 64 links");
    }

    #[test]
    fn a_link_whose_interfaces_cannot_be_is_refused() {
        let seventeen: Vec<String> = (1..=17).map(|n| format!("10.0.0.{n}/24")).collect();
        let seventeen = format!("{{nodes: {{a: [{}], b: }}}}", seventeen.join(", "));
        for (link, why) in [
            (
                "{nodes: {a: 10.0.0.0/24, b: 10.0.0.1/24}}",
                "10.0.0.0/24 of node a is no address of a host",
            ),
            ("{nodes: {a: 10.0.0.1/0, b: }}", "10.0.0.1/0 of node a"),
            ("{nodes: [a, b], prefix: 224.0.0.0/24}", "224.0.0.1/24"),
            ("{nodes: [a, b], prefix: 'ff02::/64'}", "ff02::1/64"),
            (
                "{nodes: [a, b], prefix: 'fd00::/64', mtu: 1279}",
                "needs at least 1280, not 1279",
            ),
            (&seventeen, "node a has more than 16 addresses"),
        ] {
            let found = error(link);
            assert!(
                found.starts_with("line 3: l: ") && found.contains(why),
                "{found}"
            );
        }
        for link in [
            "{nodes: [a, b], prefix: 'fd00::/64', mtu: 1280}",
            "{nodes: [a, b], prefix: 10.0.0.0/24, mtu: 68}",
        ] {
            assert_eq!(error(link), "", "{link}");
        }
    }
}
