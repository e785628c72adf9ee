// SPDX-License-Identifier: GPL-2.0-only
//! A packet filter: one table of nftables, with the rules for packets to this kernel and through
//! it. No kept crate has nftables' messages, so they are written here (linux/netfilter/
//! nf_tables.h): a batch of one datagram, whose changes the kernel makes all or not at all.

use crate::invalid::invalid_data;
use crate::net::messages::{acknowledgement, attribute, nested};
use crate::net::netlink::describe;
use crate::net::socket::Socket;
use crate::net::{Net, Prefix};
use outboard_sys::{libc, SocketOption};
use std::io;
use std::net::IpAddr;

const TABLE: &[u8] = b"outboard\0";
/// Chains by hook (NF_INET_*): packets to this kernel, and through it.
const CHAINS: [(&[u8], u32); 2] = [(b"input\0", 1), (b"forward\0", 2)];
const LOOPBACK: u32 = 1;
/// Bytes of a socket's buffer that a datagram needs beside its own.
const DATAGRAM_ROOM: usize = 4096;

// Messages and flags.
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;
/// NFPROTO_INET: IPv4 and IPv6.
const FAMILY: u8 = 1;

// Keys of `meta`, bases of `payload`, operators of `cmp`.
const INPUT_INDEX: u32 = 4;
const NETWORK_PROTOCOL: u32 = 15;
const TRANSPORT_PROTOCOL: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It goes on.
    #[default]
    Accept,
    /// It disappears.
    Drop,
}

/// The protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IpProtocol {
    /// ICMP of IPv4.
    Icmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP of IPv6.
    IcmpV6,
}

/// The state of a packet's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The first packet.
    New,
    /// A packet of a connection that was accepted, or one that belongs to it, as an error of ICMP.
    Established,
    /// A packet of no connection.
    Invalid,
}

/// A rule: all conditions hold for the packets that it decides on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirewallRule {
    /// The fate of these packets.
    pub verdict: Verdict,
    /// Their protocol.
    pub protocol: Option<IpProtocol>,
    /// First and last port that they go to. Needs TCP or UDP.
    pub ports: Option<(u16, u16)>,
    /// The state of their connection.
    pub state: Option<ConnectionState>,
    /// The network that they come from.
    pub source: Option<Prefix>,
    /// The network that they go to.
    pub destination: Option<Prefix>,
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// An expression, as an element of a rule's list.
fn expression(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let name = attribute(1, format!("{name}\0").as_bytes());
    nested(1, &[name, nested(2, parts)])
}

/// Loads a property of the packet into the register.
fn meta(key: u32) -> Vec<u8> {
    expression("meta", &[number(1, 1), number(2, key)])
}

fn payload(base: u32, offset: u32, length: u32) -> Vec<u8> {
    let parts = [
        number(1, 1),
        number(2, base),
        number(3, offset),
        number(4, length),
    ];
    expression("payload", &parts)
}

/// Ends the rule unless the register compares so.
fn compare(operator: u32, value: &[u8]) -> Vec<u8> {
    let value = nested(3, &[attribute(1, value)]);
    expression("cmp", &[number(1, 1), number(2, operator), value])
}

/// Keeps these bits of the register.
fn mask(mask: &[u8]) -> Vec<u8> {
    let zeros = vec![0; mask.len()];
    let parts = [
        number(1, 1),
        number(2, 1),
        number(3, mask.len() as u32),
        nested(4, &[attribute(1, mask)]),
        nested(5, &[attribute(1, &zeros)]),
    ];
    expression("bitwise", &parts)
}

fn verdict(verdict: Verdict) -> Vec<u8> {
    let code = nested(2, &[number(1, code(verdict))]);
    expression("immediate", &[number(1, 0), nested(2, &[code])])
}

fn code(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Drop => 0,
        Verdict::Accept => 1,
    }
}

fn has_protocol(protocol: IpProtocol) -> Vec<u8> {
    let number = match protocol {
        IpProtocol::Icmp => libc::IPPROTO_ICMP,
        IpProtocol::Tcp => libc::IPPROTO_TCP,
        IpProtocol::Udp => libc::IPPROTO_UDP,
        IpProtocol::IcmpV6 => libc::IPPROTO_ICMPV6,
    };
    [meta(TRANSPORT_PROTOCOL), compare(EQUAL, &[number as u8])].concat()
}

/// Packets whose byte or number at this place of the transport header is in a range.
fn in_range(offset: u32, first: &[u8], last: &[u8]) -> Vec<u8> {
    let load = payload(TRANSPORT_HEADER, offset, first.len() as u32);
    [load, compare(AT_LEAST, first), compare(AT_MOST, last)].concat()
}

fn has_state(state: ConnectionState) -> Vec<u8> {
    let bits: u32 = match state {
        ConnectionState::Invalid => 1,
        ConnectionState::Established => 2 | 4,
        ConnectionState::New => 8,
    };
    let load = expression("ct", &[number(1, 1), number(2, 0)]);
    let keep = mask(&bits.to_ne_bytes());
    [load, keep, compare(NOT_EQUAL, &[0; 4])].concat()
}

/// Packets with an address in a network: the source, or the destination.
fn in_network(prefix: Prefix, is_source: bool) -> Vec<u8> {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let address = octets(prefix.network().address());
    let (family, offset) = match (prefix.address(), is_source) {
        (IpAddr::V4(_), true) => (libc::AF_INET, 12),
        (IpAddr::V4(_), false) => (libc::AF_INET, 16),
        (IpAddr::V6(_), true) => (libc::AF_INET6, 8),
        (IpAddr::V6(_), false) => (libc::AF_INET6, 24),
    };
    [
        meta(NETWORK_PROTOCOL),
        compare(EQUAL, &[family as u8]),
        payload(NETWORK_HEADER, offset, address.len() as u32),
        mask(&octets(prefix.mask())),
        compare(EQUAL, &address),
    ]
    .concat()
}

impl FirewallRule {
    fn expressions(&self) -> Vec<u8> {
        let ports = self.ports.map(|(first, last)| {
            // The destination's port.
            in_range(2, &first.to_be_bytes(), &last.to_be_bytes())
        });
        let parts = [
            self.state.map(has_state),
            self.source.map(|prefix| in_network(prefix, true)),
            self.destination.map(|prefix| in_network(prefix, false)),
            self.protocol.map(has_protocol),
            ports,
            Some(verdict(self.verdict)),
        ];
        parts.into_iter().flatten().flatten().collect()
    }

    /// Whether a condition is one of IPv6 or one of IPv4, for each that is either.
    fn families(&self) -> impl Iterator<Item = bool> {
        let networks = [self.source, self.destination].into_iter().flatten();
        let protocol = match self.protocol {
            Some(IpProtocol::Icmp) => Some(false),
            Some(IpProtocol::IcmpV6) => Some(true),
            _ => None,
        };
        let networks = networks.map(|prefix| prefix.address().is_ipv6());
        networks.chain(protocol)
    }

    /// Refuses conditions that no packet meets: ports without TCP or UDP, IPv4 beside IPv6.
    pub fn check(&self) -> io::Result<()> {
        let refused = |text| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        let has_ports = matches!(self.protocol, Some(IpProtocol::Tcp | IpProtocol::Udp));
        if self.ports.is_some() && !has_ports {
            return refused("a rule with ports needs tcp or udp");
        }
        let [v4, v6] = [false, true].map(|family| self.families().any(|found| found == family));
        if v4 && v6 {
            refused("a rule is for IPv4 or for IPv6: write one for each")
        } else {
            Ok(())
        }
    }
}

/// Packets of loopback, and neighbour discovery: without them a kernel cannot work.
fn always_accepted() -> [Vec<u8>; 2] {
    let loopback = [
        meta(INPUT_INDEX),
        compare(EQUAL, &LOOPBACK.to_ne_bytes()),
        verdict(Verdict::Accept),
    ];
    let discovery = [
        has_protocol(IpProtocol::IcmpV6),
        in_range(0, &[133], &[136]),
        verdict(Verdict::Accept),
    ];
    [loopback.concat(), discovery.concat()]
}

/// The messages of a batch.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    count: u32,
}

impl Batch {
    fn add(&mut self, kind: u16, flags: u16, family: u8, parts: &[Vec<u8>]) {
        let body = parts.concat();
        let length = 20 + body.len() as u32;
        // BATCH_BEGIN and BATCH_END name the subsystem.
        let resource = if kind < NEW_TABLE { SUBSYSTEM } else { 0 };
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | REQUEST).to_ne_bytes());
        self.bytes.extend(self.count.to_ne_bytes());
        self.bytes.extend([0, 0, 0, 0, family, 0]);
        self.bytes.extend(resource.to_be_bytes());
        self.bytes.extend(body);
        self.count += 1;
    }

    fn table(&mut self, policy: Verdict, rules: &[Vec<u8>]) {
        let table = [attribute(1, TABLE)];
        self.add(BATCH_BEGIN, 0, 0, &[]);
        // Without an old table, there is nothing to delete but the new one.
        self.add(NEW_TABLE, CREATE, FAMILY, &table);
        self.add(DELETE_TABLE, 0, FAMILY, &table);
        self.add(NEW_TABLE, CREATE, FAMILY, &table);
        for (name, hook) in CHAINS {
            let chain = [
                attribute(1, TABLE),
                attribute(3, name),
                nested(4, &[number(1, hook), number(2, 0)]),
                number(5, code(policy)),
                attribute(7, b"filter\0"),
            ];
            self.add(NEW_CHAIN, CREATE, FAMILY, &chain);
            for rule in rules {
                let expressions = nested(4, std::slice::from_ref(rule));
                let rule = [attribute(1, TABLE), attribute(2, name), expressions];
                self.add(NEW_RULE, CREATE | APPEND, FAMILY, &rule);
            }
        }
        // Changes nothing. Its acknowledgement is the result of the batch, unless an error comes
        // before it.
        self.add(NEW_TABLE, ACKNOWLEDGE, FAMILY, &table);
        self.add(BATCH_END, 0, 0, &[]);
    }
}

/// The errno of an NLMSG_ERROR.
fn result(message: &[u8]) -> io::Result<()> {
    let text = "the kernel has sent another message than its result";
    let other = || Err(invalid_data(text));
    acknowledgement(message)?.unwrap_or_else(other)
}

impl Net {
    /// Filters the packets that this network namespace receives for itself, and those that it
    /// forwards: the first rule that fits decides, else `policy`. Replaces earlier rules. Packets
    /// of loopback and IPv6's neighbour discovery are always accepted.
    pub fn set_firewall(&self, policy: Verdict, rules: &[FirewallRule]) -> io::Result<()> {
        let set = || {
            rules.iter().try_for_each(FirewallRule::check)?;
            let own = rules.iter().map(FirewallRule::expressions);
            let rules: Vec<Vec<u8>> = always_accepted().into_iter().chain(own).collect();
            let mut batch = Batch::default();
            batch.table(policy, &rules);
            self.send_batch(&batch.bytes)
        };
        set().map_err(|error| describe(error, format_args!("cannot set the firewall")))
    }

    fn send_batch(&self, bytes: &[u8]) -> io::Result<()> {
        let socket: Socket =
            self.socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)?;
        // The kernel takes a batch as one datagram, which must fit the socket's buffer.
        let room = u32::try_from(bytes.len() + DATAGRAM_ROOM);
        let room = room.map_err(|_| io::Error::from_raw_os_error(libc::EMSGSIZE))?;
        socket.set(SocketOption::SEND_BUFFER_FORCED, room)?;
        socket.send(bytes)?;
        let mut answer = [0; 8192];
        let length = socket.receive(&mut answer)?;
        result(&answer[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_kernels_layout() {
        assert_eq!(attribute(7, b"ab\0"), [7, 0, 7, 0, b'a', b'b', 0, 0]);
        assert_eq!(number(1, 258), [8, 0, 1, 0, 0, 0, 1, 2]);
        assert_eq!(nested(2, &[number(1, 0)])[..4], [12, 0, 2, 0x80]);
    }

    #[test]
    fn the_mask_of_a_network_has_its_length() {
        let bytes = in_network("10.0.0.0/12".parse().unwrap(), true);
        let mask = [0xff, 0xf0, 0, 0];
        assert!(bytes.windows(4).any(|part| part == mask));
    }

    #[test]
    fn rules_that_no_packet_meets_are_refused() {
        let plain = FirewallRule::default;
        let [v4, v6] = ["10.0.0.0/8", "::/0"].map(|text| text.parse().ok());
        let of = |source, destination, protocol| FirewallRule {
            source,
            destination,
            protocol,
            ..plain()
        };
        let ports = FirewallRule {
            ports: Some((1, 2)),
            ..plain()
        };
        for rule in [
            ports,
            of(v4, v6, None),
            of(v6, v4, Some(IpProtocol::Tcp)),
            of(v4, None, Some(IpProtocol::IcmpV6)),
            of(None, v6, Some(IpProtocol::Icmp)),
        ] {
            assert!(rule.check().is_err(), "{rule:?}");
        }
        for rule in [
            plain(),
            of(v4, v4, Some(IpProtocol::Icmp)),
            of(v6, v6, Some(IpProtocol::Udp)),
            of(None, v6, Some(IpProtocol::IcmpV6)),
        ] {
            assert!(rule.check().is_ok(), "{rule:?}");
        }
    }

    #[test]
    fn answers_are_errors_or_not() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = vec![0; 20];
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes[16..].copy_from_slice(&code.to_ne_bytes());
            result(&bytes).map_err(|error| error.raw_os_error())
        };
        assert_eq!(answer(2, 0), Ok(()));
        assert_eq!(answer(2, -libc::ENOENT), Err(Some(libc::ENOENT)));
        assert_eq!(answer(3, 0), Err(None));
        assert!(result(&[]).is_err());
    }
}
