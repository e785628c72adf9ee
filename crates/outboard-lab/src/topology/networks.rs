// SPDX-License-Identifier: GPL-2.0-only
//! The networks that a node reaches without a router, and the check that links, networks and
//! gateways of a file fit each other.
//!
//! | rule | refused |
//! |---|---|
//! | the nodes of a link that have addresses of a family are joined by networks | nodes apart |
//! | a node finds each neighbour at the link that both are on | overlapping networks of two links |
//! | a gateway is in a network of its node, whether the link is up or down | other gateways |
//!
//! Link-local networks of IPv6 are the same on all links, so these may overlap.

use super::model::{Port, Topology, TopologyLink};
use crate::error::{Error, Result};
use outboard::net::Prefix;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

impl Port {
    /// The addresses of another port on the link that this one reaches without a router, and
    /// without naming the interface: each is in a network of the other.
    pub fn neighbour_addresses<'a>(&'a self, other: &'a Port) -> impl Iterator<Item = IpAddr> + 'a {
        let shares = |theirs: &Prefix| {
            let mut own = self.addresses.iter();
            own.any(|own| own.contains(theirs.address()) && theirs.contains(own.address()))
        };
        let addresses = other.addresses.iter();
        let shared =
            addresses.filter(move |theirs| shares(theirs) && !is_link_local(theirs.address()));
        shared.map(|prefix| prefix.address())
    }

    /// Whether an address is in a network of this port.
    pub fn is_beside(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|prefix| prefix.contains(address))
    }
}

/// Refuses a link whose nodes are in networks that no node joins. Nodes without addresses are left
/// out.
fn check_joined(topology: &Topology, link: &TopologyLink, is_v6: bool) -> Result<()> {
    let prefix = |port: &Port| {
        let mut prefixes = port
            .addresses
            .iter()
            .map(|prefix| (prefix.address(), prefix));
        let found =
            prefixes.find(|(address, _)| address.is_ipv6() == is_v6 && !is_link_local(*address));
        found.map(|(_, prefix)| *prefix)
    };
    let ports = link.ports.iter();
    let mut apart: Vec<(&Port, Prefix)> = ports
        .filter_map(|port| Some((port, prefix(port)?)))
        .collect();
    if apart.is_empty() {
        return Ok(());
    }
    let first = apart.remove(0);
    let mut joined = vec![first];
    while let Some((port, _)) = joined.pop() {
        apart.retain(|other| {
            let mut shared = port.neighbour_addresses(other.0);
            let is_joined = shared.any(|address| address.is_ipv6() == is_v6);
            joined.extend(is_joined.then_some(*other));
            !is_joined
        });
    }
    let Some(other) = apart.first() else {
        return Ok(());
    };
    let shown =
        |(port, prefix): &(&Port, Prefix)| format!("{} ({prefix})", topology.nodes[port.node].name);
    let text = format!(
        "{}: {} and {} share no network, and no other node joins theirs",
        link.name,
        shown(&first),
        shown(other)
    );
    Err(Error::topology(link.line, text))
}

/// Refuses networks with which a node would look for a neighbour at another link.
fn check_overlaps(topology: &Topology, node: usize) -> Result<()> {
    let mut links = HashMap::new();
    let mut lengths = BTreeSet::new();
    let refused = |later: usize, earlier: usize, what: String| {
        let [later, earlier] = [later, earlier].map(|link| &topology.links[link]);
        let node = &topology.nodes[node].name;
        let text = format!(
            "{}: {what}: networks of links {} and {} overlap at node {node}",
            later.name, earlier.name, later.name
        );
        Err(Error::topology(later.line, text))
    };
    for (link, _, port) in topology.ports_of(node) {
        let all = port.addresses.iter();
        for prefix in all.filter(|prefix| !is_link_local(prefix.address())) {
            let network = prefix.network();
            match links.insert(network, link) {
                Some(other) if other != link => {
                    return refused(link, other, format!("both have {network}"));
                }
                _ => {}
            }
            lengths.insert((network.address().is_ipv6(), network.length()));
        }
    }
    if lengths.len() < 2 {
        return Ok(());
    }
    for (link, own, port) in topology.ports_of(node) {
        let others = topology.links[link].ports.iter().enumerate();
        for (_, other) in others.filter(|(index, _)| *index != own) {
            for address in port.neighbour_addresses(other) {
                // The longest prefix decides where the kernel looks for an address.
                let mut found = lengths.iter().rev().filter_map(|(_, length)| {
                    let network = Prefix::new(address, *length)?.network();
                    links.get(&network).copied()
                });
                if let Some(other) = found.next().filter(|found| *found != link) {
                    let what = format!("{address} is in both");
                    return refused(link.max(other), link.min(other), what);
                }
            }
        }
    }
    Ok(())
}

fn check_gateways(topology: &Topology, node: usize) -> Result<()> {
    let found = &topology.nodes[node];
    for route in &found.routes {
        let gateway = route.gateway;
        if !topology
            .ports_of(node)
            .any(|(_, _, port)| port.is_beside(gateway))
        {
            let text = format!(
                "routes: node {} is in no network with the gateway {gateway}",
                found.name
            );
            return Err(Error::topology(route.line, text));
        }
    }
    Ok(())
}

/// Refuses links, networks and gateways that do not fit each other.
pub(super) fn check(topology: &Topology) -> Result<()> {
    // The nodes that join the networks of a tunnelled link may be on the other machine.
    for link in topology.links.iter().filter(|link| !link.is_tunnelled) {
        check_joined(topology, link, false)?;
        check_joined(topology, link, true)?;
    }
    for node in 0..topology.nodes.len() {
        check_overlaps(topology, node)?;
        check_gateways(topology, node)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a file with these nodes and links; empty: it is accepted.
    fn error(nodes: &str, links: &[&str]) -> String {
        let names = ["l", "m", "n"].iter().zip(links);
        let links = names.map(|(name, link)| format!("  {name}: {link}\n"));
        let text = format!("nodes: {nodes}\nlinks:\n{}", links.collect::<String>());
        let parsed = Topology::parse(&text);
        parsed.map_or_else(|error| error.to_string(), |_| String::new())
    }

    const TWO: &str = "{a: , b: }";
    const THREE: &str = "{a: , b: , c: }";

    #[test]
    fn nodes_of_a_link_share_a_network() {
        let found = error(TWO, &["{nodes: {a: 10.0.0.1/24, b: 10.1.0.1/24}}"]);
        let start = "line 3: l: a (10.0.0.1/24) and b (10.1.0.1/24) share no network";
        assert!(found.starts_with(start), "{found}");
        for link in [
            // One of them cannot answer.
            "{nodes: {a: 10.0.0.1/16, b: 10.0.1.1/24}}",
            "{nodes: {a: 10.0.0.1/32, b: 10.0.0.2/32}}",
            // The other family does not help.
            "{nodes: {a: [10.0.0.1/24, 'fd00::1/64'], b: [10.0.0.2/24, 'fd01::1/64']}}",
            "{nodes: {a: [10.0.0.1/24, 'fd00::1/64'], b: [10.1.0.2/24, 'fd00::2/64']}}",
        ] {
            let found = error(TWO, &[link]);
            assert!(found.contains("share no network"), "{link}: {found}");
        }
    }

    #[test]
    fn links_with_routers_tunnels_and_few_addresses_are_accepted() {
        for link in [
            // A router joins the networks.
            "{nodes: {a: 10.0.0.1/24, b: 10.1.0.1/24, c: [10.1.0.9/24, 10.0.0.9/24]}}",
            "{nodes: {a: 10.0.0.1/16, b: 10.0.1.2/24, c: 10.0.1.1/16}}",
            // Networks of two lengths, with both addresses in both.
            "{nodes: {a: 10.0.0.1/16, b: 10.0.0.2/24}}",
            "{nodes: {a: 10.0.0.0/31, b: 10.0.0.1/31}}",
            "{nodes: {a: [10.0.0.1/24, 'fd00::1/64'], b: 10.0.0.2/24, c: 'fd00::3/64'}}",
            "{nodes: {a: 10.0.0.1/24, b: , c: 10.0.0.3/24}}",
            "{nodes: {a: 'fe80::1/64', b: 'fe80::2/64', c: 'fd00::3/64'}}",
            // The router is on the other machine.
            "{nodes: {a: 10.0.0.1/24, b: 10.1.0.1/24}, tunnel: 192.0.2.1}",
        ] {
            assert_eq!(error(THREE, &[link]), "", "{link}");
        }
        let without = "addresses: []\nnodes: {a: , b: }\nlinks: {l: {nodes: [a, b]}}";
        assert!(Topology::parse(without).is_ok());
    }

    #[test]
    fn networks_of_two_links_of_a_node_are_apart() {
        let l = "{nodes: {a: 10.0.0.1/24, b: 10.0.0.2/24}}";
        let found = error(THREE, &[l, "{nodes: {b: 10.0.0.3/24, c: 10.0.0.4/24}}"]);
        let wanted =
            "line 4: m: both have 10.0.0.0/24: networks of links l and m overlap at node b";
        assert_eq!(found, wanted);
        // b would look for a at the link m.
        let found = error(THREE, &[l, "{nodes: {b: 10.0.0.3/25, c: 10.0.0.4/25}}"]);
        let wanted = "line 4: m: 10.0.0.1 is in both: networks of links l and m overlap at node b";
        assert_eq!(found, wanted);
        let found = error(
            THREE,
            &[
                "{nodes: {a: 'fd00::1/64', b: 'fd00::2/64'}}",
                "{nodes: {b: 'fd00::3/64', c: 'fd00::4/64'}}",
            ],
        );
        assert!(found.contains("overlap at node b"), "{found}");
    }

    #[test]
    fn networks_that_confuse_no_node_are_accepted() {
        let l = "{nodes: {a: 10.0.0.1/16, b: 10.0.0.2/16}}";
        // The longer prefix has only nodes of its own link.
        let nested = "{nodes: {b: 10.0.5.1/24, c: 10.0.5.2/24}}";
        assert_eq!(error(THREE, &[l, nested]), "");
        // No node is on both links.
        let four = "{a: , b: , c: , d: }";
        assert_eq!(
            error(four, &[l, "{nodes: {c: 10.0.0.3/16, d: 10.0.0.4/16}}"]),
            ""
        );
        let local = [
            "{nodes: {a: ['fd00::1/64', 'fe80::1/64'], b: ['fd00::2/64', 'fe80::2/64']}}",
            "{nodes: {b: ['fd01::1/64', 'fe80::3/64'], c: ['fd01::2/64', 'fe80::4/64']}}",
        ];
        assert_eq!(error(THREE, &local), "");
    }

    #[test]
    fn a_gateway_is_in_a_network_of_its_node() {
        let l = "{nodes: [a, b], prefix: [10.0.0.0/24, 'fd00::/64']}";
        let with = |route: &str| error(&format!("\n  a: {{routes: [{route}]}}\n  b:"), &[l]);
        let wanted = "line 2: routes: node a is in no network with the gateway 10.9.9.9";
        assert_eq!(with("default via 10.9.9.9"), wanted);
        assert!(with("'fd07::/64 via fd01::1'").contains("gateway fd01::1"));
        for route in [
            "default via 10.0.0.2",
            "default via 10.0.0.77",
            "'default via fd00::2'",
            "10.7.0.0/16 via 10.0.0.2",
        ] {
            assert_eq!(with(route), "", "{route}");
        }
        let alone = error("{a: {routes: [default via 10.0.0.2]}}", &[]);
        assert!(alone.contains("gateway 10.0.0.2"), "{alone}");
    }

    #[test]
    fn a_route_over_a_link_that_a_step_takes_down_is_accepted() {
        let text = "
nodes: {a: {routes: [10.7.0.0/16 via 10.1.0.2]}, b: }
links:
  l: {nodes: [a, b], prefix: 10.0.0.0/24}
  m: {nodes: [a, b], prefix: 10.1.0.0/24}
steps: [down: m, ping: {from: a, to: b}, up: m]
";
        let topology = Topology::parse(text).unwrap();
        assert_eq!(topology.nodes[0].routes.len(), 1);
    }

    #[test]
    fn shipped_examples_are_accepted() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/labs");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "yaml") {
                let text = std::fs::read_to_string(&path).unwrap();
                let parsed = Topology::parse(&text);
                assert!(parsed.is_ok(), "{}: {parsed:?}", path.display());
                count += 1;
            }
        }
        assert!(count >= 6, "{count}");
    }

    #[test]
    fn neighbours_are_met_in_networks_that_both_have() {
        let text = "
nodes: {a: , b: , c: }
links:
  l:
    nodes:
      a: [10.0.0.1/24, 'fd00::1/64']
      b: [10.1.0.2/24, 10.0.0.2/24, 'fe80::2/64']
      c: 10.1.0.3/24
";
        let topology = Topology::parse(text).unwrap();
        let ports = &topology.links[0].ports;
        let met = |from: usize, to: usize| {
            let found = ports[from].neighbour_addresses(&ports[to]);
            found.map(|address| address.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(met(0, 1), ["10.0.0.2"]);
        assert_eq!(met(1, 2), ["10.1.0.3"]);
        assert_eq!(met(0, 2), Vec::<String>::new());
    }
}
