// SPDX-License-Identifier: GPL-2.0-only
//! Data between nodes, with known contents. The receiver compares every byte.

use crate::protocol::TransferResult;
use crate::topology::TransferStep;
use outboard::net::{Net, TcpListener, TcpStream, UdpSocket};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The contents repeat after so many bytes: a prime number, unlike the lengths of packets.
const PERIOD: usize = 65_521;
/// Bytes of one call.
const PIECE: usize = 64 << 10;
/// Datagrams that come after so long a pause are lost. A busy host may delay the sender for less.
const PAUSE: Duration = Duration::from_secs(2);
const NUMBER: usize = 8;

impl TransferResult {
    /// Bytes have arrived.
    fn take(&mut self, start: Instant, length: usize) {
        self.bytes += length as u64;
        self.seconds = start.elapsed().as_secs_f64();
        self.throughput.add(self.seconds, length as u64);
    }
}

/// A socket that waits for a transfer.
pub enum Receiver {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

/// A piece of contents from any position on.
struct Contents {
    bytes: Vec<u8>,
}

impl Contents {
    fn new() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let period: Vec<u8> = (0..PERIOD).map(next).collect();
        Self {
            bytes: [&period[..], &period, &period].concat(),
        }
    }

    fn at(&self, position: u64, length: usize) -> &[u8] {
        let start = (position % PERIOD as u64) as usize;
        &self.bytes[start..start + length]
    }
}

fn any_address(transfer: &TransferStep) -> SocketAddr {
    let any = match transfer.address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(any, transfer.port)
}

pub fn listen(net: &Net, is_tcp: bool, transfer: &TransferStep) -> io::Result<Receiver> {
    let address = any_address(transfer);
    if is_tcp {
        net.tcp_listen(address).map(Receiver::Tcp)
    } else {
        net.udp_bind(address).map(Receiver::Udp)
    }
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// The rest of the time, which is never zero.
fn rest(end: Instant) -> io::Result<Duration> {
    let rest = end.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        Err(timed_out())
    } else {
        Ok(rest)
    }
}

/// A read or write that a time limit ended.
fn limited(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => timed_out(),
        _ => error,
    }
}

impl Receiver {
    pub fn receive(self, transfer: &TransferStep) -> TransferResult {
        let mut result = TransferResult::default();
        let received = match self {
            Self::Tcp(listener) => receive_tcp(&listener, transfer, &mut result),
            Self::Udp(socket) => receive_udp(&socket, transfer, &mut result),
        };
        if let Err(error) = received {
            result.reason = Some(error.to_string());
        }
        result
    }
}

/// Waits for a connection. A listener has no time limit, so it is asked again and again.
fn accept(listener: &TcpListener, end: Instant) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(rest(end)?.min(Duration::from_millis(1)));
            }
            Err(error) => return Err(error),
        }
    }
}

fn receive_tcp(
    listener: &TcpListener,
    transfer: &TransferStep,
    result: &mut TransferResult,
) -> io::Result<()> {
    let end = Instant::now() + transfer.timeout;
    let stream = accept(listener, end)?;
    stream.set_nonblocking(false)?;
    let (start, contents) = (Instant::now(), Contents::new());
    let mut buffer = vec![0; PIECE];
    while result.bytes < transfer.bytes {
        stream.set_read_timeout(Some(rest(end)?))?;
        let length = (&stream).read(&mut buffer).map_err(limited)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if buffer[..length] != *contents.at(result.bytes, length) {
            return Err(io::Error::other("wrong bytes have arrived"));
        }
        result.take(start, length);
    }
    result.count = result.bytes;
    // The sender waits for this.
    (&stream).write_all(&[1])
}

fn send_tcp(net: &Net, transfer: &TransferStep, result: &mut TransferResult) -> io::Result<()> {
    let end = Instant::now() + transfer.timeout;
    let address = SocketAddr::new(transfer.address, transfer.port);
    let stream = net.tcp_connect_timeout(&address, rest(end)?)?;
    let contents = Contents::new();
    while result.bytes < transfer.bytes {
        stream.set_write_timeout(Some(rest(end)?))?;
        let length = PIECE.min((transfer.bytes - result.bytes) as usize);
        let sent = (&stream)
            .write(contents.at(result.bytes, length))
            .map_err(limited)?;
        result.bytes += sent as u64;
    }
    stream.set_read_timeout(Some(rest(end)?))?;
    (&stream).read_exact(&mut [0]).map_err(limited)
}

fn receive_udp(
    socket: &UdpSocket,
    transfer: &TransferStep,
    result: &mut TransferResult,
) -> io::Result<()> {
    let contents = Contents::new();
    let mut seen = vec![false; transfer.count as usize];
    let mut buffer = vec![0; transfer.bytes as usize + 1];
    let mut end = Instant::now() + transfer.timeout;
    let mut start = None;
    while result.count < u64::from(transfer.count) {
        socket.set_read_timeout(Some(
            end.saturating_duration_since(Instant::now())
                .max(Duration::from_micros(1)),
        ))?;
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let number = buffer.first_chunk().copied().map_or(0, u64::from_be_bytes);
        let is_right = length as u64 == transfer.bytes
            && buffer[NUMBER..length] == *contents.at(number, length - NUMBER);
        match seen.get_mut(number as usize).filter(|_| is_right) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => continue,
            None => return Err(io::Error::other("a wrong datagram has arrived")),
        }
        result.count += 1;
        result.take(*start.get_or_insert_with(Instant::now), length);
        end = Instant::now() + PAUSE.max(transfer.interval * 2);
    }
    Ok(())
}

fn send_udp(net: &Net, transfer: &TransferStep, result: &mut TransferResult) -> io::Result<()> {
    let mut any = any_address(transfer);
    any.set_port(0);
    let socket = net.udp_bind(any)?;
    let address = SocketAddr::new(transfer.address, transfer.port);
    let contents = Contents::new();
    let start = Instant::now();
    for number in 0..transfer.count {
        let mut datagram = u64::from(number).to_be_bytes().to_vec();
        let length = transfer.bytes as usize - NUMBER;
        datagram.extend(contents.at(number.into(), length));
        socket.send_to(&datagram, address)?;
        result.count += 1;
        result.bytes += datagram.len() as u64;
        let next = start + transfer.interval * (number + 1);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

pub fn send(net: &Net, is_tcp: bool, transfer: &TransferStep) -> TransferResult {
    let mut result = TransferResult::default();
    let sent = if is_tcp {
        send_tcp(net, transfer, &mut result)
    } else {
        send_udp(net, transfer, &mut result)
    };
    if let Err(error) = sent {
        result.reason = Some(error.to_string());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Action, Topology};
    use outboard::Kernel;
    use std::net::Ipv4Addr;

    /// A transfer over a kernel's loopback, by a step of a lab's file.
    fn transfer(step: &str) -> TransferStep {
        let text = format!("nodes: {{a: , b: }}\nlinks: {{l: {{nodes: [a, b]}}}}\nsteps: [{step}]");
        let step = Topology::parse(&text).unwrap().steps.remove(0);
        match step.action {
            Action::Tcp(transfer) | Action::Udp(transfer) => TransferStep {
                address: Ipv4Addr::LOCALHOST.into(),
                ..transfer
            },
            other => panic!("{other:?} moves no data"),
        }
    }

    fn net() -> Net {
        let net = Kernel::builder().boot().unwrap().net();
        net.set_up("lo").unwrap();
        net
    }

    #[test]
    fn wrong_bytes_are_noticed() {
        let net = net();
        let step = transfer("tcp: {from: a, to: b, bytes: 300000, timeout: 60s}");
        let to = SocketAddr::new(step.address, step.port);
        for wrong in [None, Some(0), Some(299_999)] {
            let mut bytes = Contents::new().at(0, PERIOD).repeat(5);
            bytes.truncate(300_000);
            if let Some(position) = wrong {
                bytes[position] ^= 1;
            }
            let receiver = listen(&net, true, &step).unwrap();
            let found = std::thread::scope(|scope| {
                let receiving = scope.spawn(|| receiver.receive(&step));
                let stream = net.tcp_connect(to).unwrap();
                // A receiver that has seen a wrong byte closes the connection.
                let _ = (&stream).write_all(&bytes);
                receiving.join().unwrap()
            });
            let reason = wrong.map(|_| "wrong bytes have arrived");
            assert_eq!(found.reason.as_deref(), reason, "{wrong:?}");
            assert_eq!(found.bytes == 300_000, wrong.is_none());
        }
    }

    #[test]
    fn wrong_datagrams_are_noticed() {
        let net = net();
        let step = transfer("udp: {from: a, to: b, count: 2, size: 100, timeout: 60s}");
        let to = SocketAddr::new(step.address, step.port);
        let socket = net.udp_bind("127.0.0.1:0").unwrap();
        let contents = Contents::new();
        let good = |number: u64| {
            let data = contents.at(number, 100 - NUMBER);
            [&number.to_be_bytes()[..], data].concat()
        };
        let mut wrong = good(1);
        wrong[99] ^= 1;
        let (short, unknown) = (good(1)[..99].to_vec(), good(2));
        for second in [wrong, short, unknown] {
            let receiver = listen(&net, false, &step).unwrap();
            for datagram in [good(0), second] {
                socket.send_to(&datagram, to).unwrap();
            }
            let found = receiver.receive(&step);
            assert_eq!(
                found.reason.as_deref(),
                Some("a wrong datagram has arrived")
            );
            assert_eq!(found.count, 1);
        }
        let receiver = listen(&net, false, &step).unwrap();
        // The second one is a duplicate.
        for number in [0, 0, 1] {
            socket.send_to(&good(number), to).unwrap();
        }
        let found = receiver.receive(&step);
        assert_eq!((found.count, found.bytes, found.reason), (2, 200, None));
    }

    #[test]
    fn contents_are_one_stream() {
        let contents = Contents::new();
        let whole = contents.at(PERIOD as u64 * 3 - 5, 10).to_vec();
        assert_eq!(whole[5..], *contents.at(0, 5));
        assert_eq!(whole[..5], *contents.at(PERIOD as u64 - 5, 5));
        assert_ne!(contents.at(0, 8), contents.at(1, 8));
        assert_eq!(contents.at(u64::MAX, PIECE).len(), PIECE);
    }
}
