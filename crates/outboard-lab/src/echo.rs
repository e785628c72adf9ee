// SPDX-License-Identifier: GPL-2.0-only
//! Echo requests of ICMP and ICMPv6, as ping(8) sends them.

use crate::protocol::EchoResult;
use crate::topology::Echo;
use outboard::net::{Net, RawSocket};
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Numbers of ICMP: request, reply, destination unreachable, time exceeded.
const TYPES: [u8; 4] = [8, 0, 3, 11];
/// Those of ICMPv6.
const TYPES_V6: [u8; 4] = [128, 129, 1, 3];
const HEADER: usize = 8;
/// The next identifier: a late reply is not taken for one to a later ping.
static IDENTIFIER: AtomicU16 = AtomicU16::new(1);

struct Ping<'a> {
    socket: RawSocket,
    echo: &'a Echo,
    identifier: u16,
    result: EchoResult,
    /// When each request was sent, and whether its reply has come.
    sent: Vec<(Instant, bool)>,
}

/// The Internet checksum.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn request(identifier: u16, sequence: u16, size: usize, is_v6: bool) -> Vec<u8> {
    let kind = if is_v6 { TYPES_V6[0] } else { TYPES[0] };
    let mut packet = vec![kind, 0, 0, 0];
    packet.extend(identifier.to_be_bytes());
    packet.extend(sequence.to_be_bytes());
    packet.extend((0..size).map(|index| index as u8));
    if !is_v6 {
        let sum = checksum(&packet).to_be_bytes();
        packet[2..4].copy_from_slice(&sum);
    }
    packet
}

/// The packet behind the IP header that an IPv4 socket returns.
fn message(packet: &[u8], is_v6: bool) -> Option<&[u8]> {
    let header = if is_v6 {
        0
    } else {
        usize::from(packet.first()? & 15) * 4
    };
    packet
        .get(header..)
        .filter(|message| message.len() >= HEADER)
}

impl Ping<'_> {
    fn is_v6(&self) -> bool {
        self.echo.to.is_ipv6()
    }

    fn send(&mut self) {
        let sequence = self.sent.len() as u16;
        let packet = request(self.identifier, sequence, self.echo.size, self.is_v6());
        self.sent.push((Instant::now(), false));
        self.result.sent += 1;
        if let Err(error) = self.socket.send_to(&packet, self.echo.to) {
            self.result.reason = Some(error.to_string());
        }
    }

    fn take(&mut self, packet: &[u8], sender: std::net::IpAddr, now: Instant) {
        let types = if self.is_v6() { TYPES_V6 } else { TYPES };
        let Some(message) = message(packet, self.is_v6()) else {
            return;
        };
        let word = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
        match message[0] {
            kind if kind == types[1] && word(4) == self.identifier => {
                let data = &message[HEADER..];
                let is_whole = data.len() == self.echo.size
                    && data.iter().enumerate().all(|(at, byte)| *byte == at as u8);
                if is_whole {
                    self.take_reply(word(6), now);
                }
            }
            kind if kind == types[2] => {
                self.result.reason = Some(format!("unreachable, reported by {sender}"));
            }
            kind if kind == types[3] => {
                self.result.reason = Some(format!("too many hops, reported by {sender}"));
            }
            _ => {}
        }
    }

    fn take_reply(&mut self, sequence: u16, now: Instant) {
        // The number counts modulo 2^16: the latest request that has it.
        let last = self.sent.len().wrapping_sub(1);
        let back = (last as u16).wrapping_sub(sequence);
        let index = last.wrapping_sub(usize::from(back));
        let Some((time, is_answered)) = self.sent.get_mut(index) else {
            return;
        };
        if std::mem::replace(is_answered, true) {
            self.result.duplicates += 1;
            return;
        }
        let seconds = now.duration_since(*time).as_secs_f64();
        let result = &mut self.result;
        result.least = match result.received {
            0 => seconds,
            _ => result.least.min(seconds),
        };
        result.most = result.most.max(seconds);
        result.sum += seconds;
        result.received += 1;
    }

    /// Receives until a time.
    fn receive_until(&mut self, end: Instant) -> io::Result<()> {
        let mut packet = vec![0; HEADER + self.echo.size + 128];
        while self.result.received < self.result.sent {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(());
            }
            self.socket.set_read_timeout(Some(rest))?;
            match self.socket.recv_from(&mut packet) {
                Ok((length, sender)) => self.take(&packet[..length], sender, Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        std::thread::sleep(
            end.saturating_duration_since(Instant::now())
                .min(self.rest()),
        );
        Ok(())
    }

    /// The pause before the next request, if there is one.
    fn rest(&self) -> Duration {
        if self.result.sent < self.echo.count {
            self.echo.interval
        } else {
            Duration::ZERO
        }
    }
}

/// Sends the requests and waits for the replies.
pub fn ping(net: &Net, echo: &Echo) -> io::Result<EchoResult> {
    let mut ping = Ping {
        socket: net.icmp_socket(echo.to.is_ipv6())?,
        echo,
        identifier: IDENTIFIER.fetch_add(1, Ordering::Relaxed),
        result: EchoResult::default(),
        sent: Vec::new(),
    };
    let start = Instant::now();
    for number in 1..=echo.count {
        ping.send();
        if number < echo.count {
            ping.receive_until(start + echo.interval * number)?;
        }
    }
    ping.receive_until(Instant::now() + echo.timeout)?;
    Ok(ping.result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_correct_checksum() {
        let packet = request(9, 7, 5, false);
        assert_eq!(packet.len(), 13);
        assert_eq!(checksum(&packet), 0);
        assert_eq!(packet[4..8], [0, 9, 0, 7]);
    }

    #[test]
    fn short_packets_have_no_message() {
        assert_eq!(message(&[], false), None);
        assert_eq!(message(&[0x4f; 20], false), None);
        assert_eq!(message(&[0x45; 28], false).map(<[u8]>::len), Some(8));
        assert_eq!(message(&[0; 7], true), None);
    }
}
