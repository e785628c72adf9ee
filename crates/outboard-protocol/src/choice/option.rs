// SPDX-License-Identifier: MIT
//! Options of sockets.
//!
//! The values of those that are left out lead to further memory, such as programs of filters and
//! tables of iptables, or are not measured in bytes.

/// A level, its last option, and those before it that are left out.
struct Level {
    level: u64,
    last: u64,
    left_out: &'static [u64],
}

const LEVELS: &[Level] = &[
    // SOL_SOCKET; SO_ATTACH_FILTER (SO_GET_FILTER), SO_ATTACH_REUSEPORT_CBPF
    level(1, 83, &[26, 51]),
    // IPPROTO_IP, without those of iptables
    level(0, 51, &[]),
    // IPPROTO_TCP; TCP_ZEROCOPY_RECEIVE
    level(6, 43, &[35]),
    // IPPROTO_UDP
    level(17, 104, &[]),
    // IPPROTO_IPV6, without those of ip6tables, which lie between
    level(41, 78, &[64, 65, 68, 69]),
    // IPPROTO_ICMPV6
    level(58, 1, &[]),
    // SOL_RAW
    level(255, 1, &[]),
    // SOL_PACKET; PACKET_RX_RING, PACKET_TX_RING, PACKET_FANOUT_DATA
    level(263, 24, &[5, 13, 22]),
    // SOL_NETLINK
    level(270, 12, &[]),
    // SOL_ALG
    level(279, 7, &[]),
    // SOL_TLS
    level(282, 4, &[]),
];

const fn level(level: u64, last: u64, left_out: &'static [u64]) -> Level {
    Level {
        level,
        last,
        left_out,
    }
}

/// Whether the value of an option is bytes, and no more.
pub(super) fn is_known(level: u64, option: u64) -> bool {
    LEVELS.iter().any(|known| {
        known.level == level && option <= known.last && !known.left_out.contains(&option)
    })
}
