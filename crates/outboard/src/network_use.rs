// SPDX-License-Identifier: GPL-2.0-only
//! Whether others use servers of a kernel: its tables of connections, and its counts.

use crate::kernel_files::read_text;
use crate::Kernel;
use std::ffi::CStr;
use std::io;

/// The tables of TCP connections (Linux: Documentation/networking/proc_net_tcp.rst). A kernel
/// without IPv6 has no second one.
const TABLES: [&CStr; 2] = [c"/proc/net/tcp", c"/proc/net/tcp6"];
const COUNTS: &CStr = c"/proc/net/snmp";
const COUNTS6: &CStr = c"/proc/net/snmp6";

/// States of connections that nobody uses, as the tables have them (Linux:
/// include/net/tcp_states.h): FIN_WAIT2, TIME_WAIT, CLOSE, LISTEN.
const UNUSED: [&str; 4] = ["05", "06", "07", LISTEN];
const LISTEN: &str = "0A";

/// The use of a kernel's first network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkUse {
    /// TCP connections to some ports.
    pub connections: usize,
    /// TCP connections to any port that were accepted since the kernel began. May wrap.
    pub accepted: u64,
    /// UDP datagrams that programs got since the kernel began. May wrap.
    pub datagrams: u64,
}

impl NetworkUse {
    /// Reads the use of a kernel, with the connections to these TCP ports. Does not block.
    pub fn read(kernel: &Kernel, ports: &[u16]) -> io::Result<Self> {
        let mut found = Self::default();
        for table in TABLES {
            found.connections += connections(&read(kernel, table)?, ports);
        }
        let counts = read(kernel, COUNTS)?;
        found.accepted = count(&counts, "Tcp:", "PassiveOpens");
        let datagrams6 = count6(&read(kernel, COUNTS6)?, "Udp6InDatagrams");
        found.datagrams = count(&counts, "Udp:", "InDatagrams").wrapping_add(datagrams6);
        Ok(found)
    }

    /// Whether a server listens at a TCP port, for clients of IPv4 or IPv6. Does not block.
    pub fn is_served(kernel: &Kernel, port: u16, ipv6: bool) -> io::Result<bool> {
        // A socket of IPv6 usually takes connections of IPv4, too.
        for table in &TABLES[usize::from(ipv6)..] {
            if listens(&read(kernel, table)?, port) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A kernel without a protocol has no file for it.
fn read(kernel: &Kernel, path: &CStr) -> io::Result<String> {
    match read_text(kernel.system(), path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        text => text,
    }
}

/// Port and state of each line. A line has: number, local address and port, remote ones, state.
fn ports_and_states(table: &str) -> impl Iterator<Item = (u16, &str)> {
    table.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (_, port) = words.next()?.rsplit_once(':')?;
        Some((u16::from_str_radix(port, 16).ok()?, words.nth(1)?))
    })
}

fn listens(table: &str, port: u16) -> bool {
    ports_and_states(table).any(|found| found == (port, LISTEN))
}

fn connections(table: &str, ports: &[u16]) -> usize {
    let is_used = |(port, state): &(u16, &str)| ports.contains(port) && !UNUSED.contains(state);
    ports_and_states(table).filter(is_used).count()
}

/// A line with names follows the protocol, then one with numbers.
fn count(text: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, numbers) = (lines.next(), lines.next());
    let names = names.unwrap_or_default().split_whitespace();
    let mut both = names.zip(numbers.unwrap_or_default().split_whitespace());
    let found = both.find_map(|(found, number)| (found == name).then_some(number));
    found.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A name and a number in each line.
fn count6(text: &str, name: &str) -> u64 {
    let number = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
    text.lines().find_map(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue
   0: 00000000:0050 00000000:0000 0A 00000000:00000000
   1: 0F02000A:0050 0202000A:D431 01 00000000:00000000
   2: 0F02000A:0050 0202000A:D432 06 00000000:00000000
   3: 0F02000A:01BB 0202000A:D433 08 00000000:00000000
   4: 0F02000A:0050
";

    #[test]
    fn connections_are_counted() {
        assert_eq!(connections(TABLE, &[80]), 1);
        assert_eq!(connections(TABLE, &[80, 443]), 2);
        assert_eq!(connections(TABLE, &[]), 0);
        assert_eq!(connections("", &[80]), 0);
        assert!(listens(TABLE, 80) && !listens(TABLE, 443));
    }

    #[test]
    fn counts_are_found() {
        let text = "Tcp: RtoMin ActiveOpens PassiveOpens\nTcp: 200 3 7\n\
                    Udp: InDatagrams NoPorts\nUdp: 5 0\nUdpLite: InDatagrams\nUdpLite: 9\n";
        assert_eq!(count(text, "Tcp:", "PassiveOpens"), 7);
        assert_eq!(count(text, "Udp:", "InDatagrams"), 5);
        assert_eq!(count(text, "Udp:", "Nothing"), 0);
        assert_eq!(
            count6(
                "Ip6InReceives 1\nUdp6InDatagrams  \t12\n",
                "Udp6InDatagrams"
            ),
            12
        );
    }
}
