// SPDX-License-Identifier: GPL-2.0-only
//! The routes of each node: those of the file, and the shortest paths over the links that are up.
//!
//! Networks beside each other with the same next router become one route. A line of 255 nodes then
//! has up to 18 routes in each node, not 254.

use crate::topology::Topology;
use outboard::net::{Prefix, Route};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;

/// A route of a node, as messages have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRoute {
    pub network: IpAddr,
    pub length: u8,
    pub gateway: IpAddr,
}

impl NodeRoute {
    fn new(destination: Prefix, gateway: IpAddr) -> Self {
        Self {
            network: destination.address(),
            length: destination.length(),
            gateway,
        }
    }

    /// `None`: a message that no node sends.
    pub fn route(&self) -> Option<Route> {
        let destination = Prefix::new(self.network, self.length)?;
        Some(Route::to(destination).ok()?.via(self.gateway))
    }
}

/// The first link of a path, and the port of the node that follows.
type Hop = (usize, usize);

/// The costs and first hops of the paths from a node to all others. `None`: there is no path.
fn paths(topology: &Topology, up: &[bool], from: usize) -> Vec<Option<(u64, Option<Hop>)>> {
    let mut found: Vec<Option<(u64, Option<Hop>)>> = vec![None; topology.nodes.len()];
    // Among paths of one cost, the one with the lowest numbers wins: the choice is the same always.
    let mut waiting = BinaryHeap::from([Reverse((0, None, from))]);
    while let Some(Reverse((cost, hop, node))) = waiting.pop() {
        if found[node].is_some() {
            continue;
        }
        found[node] = Some((cost, hop));
        if node != from && !topology.nodes[node].forwards {
            continue;
        }
        let links = topology.nodes[node].links.iter();
        for &link in links.filter(|link| up[**link]) {
            for (port, next) in topology.links[link].ports.iter().enumerate() {
                if found[next.node].is_none() {
                    let cost = cost + u64::from(topology.links[link].cost);
                    waiting.push(Reverse((cost, hop.or(Some((link, port))), next.node)));
                }
            }
        }
    }
    found
}

/// The address of a hop in the family of a destination.
fn gateway(topology: &Topology, (link, port): Hop, destination: Prefix) -> Option<IpAddr> {
    let addresses = topology.links[link].ports[port].addresses.iter();
    let mut addresses = addresses.map(|prefix| prefix.address());
    addresses.find(|address| address.is_ipv6() == destination.address().is_ipv6())
}

/// The networks of the links that a node is not on, and those of loopbacks, with their first hops.
fn destinations(topology: &Topology, up: &[bool], node: usize) -> Vec<(Prefix, Hop)> {
    let paths = paths(topology, up, node);
    let mut found = Vec::new();
    let links = topology.links.iter().zip(up);
    for (link, _) in links.filter(|(_, is_up)| **is_up) {
        if link.ports.iter().any(|port| port.node == node) {
            continue;
        }
        let routers = link.ports.iter();
        let routers = routers.filter(|port| topology.nodes[port.node].forwards);
        let nearest = routers.filter_map(|port| paths[port.node]).min();
        if let Some((_, Some(hop))) = nearest {
            for address in link.ports.iter().flat_map(|port| &port.addresses) {
                let destination = (address.network(), hop);
                // Most often all ports are in one network.
                if found.last() != Some(&destination) {
                    found.push(destination);
                }
            }
        }
    }
    for (other, path) in topology.nodes.iter().zip(paths) {
        if let Some((_, Some(hop))) = path {
            found.extend(other.loopbacks.iter().map(|address| (*address, hop)));
        }
    }
    found
}

/// The routes of a node to all networks that it is not in itself.
fn computed(topology: &Topology, up: &[bool], node: usize) -> Vec<NodeRoute> {
    let found = destinations(topology, up, node).into_iter();
    let routes = found
        .filter_map(|(destination, hop)| Some((destination, gateway(topology, hop, destination)?)));
    merge(routes.collect())
}

/// Networks of one family and length, and their gateways.
type Networks = Vec<(Prefix, IpAddr)>;

/// Joins networks that are halves of a larger one and have the same gateway.
fn merge(routes: Networks) -> Vec<NodeRoute> {
    let mut merged = Vec::new();
    for is_v6 in [false, true] {
        let mut by_length = vec![Networks::new(); 129];
        for (destination, gateway) in &routes {
            if destination.address().is_ipv6() == is_v6 {
                let of_length = &mut by_length[usize::from(destination.length())];
                of_length.push((destination.network(), *gateway));
            }
        }
        for networks in &mut by_length {
            networks.sort_by_key(|(network, _)| *network);
            // The last one of a network counts.
            networks.reverse();
            networks.dedup_by_key(|(network, _)| *network);
            networks.reverse();
        }
        for length in (1..by_length.len()).rev() {
            let (shorter, longer) = by_length.split_at_mut(length);
            join_halves(&mut longer[0], &mut shorter[length - 1]);
        }
        let networks = by_length.into_iter().flatten();
        merged.extend(networks.map(|(network, gateway)| NodeRoute::new(network, gateway)));
    }
    merged
}

/// Moves networks of one length that are the two halves of a larger one there, unless that has a
/// gateway already. Both are sorted.
fn join_halves(networks: &mut Networks, larger: &mut Networks) {
    let given = larger.len();
    let (mut kept, mut next) = (0, 0);
    while let Some(&(network, gateway)) = networks.get(next) {
        let is_pair = |whole: &Prefix| {
            let other = networks.get(next + 1);
            other.is_some_and(|(other, its)| other.parent() == Some(*whole) && *its == gateway)
        };
        let has_gateway = |whole: &Prefix| {
            let given = &larger[..given];
            given
                .binary_search_by_key(whole, |(network, _)| *network)
                .is_ok()
        };
        let whole = network.parent();
        let whole = whole.filter(|whole| is_pair(whole) && !has_gateway(whole));
        if let Some(whole) = whole {
            larger.push((whole, gateway));
            next += 2;
        } else {
            networks[kept] = (network, gateway);
            kept += 1;
            next += 1;
        }
    }
    networks.truncate(kept);
    larger.sort_by_key(|(network, _)| *network);
}

/// Whether a gateway is beyond a link that is up.
fn is_usable(topology: &Topology, up: &[bool], node: usize, gateway: IpAddr) -> bool {
    let mut ports = topology.ports_of(node).filter(|(link, _, _)| up[*link]);
    ports.any(|(_, _, port)| port.is_beside(gateway))
}

/// The routes that a node shall have. `up`: of each link.
pub fn routes_of(topology: &Topology, up: &[bool], node: usize) -> Vec<NodeRoute> {
    let given = topology.nodes[node].routes.iter();
    let given = given.filter(|route| is_usable(topology, up, node, route.gateway));
    let mut routes: Vec<NodeRoute> = given
        .map(|route| NodeRoute::new(route.destination, route.gateway))
        .collect();
    if topology.computes_routes && topology.nodes[node].tunnel.is_none() {
        let computed = computed(topology, up, node);
        let is_new = |route: &NodeRoute| {
            let mut given = routes.iter();
            !given.any(|other| (other.network, other.length) == (route.network, route.length))
        };
        let computed: Vec<NodeRoute> = computed.into_iter().filter(is_new).collect();
        routes.extend(computed);
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(text: &str, down: &[usize], node: usize) -> Vec<String> {
        let topology = Topology::parse(text).unwrap();
        let up: Vec<bool> = (0..topology.links.len())
            .map(|link| !down.contains(&link))
            .collect();
        let routes = routes_of(&topology, &up, node).into_iter();
        routes
            .map(|route| format!("{}/{} {}", route.network, route.length, route.gateway))
            .collect()
    }

    const RING: &str = "
routing: computed
addresses: 10.0.0.0/24
nodes: {n1..n4: {forward: true}}
links: {r: {ring: n1..n4}}
";

    #[test]
    fn paths_avoid_links_that_are_down() {
        // r1 is n1-n2 (10.0.0.0/30), r2 n2-n3, r3 n3-n4, r4 n4-n1 (10.0.0.12/30).
        let all_up = routes(RING, &[], 0);
        assert_eq!(all_up, ["10.0.0.4/30 10.0.0.2", "10.0.0.8/30 10.0.0.13"]);
        assert_eq!(
            routes(RING, &[0], 0),
            ["10.0.0.4/30 10.0.0.13", "10.0.0.8/30 10.0.0.13"]
        );
    }

    #[test]
    fn cheap_paths_are_taken() {
        let text = RING.replace("{ring: n1..n4}", "{ring: n1..n4, cost: 9}");
        assert_eq!(routes(&text, &[], 0), routes(RING, &[], 0));
        let text = "
routing: computed
nodes: {a: , b: {forward: true}, c: {forward: true}, d: }
links:
  ab: {nodes: [a, b], cost: 5}
  ac: {nodes: [a, c]}
  bc: {nodes: [b, c]}
  bd: {nodes: [b, d]}
";
        // 10.0.0.4/30 is ac; 10.0.0.8/29 is bc and bd.
        assert_eq!(routes(text, &[], 0), ["10.0.0.8/29 10.0.0.6"]);
    }

    #[test]
    fn hosts_are_not_passed() {
        let text = "
routing: computed
nodes: {a: , b: , c: }
links: {l: {line: [a, b, c]}}
";
        assert_eq!(routes(text, &[], 0), Vec::<String>::new());
    }

    #[test]
    fn a_line_has_few_routes() {
        let text = "
routing: computed
addresses: 10.0.0.0/16
nodes: {n1..n255: {forward: true}}
links: {l: {line: n1..n255}}
";
        let most = (0..255).map(|node| routes(text, &[], node).len()).max();
        assert!(most.unwrap() <= 18, "{most:?}");
        assert!(routes(text, &[], 0).contains(&"10.0.0.4/30 10.0.0.2".to_owned()));
    }

    #[test]
    fn only_halves_of_one_network_merge() {
        let gateway: IpAddr = "10.9.9.9".parse().unwrap();
        let merged = |texts: &[&str]| {
            let routes = texts.iter().map(|text| (text.parse().unwrap(), gateway));
            let merged = merge(routes.collect()).into_iter();
            merged
                .map(|route| format!("{}/{}", route.network, route.length))
                .collect::<Vec<_>>()
        };
        assert_eq!(merged(&["10.0.0.0/25", "10.0.0.128/25"]), ["10.0.0.0/24"]);
        assert_eq!(
            merged(&["10.0.1.0/24", "10.0.2.0/24"]),
            ["10.0.1.0/24", "10.0.2.0/24"]
        );
        // The larger network has a gateway of its own.
        let nested = ["10.0.0.0/24", "10.0.0.0/25", "10.0.0.128/25"];
        assert_eq!(merged(&nested), nested);
        assert_eq!(
            merged(&["10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/25"]),
            ["10.0.0.0/24"]
        );
        assert_eq!(merged(&["fd00::/64", "fd00:0:0:1::/64"]), ["fd00::/63"]);
        assert_eq!(merged(&["0.0.0.0/1", "128.0.0.0/1"]), ["0.0.0.0/0"]);
    }
}
