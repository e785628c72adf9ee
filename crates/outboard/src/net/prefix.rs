// SPDX-License-Identifier: GPL-2.0-only
//! IP addresses with the length of their network's prefix.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IP address and the number of its bits that name the network, as in `10.0.0.2/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// `None`: the length is more than the address has bits.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        (length <= bits(address)).then_some(Self { address, length })
    }

    /// The address, with all of its bits.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Bits that name the network.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The same with all other bits 0: what a route is for.
    pub fn network(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length));
                Ipv4Addr::from(u32::from(address) & mask.unwrap_or(0)).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length));
                Ipv6Addr::from(u128::from(address) & mask.unwrap_or(0)).into()
            }
        };
        Self { address, ..self }
    }

    /// The broadcast address of an IPv4 network with more than two addresses.
    pub(crate) fn broadcast(self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(address) if self.length < 31 => {
                Some((u32::from(address) | u32::MAX >> self.length).into())
            }
            _ => None,
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// A single address.
impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        let length = bits(address);
        Self { address, length }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.length)
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
}
