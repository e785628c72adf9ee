// SPDX-License-Identifier: GPL-2.0-only
//! Worse networks on purpose: delay, loss, duplicates, another order. See tc-netem(8).

use crate::net::netlink::describe;
use crate::net::Net;
use netlink_packet_core::{DefaultNla, Emitable, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::RouteNetlinkMessage as Message;
use std::io;
use std::time::Duration;

/// Packets that wait at most.
const LIMIT: u32 = 10_000;

// Attributes (linux/pkt_sched.h).
const TCA_OPTIONS: u16 = 2;
const TCA_NETEM_REORDER: u16 = 3;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
const TCA_NETEM_PRNG_SEED: u16 = 14;

/// The treatment of the packets that an interface sends. Shares are 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Netem {
    /// Delay of each packet.
    pub delay: Duration,
    /// The delay varies by up to this much.
    pub jitter: Duration,
    /// Share of packets that are lost.
    pub loss: f64,
    /// Share of packets that are sent twice.
    pub duplicate: f64,
    /// Share of packets that overtake others. Needs a delay.
    pub reorder: f64,
    /// Bytes per second that are sent at most. `None`: no limit.
    pub rate: Option<u64>,
    /// Most packets that wait in the queue.
    pub limit: u32,
    /// The same seed makes the same choices.
    pub seed: Option<u64>,
}

impl Default for Netem {
    /// No change but a queue of 10,000 packets.
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            rate: None,
            limit: LIMIT,
            seed: None,
        }
    }
}

/// A share as the kernel has it: 2^32 - 1 is all.
fn share(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32
}

fn nanoseconds(time: Duration) -> Vec<u8> {
    let nanoseconds = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    nanoseconds.to_ne_bytes().to_vec()
}

impl Netem {
    /// `struct tc_netem_qopt`, then attributes.
    fn options(&self) -> Vec<u8> {
        let gap = u32::from(self.reorder > 0.0);
        let fields = [
            0,
            self.limit,
            share(self.loss),
            gap,
            share(self.duplicate),
            0,
        ];
        let mut bytes = fields.map(u32::to_ne_bytes).concat();
        let mut attributes = vec![
            DefaultNla::new(TCA_NETEM_LATENCY64, nanoseconds(self.delay)),
            DefaultNla::new(TCA_NETEM_JITTER64, nanoseconds(self.jitter)),
        ];
        if self.reorder > 0.0 {
            let value = [share(self.reorder), 0].map(u32::to_ne_bytes).concat();
            attributes.push(DefaultNla::new(TCA_NETEM_REORDER, value));
        }
        if let Some(rate) = self.rate {
            // `struct tc_netem_rate`: u32::MAX refers to RATE64. No overhead, no cells.
            let low = u32::try_from(rate).unwrap_or(u32::MAX);
            let value = [low, 0, 0, 0].map(u32::to_ne_bytes).concat();
            if low == u32::MAX {
                let rate = rate.to_ne_bytes().to_vec();
                attributes.push(DefaultNla::new(TCA_NETEM_RATE64, rate));
            }
            attributes.push(DefaultNla::new(TCA_NETEM_RATE, value));
        }
        if let Some(seed) = self.seed {
            let value = seed.to_ne_bytes().to_vec();
            attributes.push(DefaultNla::new(TCA_NETEM_PRNG_SEED, value));
        }
        let start = bytes.len();
        bytes.resize(start + attributes.as_slice().buffer_len(), 0);
        attributes.as_slice().emit(&mut bytes[start..]);
        bytes
    }
}

/// A message about what an interface sends by.
fn root_of(index: u32) -> TcMessage {
    let mut message = TcMessage::with_index(index as i32);
    message.header.parent = TcHandle::ROOT;
    message
}

impl Net {
    /// Makes an interface a worse one, in the direction that it sends.
    pub fn set_netem(&self, link: &str, netem: &Netem) -> io::Result<()> {
        if netem.reorder > 0.0 && netem.delay.is_zero() {
            let text = "packets can overtake others only where these are delayed: set a delay";
            let error = io::Error::new(io::ErrorKind::InvalidInput, text);
            return Err(describe(error, format_args!("cannot set netem of {link}")));
        }
        self.with_link(format_args!("set netem of"), link, |netlink, index| {
            let mut message = root_of(index);
            message.header.handle = TcHandle { major: 1, minor: 0 };
            let options = DefaultNla::new(TCA_OPTIONS, netem.options());
            message.attributes = vec![
                TcAttribute::Kind("netem".to_owned()),
                TcAttribute::Other(options),
            ];
            let flags = NLM_F_CREATE | NLM_F_REPLACE;
            netlink.change(Message::NewQueueDiscipline(message), flags)
        })
    }

    /// Makes an interface a good one again.
    pub fn remove_netem(&self, link: &str) -> io::Result<()> {
        self.with_link(format_args!("remove netem from"), link, |netlink, index| {
            netlink.change(Message::DelQueueDiscipline(root_of(index)), 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_kernels_layout() {
        let netem = Netem {
            loss: 0.5,
            reorder: 1.0,
            delay: Duration::from_micros(1),
            ..Netem::default()
        };
        let bytes = netem.options();
        let word = |index: usize| {
            let bytes = bytes[index * 4..].first_chunk().copied();
            u32::from_ne_bytes(bytes.unwrap())
        };
        assert_eq!([word(1), word(2), word(3)], [LIMIT, u32::MAX / 2, 1]);
        // The header of the first attribute: 12 bytes, LATENCY64.
        assert_eq!(word(6), 12 | u32::from(TCA_NETEM_LATENCY64) << 16);
        assert_eq!(word(7), 1000);
        assert_eq!(bytes.len(), 24 + 12 + 12 + 12);
        assert_eq!([share(-1.0), share(2.0)], [0, u32::MAX]);
    }
}
