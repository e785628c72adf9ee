// SPDX-License-Identifier: GPL-2.0-only
//! Addresses of interfaces, routes and neighbours.

use crate::net::link;
use crate::net::netlink::{describe, Netlink};
use crate::net::{Net, Prefix, ToPrefix};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkAddress {
    /// The name of the interface.
    pub link: String,
    /// The address and its network.
    pub prefix: Prefix,
    /// IPv6: whether the kernel still looks for another owner of the address.
    pub is_tentative: bool,
}

/// A way to a network.
///
/// ```
/// use outboard::net::Route;
/// # fn main() -> std::io::Result<()> {
/// let default = Route::default_via("10.0.0.1".parse().unwrap());
/// let other = Route::to("10.2.0.0/16")?.link("eth1").metric(5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Route {
    /// The network. `0.0.0.0/0` and `::/0`: everything.
    pub destination: Prefix,
    /// The router that packets go to.
    pub gateway: Option<IpAddr>,
    /// The name of the interface that packets leave by.
    pub link: Option<String>,
    /// Of several routes, the one with the lowest number is used.
    pub metric: Option<u32>,
    /// The sender's address of packets of this kernel.
    pub source: Option<IpAddr>,
}

impl Route {
    /// A route to a network.
    pub fn to(destination: impl ToPrefix) -> io::Result<Self> {
        Ok(Self {
            destination: destination.to_prefix()?.network(),
            gateway: None,
            link: None,
            metric: None,
            source: None,
        })
    }

    /// The route to everything that has no other route.
    pub fn default_via(gateway: IpAddr) -> Self {
        Self {
            destination: everything(gateway.is_ipv6()),
            gateway: Some(gateway),
            link: None,
            metric: None,
            source: None,
        }
    }

    /// Packets go to this router.
    pub fn via(mut self, gateway: IpAddr) -> Self {
        self.gateway = Some(gateway);
        self
    }

    /// Packets leave by this interface.
    pub fn link(mut self, name: &str) -> Self {
        self.link = Some(name.to_owned());
        self
    }

    /// The order of several routes to the same network.
    pub fn metric(mut self, metric: u32) -> Self {
        self.metric = Some(metric);
        self
    }

    /// Packets of this kernel have this sender's address.
    pub fn source(mut self, address: IpAddr) -> Self {
        self.source = Some(address);
        self
    }
}

impl fmt::Display for Route {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.destination)?;
        if let Some(gateway) = self.gateway {
            write!(formatter, " via {gateway}")?;
        }
        if let Some(link) = &self.link {
            write!(formatter, " dev {link}")?;
        }
        Ok(())
    }
}

/// A host or router of a network that an interface is in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbour {
    /// The name of the interface.
    pub link: String,
    /// The neighbour's address.
    pub address: IpAddr,
    /// Its hardware address, where known.
    pub hardware_address: Option<Vec<u8>>,
    /// Whether the neighbour did not answer.
    pub has_failed: bool,
}

fn everything(is_v6: bool) -> Prefix {
    let address = if is_v6 {
        IpAddr::from(Ipv6Addr::UNSPECIFIED)
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    Prefix::new(address, 0).expect("no bit is not too many")
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn address_message(prefix: Prefix, index: u32) -> AddressMessage {
    let address = prefix.address();
    let mut message = AddressMessage::default();
    message.header.family = family(address);
    message.header.prefix_len = prefix.length();
    message.header.index = index;
    let attributes = &mut message.attributes;
    attributes.push(AddressAttribute::Local(address));
    attributes.push(AddressAttribute::Address(address));
    message
}

fn parse_address(message: &AddressMessage, link: String) -> Option<LinkAddress> {
    let attributes = message.attributes.iter();
    // The local address of a point-to-point interface; otherwise there may be only the other one.
    let address = attributes
        .clone()
        .find_map(|attribute| match attribute {
            AddressAttribute::Local(address) => Some(*address),
            _ => None,
        })
        .or_else(|| {
            attributes.clone().find_map(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            })
        })?;
    let is_tentative = message.header.flags.contains(AddressHeaderFlags::Tentative);
    Some(LinkAddress {
        link,
        prefix: Prefix::new(address, message.header.prefix_len)?,
        is_tentative,
    })
}

fn route_message(route: &Route, index: Option<u32>) -> RouteMessage {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    let address = route.destination.address();
    header.address_family = family(address);
    header.destination_prefix_length = route.destination.length();
    header.table = RouteHeader::RT_TABLE_MAIN;
    let mut attributes = Vec::new();
    if route.destination.length() > 0 {
        attributes.push(RouteAttribute::Destination(address.into()));
    }
    attributes.extend(
        route
            .gateway
            .map(|gateway| RouteAttribute::Gateway(gateway.into())),
    );
    attributes.extend(
        route
            .source
            .map(|source| RouteAttribute::PrefSource(source.into())),
    );
    attributes.extend(route.metric.map(RouteAttribute::Priority));
    attributes.extend(index.map(RouteAttribute::Oif));
    message.attributes = attributes;
    message
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

/// `None`: a route of another table, or of a kind that is no way to a network.
fn parse_route(message: &RouteMessage, name: impl Fn(u32) -> Option<String>) -> Option<Route> {
    let header = &message.header;
    if header.table != RouteHeader::RT_TABLE_MAIN || header.kind != RouteType::Unicast {
        return None;
    }
    let nowhere = everything(header.address_family == AddressFamily::Inet6);
    let mut route = Route::to(nowhere).ok()?;
    let mut destination = nowhere.address();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address)?,
            RouteAttribute::Gateway(address) => route.gateway = ip(address),
            RouteAttribute::PrefSource(address) => route.source = ip(address),
            RouteAttribute::Priority(metric) => route.metric = Some(*metric),
            RouteAttribute::Oif(index) => route.link = name(*index),
            _ => {}
        }
    }
    route.destination = Prefix::new(destination, header.destination_prefix_length)?;
    Some(route)
}

fn parse_neighbour(message: &NeighbourMessage, link: String) -> Option<Neighbour> {
    let mut neighbour = Neighbour {
        link,
        address: Ipv4Addr::UNSPECIFIED.into(),
        hardware_address: None,
        has_failed: message.header.state == NeighbourState::Failed,
    };
    let mut has_address = false;
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(address) => {
                neighbour.address = match address {
                    NeighbourAddress::Inet(address) => (*address).into(),
                    NeighbourAddress::Inet6(address) => (*address).into(),
                    _ => return None,
                };
                has_address = true;
            }
            NeighbourAttribute::LinkLayerAddress(address) => {
                neighbour.hardware_address = Some(address.clone());
            }
            _ => {}
        }
    }
    has_address.then_some(neighbour)
}

impl Net {
    /// Gives an interface an address, as in `add_address("eth0", "10.0.0.2/24")`. An IPv6 address
    /// can be used at once: the kernel does not look for another owner.
    pub fn add_address(&self, link: &str, address: impl ToPrefix) -> io::Result<()> {
        let prefix = address.to_prefix()?;
        let what = format_args!("add the address {prefix} to");
        self.with_link(what, link, |netlink, index| {
            let mut message = address_message(prefix, index);
            let broadcast = prefix.broadcast().map(AddressAttribute::Broadcast);
            message.attributes.extend(broadcast);
            if prefix.address().is_ipv6() {
                let flags = AddressAttribute::Flags(AddressFlags::Nodad);
                message.attributes.push(flags);
            }
            netlink.change(Message::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
        })
    }

    /// Takes an address from an interface.
    pub fn delete_address(&self, link: &str, address: impl ToPrefix) -> io::Result<()> {
        let prefix = address.to_prefix()?;
        let what = format_args!("remove the address {prefix} from");
        self.with_link(what, link, |netlink, index| {
            let message = address_message(prefix, index);
            netlink.change(Message::DelAddress(message), 0)
        })
    }

    /// The addresses of all interfaces.
    pub fn addresses(&self) -> io::Result<Vec<LinkAddress>> {
        let question = Message::GetAddress(AddressMessage::default());
        self.list("addresses", question, |answer, name| match answer {
            Message::NewAddress(message) => parse_address(message, name(message.header.index)?),
            _ => None,
        })
    }

    fn change_route(
        &self,
        what: &str,
        route: &Route,
        change: impl FnOnce(&Netlink, RouteMessage) -> io::Result<()>,
    ) -> io::Result<()> {
        let index = match &route.link {
            Some(name) => Some(self.link(name)?.index),
            None => None,
        };
        Netlink::open(self)
            .and_then(|netlink| change(&netlink, route_message(route, index)))
            .map_err(|error| describe(error, format_args!("cannot {what} the route to {route}")))
    }

    /// Adds a route.
    pub fn add_route(&self, route: &Route) -> io::Result<()> {
        self.change_route("add", route, |netlink, mut message| {
            message.header.protocol = RouteProtocol::Static;
            message.header.kind = RouteType::Unicast;
            message.header.scope = match route.gateway {
                None if !route.destination.address().is_ipv6() => RouteScope::Link,
                _ => RouteScope::Universe,
            };
            netlink.change(Message::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
        })
    }

    /// Removes a route.
    pub fn delete_route(&self, route: &Route) -> io::Result<()> {
        self.change_route("delete", route, |netlink, mut message| {
            message.header.scope = RouteScope::NoWhere;
            netlink.change(Message::DelRoute(message), 0)
        })
    }

    /// The routes to networks, of IPv4 and IPv6.
    pub fn routes(&self) -> io::Result<Vec<Route>> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut question = RouteMessage::default();
            question.header.address_family = family;
            let question = Message::GetRoute(question);
            all.extend(self.list("routes", question, |answer, name| match answer {
                Message::NewRoute(message) => parse_route(message, name),
                _ => None,
            })?);
        }
        Ok(all)
    }

    /// Gives the kernel the hardware address of a neighbour, which it never asks for then.
    pub fn add_neighbour(&self, link: &str, address: IpAddr, hardware: &[u8]) -> io::Result<()> {
        let what = format_args!("add the neighbour {address} to");
        self.with_link(what, link, |netlink, index| {
            let mut message = NeighbourMessage::default();
            message.header.family = family(address);
            message.header.ifindex = index;
            message.header.state = NeighbourState::Permanent;
            let destination = match address {
                IpAddr::V4(address) => NeighbourAddress::Inet(address),
                IpAddr::V6(address) => NeighbourAddress::Inet6(address),
            };
            message.attributes = vec![
                NeighbourAttribute::Destination(destination),
                NeighbourAttribute::LinkLayerAddress(hardware.to_vec()),
            ];
            let flags = NLM_F_CREATE | NLM_F_REPLACE;
            netlink.change(Message::NewNeighbour(message), flags)
        })
    }

    /// The hosts and routers that the kernel has talked to, or tried to.
    pub fn neighbours(&self) -> io::Result<Vec<Neighbour>> {
        let question = Message::GetNeighbour(NeighbourMessage::default());
        self.list("neighbours", question, |answer, name| match answer {
            Message::NewNeighbour(message) => {
                parse_neighbour(message, name(message.header.ifindex)?)
            }
            _ => None,
        })
    }

    /// `parse` gets a function from an interface's index to its name.
    fn list<T>(
        &self,
        what: &str,
        question: Message,
        parse: impl Fn(&Message, &dyn Fn(u32) -> Option<String>) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let list = || {
            let netlink = Netlink::open(self)?;
            let names = link::names(&netlink)?;
            let name = |index| names.get(&index).cloned();
            let answers = netlink.list(&question)?;
            let objects = answers.iter().filter_map(|answer| parse(answer, &name));
            Ok(objects.collect())
        };
        list().map_err(|error| describe(error, format_args!("cannot list {what}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_survive_the_kernels_messages() {
        let routes = [
            Route::default_via([10, 0, 0, 1].into()),
            Route::to("10.2.3.4/16").unwrap().link("eth0").metric(7),
            Route::to("2001:db8::/32")
                .unwrap()
                .via("fe80::1".parse().unwrap())
                .link("eth0")
                .source("2001:db8::5".parse().unwrap()),
        ];
        for route in routes {
            let mut message = route_message(&route, route.link.as_ref().map(|_| 3));
            message.header.kind = RouteType::Unicast;
            let name = |index| (index == 3).then(|| "eth0".to_owned());
            assert_eq!(parse_route(&message, name), Some(route));
        }
    }

    #[test]
    fn routes_have_a_text() {
        let route = Route::to("10.2.3.4/16").unwrap().via([10, 0, 0, 1].into());
        assert_eq!(
            route.link("eth0").to_string(),
            "10.2.0.0/16 via 10.0.0.1 dev eth0"
        );
    }
}
