// SPDX-License-Identifier: GPL-2.0-only
//! Packets that interfaces have sent, received and dropped.

use crate::net::netlink::describe;
use crate::net::netlink::Netlink;
use crate::net::Net;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, Stats64};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use netlink_packet_route::RouteNetlinkMessage as Message;
use std::io;

/// The packets and bytes of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// The name of the interface.
    pub link: String,
    /// Received packets.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that the device received and the kernel did not take.
    pub received_drops: u64,
    /// Sent packets.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that the device did not send.
    pub sent_drops: u64,
    /// Packets that the queue in front of the device dropped, with [`Net::set_netem`] on purpose.
    pub queue_drops: u64,
}

fn parse(message: &LinkMessage) -> Counters {
    let mut counters = Counters::default();
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => counters.link.clone_from(name),
            LinkAttribute::Stats64(stats) => counters.take(stats),
            _ => {}
        }
    }
    counters
}

impl Counters {
    fn take(&mut self, stats: &Stats64) {
        self.received_packets = stats.rx_packets;
        self.received_bytes = stats.rx_bytes;
        self.received_drops = stats.rx_dropped;
        self.sent_packets = stats.tx_packets;
        self.sent_bytes = stats.tx_bytes;
        self.sent_drops = stats.tx_dropped;
    }
}

/// The drops of an interface's root queue. `None`: a queue below it.
fn queue_drops(message: &TcMessage) -> Option<u64> {
    if message.header.parent != TcHandle::ROOT {
        return None;
    }
    let all = message.attributes.iter();
    let stats = all.filter_map(|attribute| match attribute {
        TcAttribute::Stats2(stats) => Some(stats),
        _ => None,
    });
    stats.flatten().find_map(|stats| match stats {
        TcStats2::Queue(queue) => Some(queue.drops.into()),
        _ => None,
    })
}

fn list(netlink: &Netlink) -> io::Result<Vec<Counters>> {
    let links = netlink.list(&Message::GetLink(LinkMessage::default()))?;
    let queues = netlink.list(&Message::GetQueueDiscipline(TcMessage::default()))?;
    let mut all = Vec::new();
    for link in &links {
        let Message::NewLink(link) = link else {
            continue;
        };
        let mut counters = parse(link);
        let drops = queues.iter().filter_map(|queue| match queue {
            Message::NewQueueDiscipline(queue)
                if i64::from(queue.header.index) == i64::from(link.header.index) =>
            {
                queue_drops(queue)
            }
            _ => None,
        });
        counters.queue_drops = drops.sum();
        all.push(counters);
    }
    Ok(all)
}

impl Net {
    /// The counters of all interfaces of this namespace.
    pub fn counters(&self) -> io::Result<Vec<Counters>> {
        let all = Netlink::open(self).and_then(|netlink| list(&netlink));
        all.map_err(|error| describe(error, format_args!("cannot read the counters")))
    }
}
