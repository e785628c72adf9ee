// SPDX-License-Identifier: GPL-2.0-only
//! Answers of DNS servers, /etc/resolv.conf and /etc/hosts.

use outboard::net::fuzzing::{dns_answer, dns_configuration, hosts};

/// The name in the questions of the seeds.
const NAME: &str = "www.example.org";
const MOST: usize = 64;

pub fn run(bytes: &[u8]) {
    let found = dns_answer(bytes, NAME);
    assert!(found.len() <= MOST && found.iter().all(|address| address.is_ipv4()));
    let text = String::from_utf8_lossy(bytes);
    assert!(hosts(&text, NAME).len() <= MOST);
    let (servers, names) = dns_configuration(&text, NAME);
    assert!(servers.len() <= 3 && names.len() <= 7 && names.iter().any(|name| name == NAME));
}
