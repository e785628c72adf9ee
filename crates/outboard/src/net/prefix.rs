// SPDX-License-Identifier: GPL-2.0-only
//! IP addresses with the length of their network's prefix.

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IP address and the number of its bits that name the network, as in `10.0.0.2/24`. Ordered by
/// family, address and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(IpNet);

impl Prefix {
    /// `None`: the length is more than the address has bits.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        IpNet::new(address, length).ok().map(Self)
    }

    /// The address, with all of its bits.
    pub fn address(self) -> IpAddr {
        self.0.addr()
    }

    /// Bits that name the network.
    pub fn length(self) -> u8 {
        self.0.prefix_len()
    }

    /// The same with all other bits 0: what a route is for.
    pub fn network(self) -> Self {
        Self(self.0.trunc())
    }

    /// The network of twice the size that this one is a half of. `None`: it is everything.
    pub fn parent(self) -> Option<Self> {
        self.0.supernet().map(Self)
    }

    /// Whether an address is in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether two networks have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.0.network()) || other.contains(self.0.network())
    }

    /// The addresses that hosts can have: all but the first and the last one of an IPv4 network
    /// with more than two.
    pub fn hosts(self) -> impl Iterator<Item = IpAddr> {
        self.0.hosts()
    }

    /// The networks of this length that the network consists of, from an address on.
    pub fn subnets(self, length: u8, first: IpAddr) -> impl Iterator<Item = Self> {
        let all = match (first, self.0.broadcast()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                Some(IpSubnets::V4(Ipv4Subnets::new(first, last, length)))
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                Some(IpSubnets::V6(Ipv6Subnets::new(first, last, length)))
            }
            _ => None,
        };
        // There are smaller ones before the first that fits.
        let all = all.into_iter().flatten().map(Self);
        all.filter(move |network| network.length() == length)
    }

    /// The address behind the network. `None`: it has the last one of all.
    pub fn end(self) -> Option<IpAddr> {
        Some(match self.0.broadcast() {
            IpAddr::V4(last) => Ipv4Addr::from(u32::from(last).checked_add(1)?).into(),
            IpAddr::V6(last) => Ipv6Addr::from(u128::from(last).checked_add(1)?).into(),
        })
    }

    /// The broadcast address of an IPv4 network with more than two addresses.
    pub fn broadcast(self) -> Option<Ipv4Addr> {
        match self.0 {
            IpNet::V4(network) if network.prefix_len() < 31 => Some(network.broadcast()),
            _ => None,
        }
    }

    /// An address with the bits that name the network.
    pub(crate) fn mask(self) -> IpAddr {
        self.0.netmask()
    }
}

/// A single address.
impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        Self(address.into())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// `ADDRESS/LENGTH`, or `ADDRESS` alone.
impl FromStr for Prefix {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let parse = || {
            let Some((address, length)) = text.split_once('/') else {
                return text.parse().ok().map(|address: IpAddr| address.into());
            };
            Self::new(address.parse().ok()?, length.parse().ok()?)
        };
        parse().ok_or_else(|| {
            let text = format!("{text:?} is no address: write ADDRESS/LENGTH, as in 10.0.0.2/24");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    }
}

/// A prefix, or its text.
pub trait ToPrefix {
    /// The prefix. An error for a text that is none.
    fn to_prefix(&self) -> io::Result<Prefix>;
}

impl ToPrefix for Prefix {
    fn to_prefix(&self) -> io::Result<Prefix> {
        Ok(*self)
    }
}

impl ToPrefix for str {
    fn to_prefix(&self) -> io::Result<Prefix> {
        self.parse()
    }
}

impl ToPrefix for String {
    fn to_prefix(&self) -> io::Result<Prefix> {
        self.parse()
    }
}

impl<T: ToPrefix + ?Sized> ToPrefix for &T {
    fn to_prefix(&self) -> io::Result<Prefix> {
        (**self).to_prefix()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_texts() {
        for text in ["10.0.0.2/24", "0.0.0.0/0", "fe80::1/64", "::/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        let single: Prefix = "10.0.0.2".parse().unwrap();
        assert_eq!(single.length(), 32);
        for text in [
            "10.0.0.2/33",
            "10.0.0/8",
            "eth0",
            "",
            "10.0.0.2/",
            "::1/129",
        ] {
            let error = text.parse::<Prefix>().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{text}");
        }
    }

    #[test]
    fn networks_have_no_further_bits() {
        let network = |text: &str| text.parse::<Prefix>().unwrap().network().to_string();
        assert_eq!(network("10.1.2.3/8"), "10.0.0.0/8");
        assert_eq!(network("10.1.2.3/0"), "0.0.0.0/0");
        assert_eq!(network("10.1.2.3/32"), "10.1.2.3/32");
        assert_eq!(network("2001:db8::1/32"), "2001:db8::/32");
        assert_eq!(network("2001:db8::1/0"), "::/0");
        let broadcast = |text: &str| text.parse::<Prefix>().unwrap().broadcast();
        assert_eq!(broadcast("10.1.2.3/24"), Some([10, 1, 2, 255].into()));
        assert_eq!(broadcast("10.1.2.3/0"), Some(Ipv4Addr::BROADCAST));
        assert_eq!(broadcast("10.1.2.3/31"), None);
        assert_eq!(broadcast("::1/64"), None);
    }
    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn networks_contain_addresses_of_their_family() {
        let contains = |network: &str, address: &str| {
            let address = address.parse().unwrap();
            prefix(network).contains(address)
        };
        for (network, address) in [
            ("10.0.0.5/24", "10.0.0.0"),
            ("10.0.0.5/24", "10.0.0.255"),
            ("0.0.0.0/0", "255.255.255.255"),
            ("10.0.0.5/31", "10.0.0.4"),
            ("10.0.0.5/32", "10.0.0.5"),
            ("fd00::5/127", "fd00::4"),
            ("::/0", "ffff::1"),
        ] {
            assert!(contains(network, address), "{network} {address}");
        }
        for (network, address) in [
            ("10.0.0.5/24", "10.0.1.0"),
            ("10.0.0.5/31", "10.0.0.6"),
            ("10.0.0.5/32", "10.0.0.4"),
            ("0.0.0.0/0", "::"),
            ("::/0", "10.0.0.1"),
            ("fd00::5/127", "fd00::6"),
        ] {
            assert!(!contains(network, address), "{network} {address}");
        }
    }

    #[test]
    fn networks_overlap_if_one_has_the_other() {
        let overlap = |one: &str, other: &str| {
            let (one, other) = (prefix(one), prefix(other));
            assert_eq!(one.overlaps(other), other.overlaps(one), "{one} {other}");
            one.overlaps(other)
        };
        assert!(overlap("10.0.0.9/24", "10.0.0.77/25"));
        assert!(overlap("0.0.0.0/0", "255.255.255.255/32"));
        assert!(overlap("fd00::1/64", "fd00::2/64"));
        assert!(!overlap("10.0.0.0/25", "10.0.0.128/25"));
        assert!(!overlap("10.0.0.4/31", "10.0.0.6/31"));
        assert!(!overlap("0.0.0.0/0", "::/0"));
    }

    #[test]
    fn networks_have_parts() {
        let parts = |network: &str, length: u8, first: &str| -> Vec<String> {
            let parts = prefix(network).subnets(length, first.parse().unwrap());
            parts.map(|part| part.to_string()).collect()
        };
        let quarters = ["10.0.0.64/26", "10.0.0.128/26", "10.0.0.192/26"];
        assert_eq!(parts("10.0.0.0/24", 26, "10.0.0.64"), quarters);
        assert_eq!(parts("10.0.0.0/24", 26, "10.0.0.1"), quarters);
        assert_eq!(parts("10.0.0.9/24", 24, "10.0.0.0"), ["10.0.0.0/24"]);
        assert_eq!(parts("0.0.0.0/0", 0, "0.0.0.0"), ["0.0.0.0/0"]);
        assert_eq!(parts("10.0.0.6/31", 32, "10.0.0.7"), ["10.0.0.7/32"]);
        assert_eq!(parts("fd00::/63", 64, "fd00::1"), ["fd00:0:0:1::/64"]);
        let last = parts("255.255.255.0/24", 26, "255.255.255.192");
        assert_eq!(last, ["255.255.255.192/26"]);
        for (network, length, first) in [
            ("10.0.0.0/24", 26, "10.0.1.0"),
            ("10.0.0.0/24", 26, "10.0.0.193"),
            ("10.0.0.0/24", 26, "::"),
            ("fd00::/64", 64, "fd00::1"),
        ] {
            assert!(parts(network, length, first).is_empty(), "{network}");
        }
    }

    #[test]
    fn networks_have_ends_and_parents() {
        let end = |text: &str| prefix(text).end().map(|end| end.to_string());
        assert_eq!(end("10.0.0.9/24").as_deref(), Some("10.0.1.0"));
        assert_eq!(end("10.0.0.9/32").as_deref(), Some("10.0.0.10"));
        assert_eq!(end("fd00::/64").as_deref(), Some("fd00:0:0:1::"));
        assert_eq!(end("0.0.0.0/0"), None);
        assert_eq!(end("ffff::/16"), None);
        let parent = |text: &str| prefix(text).parent().map(|parent| parent.to_string());
        assert_eq!(parent("10.0.0.128/25").as_deref(), Some("10.0.0.0/24"));
        assert_eq!(parent("128.0.0.0/1").as_deref(), Some("0.0.0.0/0"));
        assert_eq!(parent("0.0.0.0/0"), None);
        assert_eq!(parent("fd00::1/128").as_deref(), Some("fd00::/127"));
    }

    #[test]
    fn masks() {
        let mask = |text: &str| prefix(text).mask().to_string();
        assert_eq!(mask("10.0.0.9/20"), "255.255.240.0");
        assert_eq!(mask("10.0.0.9/0"), "0.0.0.0");
        assert_eq!(mask("10.0.0.9/32"), "255.255.255.255");
        assert_eq!(mask("fd00::/65"), "ffff:ffff:ffff:ffff:8000::");
    }
}
