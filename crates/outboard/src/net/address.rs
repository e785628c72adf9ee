// SPDX-License-Identifier: GPL-2.0-only
//! Addresses: from std's types to the kernel's layout and back.

use crate::net::Net;
use outboard_sys::{libc, RawAddress};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::path::Path;

/// Bytes of `sun_path`.
const UNIX_PATH_SIZE: usize = 108;

/// The family of an address, as socket(2) takes it.
pub(crate) fn family(address: &SocketAddr) -> i32 {
    match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    }
}

fn raw(family: i32, parts: &[&[u8]]) -> io::Result<RawAddress> {
    let mut bytes = (family as u16).to_ne_bytes().to_vec();
    bytes.extend(parts.concat());
    RawAddress::new(&bytes).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// An address of IPv4 or IPv6 in the kernel's layout.
pub(crate) fn to_raw(address: &SocketAddr) -> io::Result<RawAddress> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(v4) => raw(libc::AF_INET, &[&port, &v4.ip().octets(), &[0; 8]]),
        SocketAddr::V6(v6) => raw(
            libc::AF_INET6,
            &[
                &port,
                &v6.flowinfo().to_ne_bytes(),
                &v6.ip().octets(),
                &v6.scope_id().to_ne_bytes(),
            ],
        ),
    }
}

/// `InvalidInput` for an address of another family, as std reports it.
pub(crate) fn from_raw(address: &RawAddress) -> io::Result<SocketAddr> {
    parse(address).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn parse(address: &RawAddress) -> Option<SocketAddr> {
    let bytes = address.bytes();
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match address.family() {
        libc::AF_INET => {
            let octets: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some(SocketAddrV4::new(octets.into(), port).into())
        }
        libc::AF_INET6 => {
            let flow = u32::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
            let octets: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(octets.into(), port, flow, scope).into())
        }
        _ => None,
    }
}

/// The address of a path. `InvalidInput`: the path is empty, too long, or has a NUL.
pub(crate) fn path_to_raw(path: &Path) -> io::Result<RawAddress> {
    let path = path.as_os_str().as_bytes();
    if path.is_empty() || path.len() >= UNIX_PATH_SIZE || path.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path of a UNIX socket has 1 to 107 bytes, none of them NUL",
        ));
    }
    raw(libc::AF_UNIX, &[path, &[0]])
}

/// An address of a UNIX socket in the kernel's layout.
pub(crate) fn unix_to_raw(address: &UnixAddr) -> io::Result<RawAddress> {
    match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => path_to_raw(path),
        (_, Some(name)) => raw(libc::AF_UNIX, &[&[0], name]),
        _ => raw(libc::AF_UNIX, &[]),
    }
}

/// `InvalidInput` for an address of another family.
pub(crate) fn unix_from_raw(address: &RawAddress) -> io::Result<UnixAddr> {
    // A sender without an address has an empty one.
    if address.family() != libc::AF_UNIX && !address.bytes().is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match address.bytes().get(2..).unwrap_or_default() {
        // An empty path is std's unnamed address.
        [] => UnixAddr::from_pathname(""),
        [0, name @ ..] => UnixAddr::from_abstract_name(name),
        path => {
            let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
            UnixAddr::from_pathname(std::ffi::OsStr::from_bytes(path))
        }
    }
}

/// Addresses that a call tries one after the other, like [`std::net::ToSocketAddrs`].
///
/// Names of hosts are resolved by [`Net::resolve`]: by the kernel's DNS servers, not the host's.
pub trait ToAddresses {
    /// The addresses, in the order to try.
    fn to_addresses(&self, net: &Net) -> io::Result<Vec<SocketAddr>>;
}

impl ToAddresses for SocketAddr {
    fn to_addresses(&self, _: &Net) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![*self])
    }
}

impl ToAddresses for SocketAddrV4 {
    fn to_addresses(&self, _: &Net) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![(*self).into()])
    }
}

impl ToAddresses for SocketAddrV6 {
    fn to_addresses(&self, _: &Net) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![(*self).into()])
    }
}

impl ToAddresses for (IpAddr, u16) {
    fn to_addresses(&self, _: &Net) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![(*self).into()])
    }
}

impl ToAddresses for (Ipv4Addr, u16) {
    fn to_addresses(&self, _: &Net) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![(*self).into()])
    }
}

impl ToAddresses for (Ipv6Addr, u16) {
    fn to_addresses(&self, _: &Net) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![(*self).into()])
    }
}

impl ToAddresses for [SocketAddr] {
    fn to_addresses(&self, _: &Net) -> io::Result<Vec<SocketAddr>> {
        Ok(self.to_vec())
    }
}

impl ToAddresses for (&str, u16) {
    fn to_addresses(&self, net: &Net) -> io::Result<Vec<SocketAddr>> {
        net.resolve(self.0, self.1)
    }
}

/// `HOST:PORT`.
impl ToAddresses for str {
    fn to_addresses(&self, net: &Net) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.parse() {
            return Ok(vec![address]);
        }
        let parts = self.rsplit_once(':');
        let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.ok_or_else(|| {
            let text = format!("{self:?} is no socket address: write HOST:PORT");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        net.resolve(host, port)
    }
}

impl ToAddresses for String {
    fn to_addresses(&self, net: &Net) -> io::Result<Vec<SocketAddr>> {
        self.as_str().to_addresses(net)
    }
}

impl<T: ToAddresses + ?Sized> ToAddresses for &T {
    fn to_addresses(&self, net: &Net) -> io::Result<Vec<SocketAddr>> {
        (**self).to_addresses(net)
    }
}

/// Tries the addresses until one works. Returns the last error if none does.
pub(crate) fn first_of<T>(
    addresses: &[SocketAddr],
    attempt: impl Fn(&SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "there is no address to try");
    for address in addresses {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_layout() {
        for text in ["10.1.2.3:4567", "[2001:db8::1]:80", "[fe80::1%7]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            let raw = to_raw(&address).unwrap();
            assert_eq!(raw.family(), family(&address));
            assert_eq!(from_raw(&raw).unwrap(), address);
        }
        let v4 = to_raw(&"10.1.2.3:258".parse().unwrap()).unwrap();
        assert_eq!(v4.bytes()[2..8], [1, 2, 10, 1, 2, 3]);
        assert_eq!(v4.bytes().len(), 16);
        assert!(from_raw(&RawAddress::new(&[2, 0, 1, 2, 3]).unwrap()).is_err());
    }

    #[test]
    fn unix_addresses_have_three_kinds() {
        let path = UnixAddr::from_pathname("/tmp/s").unwrap();
        let again = unix_from_raw(&unix_to_raw(&path).unwrap()).unwrap();
        assert_eq!(again.as_pathname(), Some(Path::new("/tmp/s")));
        let name = UnixAddr::from_abstract_name(b"a\0b").unwrap();
        let again = unix_from_raw(&unix_to_raw(&name).unwrap()).unwrap();
        assert_eq!(again.as_abstract_name(), Some(&b"a\0b"[..]));
        let unnamed = unix_from_raw(&RawAddress::new(&[]).unwrap()).unwrap();
        assert!(unnamed.is_unnamed());
        assert!(path_to_raw(Path::new(&"x".repeat(UNIX_PATH_SIZE))).is_err());
        assert!(path_to_raw(Path::new("")).is_err());
    }
}
