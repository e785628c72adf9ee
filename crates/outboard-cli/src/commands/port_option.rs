// SPDX-License-Identifier: GPL-2.0-only
//! The words of `-p`: [ADDRESS:]HOSTPORT:PORT, with `/udp` for UDP.

use outboard_sandbox::HostPort;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const USE: &str = "use [ADDRESS:]HOSTPORT:PORT or [ADDRESS:]HOSTPORT:PORT/udp, as in 8080:80 or \
                   [::1]:8080:80";

/// Without an address, the port is one of 127.0.0.1.
pub fn parse_port(text: &str) -> Result<HostPort, String> {
    let (text, udp) = match text.strip_suffix("/udp") {
        Some(rest) => (rest, true),
        None => (text.strip_suffix("/tcp").unwrap_or(text), false),
    };
    let (rest, port) = text.rsplit_once(':').ok_or(USE)?;
    let (address, host_port) = match rest.rsplit_once(':') {
        Some((address, host_port)) => (parse_address(address)?, host_port),
        None => (Ipv4Addr::LOCALHOST.into(), rest),
    };
    let port = match parse_number(port)? {
        0 => return Err("the port of the programs is not between 1 and 65535".to_owned()),
        port => port,
    };
    Ok(HostPort {
        udp,
        address: SocketAddr::new(address, parse_number(host_port)?),
        port,
    })
}

fn parse_address(text: &str) -> Result<IpAddr, String> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = match inner {
        Some(inner) => inner.parse().ok().map(IpAddr::V6),
        None => text.parse().ok().map(IpAddr::V4),
    };
    address.ok_or_else(|| format!("\"{text}\" is no address; {USE}"))
}

fn parse_number(text: &str) -> Result<u16, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| format!("\"{text}\" is no port from 0 to 65535; {USE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        for (text, udp, address, port) in [
            ("8080:80", false, "127.0.0.1:8080", 80),
            ("0:80/tcp", false, "127.0.0.1:0", 80),
            ("0.0.0.0:53:53/udp", true, "0.0.0.0:53", 53),
            ("[::1]:8080:80", false, "[::1]:8080", 80),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(
                parse_port(text),
                Ok(HostPort { udp, address, port }),
                "{text}"
            );
        }
        for wrong in [
            "",
            "80",
            ":80",
            "80:",
            "80:0",
            "70000:80",
            "80:+1",
            "::1:80:80",
            "[::1:80:80",
            "[127.0.0.1]:80:80",
            "host:80:80",
            "80:80/sctp",
            "1:2:3:4",
        ] {
            assert!(parse_port(wrong).is_err(), "{wrong}");
        }
    }
}
