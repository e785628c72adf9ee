// SPDX-License-Identifier: GPL-2.0-only
//! Addresses that the file leaves to the lab: each link without any gets a network from the pools,
//! and its nodes get the first addresses of that network, in the order of the file.

use super::hosts::is_of_host;
use super::model::Topology;
use crate::error::{Error, Result};
use crate::yaml::Yaml;
use outboard::net::Prefix;
use std::collections::HashMap;
use std::net::IpAddr;

/// A network that is cut into parts, from its beginning on.
pub(super) struct AddressPool {
    network: Prefix,
    /// The first address that is free; `None`: none is.
    next: Option<IpAddr>,
}

pub(super) fn default_pools() -> Result<Vec<AddressPool>> {
    Ok(vec![pool("10.0.0.0/8".parse().expect("an address"))])
}

fn pool(prefix: Prefix) -> AddressPool {
    let network = prefix.network();
    AddressPool {
        network,
        next: Some(network.address()),
    }
}

pub(super) fn read_pools(yaml: &Yaml) -> Result<Vec<AddressPool>> {
    Ok(prefixes(yaml, "addresses")?.into_iter().map(pool).collect())
}

impl AddressPool {
    /// The next free network for so many nodes: /64 of IPv6, the smallest of IPv4. All of a pool
    /// that has less.
    fn take(&mut self, nodes: usize, used: &[Prefix]) -> Option<Prefix> {
        let length = if self.network.address().is_ipv6() {
            64
        } else {
            32 - (nodes as u32 + 2).next_power_of_two().trailing_zeros() as u8
        };
        let length = length.max(self.network.length());
        let mut free = self.network.subnets(length, self.next?);
        let found = free.find(|found| !used.iter().any(|other| other.overlaps(*found)));
        self.next = found.and_then(Prefix::end);
        found
    }
}

/// The address of a link's nth node. The first address of a network is for its routers, the last
/// one of IPv4 for broadcasts. A network of one or two addresses has neither (RFC 3021, RFC 6164).
fn nth(network: Prefix, index: usize) -> Option<Prefix> {
    let of_routers = network.address().is_ipv6() && network.length() < 127;
    let found = network.hosts().nth(index + usize::from(of_routers))?;
    Prefix::new(found, network.length())
}

pub(super) fn assign(
    topology: &mut Topology,
    given: &[Vec<Prefix>],
    mut pools: Vec<AddressPool>,
) -> Result<()> {
    let ports = topology.links.iter().flat_map(|link| &link.ports);
    let own = ports.flat_map(|port| &port.addresses);
    let loopbacks = topology.nodes.iter().flat_map(|node| &node.loopbacks);
    let own = own.chain(loopbacks).copied();
    let used: Vec<Prefix> = own.chain(given.iter().flatten().copied()).collect();
    for (link, given) in topology.links.iter_mut().zip(given) {
        let has_own = link.ports.iter().any(|port| !port.addresses.is_empty());
        let networks = match (given.is_empty(), has_own) {
            (true, true) => continue,
            (true, false) => {
                let networks = pools.iter_mut().map(|pool| {
                    pool.take(link.ports.len(), &used).ok_or_else(|| {
                        let text = format!("addresses: {} is used up", pool.network);
                        Error::topology(link.line, text)
                    })
                });
                networks.collect::<Result<Vec<_>>>()?
            }
            (false, _) => given.clone(),
        };
        for (index, port) in link.ports.iter_mut().enumerate() {
            if !port.addresses.is_empty() {
                continue;
            }
            for network in &networks {
                port.addresses.push(nth(*network, index).ok_or_else(|| {
                    let text = format!("{}: {network} has too few addresses", link.name);
                    Error::topology(link.line, text)
                })?);
            }
        }
    }
    check_unique(topology)
}

/// Gives each node an address of each network, as its own on `lo`.
pub(super) fn assign_loopbacks(topology: &mut Topology, yaml: &Yaml) -> Result<()> {
    for network in prefixes(yaml, "loopbacks")? {
        for (index, node) in topology.nodes.iter_mut().enumerate() {
            let address = nth(network, index).ok_or_else(|| {
                let text = format!("loopbacks: {network} has too few addresses");
                Error::topology(yaml.line, text)
            })?;
            let own = Prefix::from(address.address());
            if !is_of_host(own) {
                let text = format!("loopbacks: {own} is no address of a host");
                return Err(Error::topology(yaml.line, text));
            }
            node.loopbacks.push(own);
        }
    }
    Ok(())
}

fn check_unique(topology: &Topology) -> Result<()> {
    let mut owners: HashMap<IpAddr, &str> = HashMap::new();
    for node in &topology.nodes {
        let addresses = node.loopbacks.iter().map(|prefix| prefix.address());
        owners.extend(addresses.map(|address| (address, node.name.as_str())));
    }
    for link in &topology.links {
        for port in &link.ports {
            let name = &topology.nodes[port.node].name;
            for prefix in &port.addresses {
                if let Some(other) = owners.insert(prefix.address(), name) {
                    let address = prefix.address();
                    let text = format!("{}: {other} has the address {address} already", link.name);
                    return Err(Error::topology(link.line, text));
                }
            }
        }
    }
    Ok(())
}

/// The addresses behind a key.
pub(super) fn prefixes(yaml: &Yaml, what: &str) -> Result<Vec<Prefix>> {
    let items = yaml.items(what)?.iter();
    let parsed = items.map(|item| {
        let text = item.text(what)?;
        let prefix = text.contains('/').then(|| text.parse::<Prefix>().ok());
        prefix.flatten().ok_or_else(|| {
            let text = format!("{what}: {text:?} is no address with the length of its prefix");
            Error::topology(item.line, text)
        })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_two_addresses_have_two_hosts() {
        let addresses = |network: &str| -> Vec<String> {
            let network = network.parse().unwrap();
            let all = (0..4).map_while(|index| nth(network, index));
            all.map(|prefix| prefix.to_string()).collect()
        };
        assert_eq!(addresses("192.0.2.6/31"), ["192.0.2.6/31", "192.0.2.7/31"]);
        assert_eq!(addresses("192.0.2.7/31"), ["192.0.2.6/31", "192.0.2.7/31"]);
        assert_eq!(addresses("fd00::/127"), ["fd00::/127", "fd00::1/127"]);
        assert_eq!(addresses("192.0.2.9/32"), ["192.0.2.9/32"]);
        assert_eq!(addresses("fd00::9/128"), ["fd00::9/128"]);
        assert_eq!(addresses("192.0.2.4/30"), ["192.0.2.5/30", "192.0.2.6/30"]);
        let wanted = ["fd00::5/126", "fd00::6/126", "fd00::7/126"];
        assert_eq!(addresses("fd00::4/126"), wanted);
        let top = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127";
        assert_eq!(addresses(top).len(), 2);
        assert_eq!(addresses("255.255.255.254/31").len(), 2);
    }

    #[test]
    fn a_small_pool_is_one_network() {
        let text = |pool: &str, nodes: &str| {
            format!("addresses: {pool}\nnodes: {{n1..n4: }}\nlinks: {{l: {{nodes: {nodes}}}}}")
        };
        let of = |pool, nodes| -> Vec<String> {
            let topology = Topology::parse(&text(pool, nodes)).unwrap();
            let ports = topology.links[0].ports.iter();
            ports.map(|port| port.addresses[0].to_string()).collect()
        };
        assert_eq!(
            of("192.0.2.6/31", "n1..n2"),
            ["192.0.2.6/31", "192.0.2.7/31"]
        );
        assert_eq!(of("'fd00::/127'", "n1..n2"), ["fd00::/127", "fd00::1/127"]);
        assert_eq!(of("'fd00::/120'", "n3..n4"), ["fd00::1/120", "fd00::2/120"]);
        for (pool, nodes) in [("192.0.2.6/31", "n1..n3"), ("192.0.2.4/30", "n1..n3")] {
            let error = Topology::parse(&text(pool, nodes)).unwrap_err().to_string();
            assert!(error.contains("too few addresses"), "{error}");
        }
    }

    #[test]
    fn loopbacks_may_have_a_network_of_as_many_addresses() {
        let text = "loopbacks: [192.0.2.8/31, 'fd00::/127']\nnodes: {a: , b: }";
        let topology = Topology::parse(text).unwrap();
        let own = topology.nodes[1].loopbacks.iter();
        let own: Vec<String> = own.map(ToString::to_string).collect();
        assert_eq!(own, ["192.0.2.9/32", "fd00::1/128"]);
        let few = text.replace("b: ", "b: , c: ");
        assert!(Topology::parse(&few).is_err());
        for network in ["127.1.0.0/16", "'ff02::/64'"] {
            let text = format!("loopbacks: {network}\nnodes: {{a: }}");
            let error = Topology::parse(&text).unwrap_err().to_string();
            assert!(error.ends_with("is no address of a host"), "{error}");
        }
    }
}
