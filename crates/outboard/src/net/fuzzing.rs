// SPDX-License-Identifier: GPL-2.0-only
//! Items of private modules that the fuzz targets use.

use crate::net::dns::{answer, in_hosts, is_name, DnsAnswer, Family, ResolvConf};
use std::net::IpAddr;

/// The IPv4 addresses of a DNS answer about a name, whatever its number is.
pub fn dns_answer(bytes: &[u8], name: &str) -> Vec<IpAddr> {
    let id = bytes.first_chunk().copied().unwrap_or_default();
    match answer(bytes, u16::from_be_bytes(id), name, Family::V4) {
        Some(DnsAnswer::Addresses(addresses)) => addresses,
        _ => Vec::new(),
    }
}

/// Servers and full names of a name, by the text of /etc/resolv.conf. Panics if a name is none.
pub fn dns_configuration(text: &str, name: &str) -> (Vec<String>, Vec<String>) {
    let config = ResolvConf::parse(text);
    let names = config.candidates(name);
    assert!(names.iter().all(|name| is_name(name)));
    assert!((1..=30).contains(&config.timeout.as_secs()) && (1..=5).contains(&config.attempts));
    (config.servers, names)
}

/// The addresses of a name by the text of /etc/hosts.
pub fn hosts(text: &str, name: &str) -> Vec<IpAddr> {
    in_hosts(text, name)
}
