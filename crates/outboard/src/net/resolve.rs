// SPDX-License-Identifier: GPL-2.0-only
//! Names of hosts, by the DNS servers in /etc/resolv.conf of the kernel's root.
//!
//! Each server is asked for both families at once, from a port that the kernel chooses. A server
//! that does not answer in time or cannot answer is followed by the next one; an answer that is too
//! long comes by TCP. All of a call is over after [`LIMIT`].

use crate::kernel_files::read_text;
use crate::net::dns::{self, DnsAnswer, Family, ResolvConf};
use crate::net::netlink::describe;
use crate::net::Net;
use outboard_sys::{libc, Deadline, Stopped};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

/// Longest time that a name takes, whatever the servers do.
const LIMIT: Duration = Duration::from_secs(30);
const PORT: u16 = 53;
/// Longest answer in a datagram. Without EDNS, servers send 512 bytes.
const DATAGRAM_SIZE: usize = 4096;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// A question to one server, and its answer when there is one.
struct Query<'a> {
    name: &'a str,
    family: Family,
    id: u16,
    answer: Option<DnsAnswer>,
}

impl Query<'_> {
    fn message(&self) -> io::Result<Vec<u8>> {
        let message = dns::question(self.id, self.name, self.family);
        message.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    fn offer(&mut self, bytes: &[u8]) {
        if self.answer.is_none() {
            self.answer = dns::answer(bytes, self.id, self.name, self.family);
        }
    }
}

/// A server's answer.
enum Lookup {
    Found(Vec<IpAddr>),
    NoSuchName,
    NoAddress,
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

fn not_found(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, text)
}

/// Errors that another server does not change.
fn ends_search(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
        || Stopped::of(error).is_some()
        || outboard_sys::errno(error) == Some(libc::ENODEV)
}

impl Net {
    /// The addresses of a host: of its text (`fe80::1%eth0` is on that link), of /etc/hosts, or by
    /// the servers in /etc/resolv.conf. Both files are in the kernel's root. IPv4 addresses come
    /// first.
    ///
    /// Fails with `TimedOut` if no server answers: after the time in /etc/resolv.conf (`timeout`
    /// and `attempts`, by default 5 seconds for each server, twice), at the latest after 30
    /// seconds. `NotFound`: the name does not exist or has no address, or there is no server.
    pub fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let failed = |error| describe(error, format_args!("cannot resolve {host:?}"));
        if let Some(address) = self.literal(host, port).map_err(failed)? {
            return Ok(vec![address]);
        }
        let addresses = self.look_up(host).map_err(failed)?;
        let with_port = |address| SocketAddr::new(address, port);
        Ok(addresses.into_iter().map(with_port).collect())
    }

    /// `ADDRESS`, or `ADDRESS%INTERFACE` of IPv6. `None`: it is no address.
    fn literal(&self, text: &str, port: u16) -> io::Result<Option<SocketAddr>> {
        let Some((address, link)) = text.split_once('%') else {
            let address: Option<IpAddr> = text.parse().ok();
            return Ok(address.map(|address| SocketAddr::new(address, port)));
        };
        let Ok(address) = address.parse() else {
            return Ok(None);
        };
        let scope = match link.parse() {
            Ok(number) => number,
            Err(_) => self.link(link)?.index,
        };
        Ok(Some(SocketAddrV6::new(address, port, 0, scope).into()))
    }

    fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if !dns::is_name(host) {
            let text = "this is neither an address nor a name of a host";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let known = dns::in_hosts(&self.text(c"/etc/hosts")?, host);
        if !known.is_empty() {
            return Ok(known);
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.eq_ignore_ascii_case("localhost") {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let config = ResolvConf::parse(&self.text(c"/etc/resolv.conf")?);
        self.ask_candidates(host, &config)
    }

    /// A file that may be absent.
    fn text(&self, path: &std::ffi::CStr) -> io::Result<String> {
        match read_text(self.system(), path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            other => other,
        }
    }

    fn ask_candidates(&self, host: &str, config: &ResolvConf) -> io::Result<Vec<IpAddr>> {
        if config.servers.is_empty() {
            let text = "/etc/resolv.conf of the kernel names no server: write a line \
                        \"nameserver ADDRESS\"";
            return Err(not_found(text));
        }
        let deadline = Deadline::after(LIMIT);
        let mut reason = "there is no such name";
        for name in config.candidates(host) {
            match self.ask_servers(&name, config, deadline)? {
                Lookup::Found(addresses) => return Ok(addresses),
                Lookup::NoAddress => reason = "the name has no address",
                Lookup::NoSuchName => {}
            }
        }
        Err(not_found(reason))
    }

    fn ask_servers(
        &self,
        name: &str,
        config: &ResolvConf,
        deadline: Deadline,
    ) -> io::Result<Lookup> {
        let mut failures = Vec::new();
        let mut kind = io::ErrorKind::TimedOut;
        for _ in 0..config.attempts {
            for server in &config.servers {
                if deadline.has_passed() {
                    break;
                }
                match self.ask(server, name, deadline.min(Deadline::after(config.timeout))) {
                    Ok(lookup) => return Ok(lookup),
                    Err(error) if ends_search(&error) => return Err(error),
                    Err(error) => {
                        kind = error.kind();
                        let text = format!("{server}: {error}");
                        if !failures.contains(&text) {
                            failures.push(text);
                        }
                    }
                }
            }
        }
        let text = failures.join("; ");
        Err(io::Error::new(kind, format!("no server answers ({text})")))
    }

    fn server_address(&self, server: &str) -> io::Result<SocketAddr> {
        self.literal(server, PORT)?.ok_or_else(|| {
            let text = "/etc/resolv.conf does not have an address here";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    }

    fn ask(&self, server: &str, name: &str, deadline: Deadline) -> io::Result<Lookup> {
        let address = self.server_address(server)?;
        let mut random = [0; 4];
        self.system().random(&mut random)?;
        let ids = [[random[0], random[1]], [random[2], random[3]]];
        let mut queries = [0, 1].map(|index| Query {
            name,
            family: FAMILIES[index],
            id: u16::from_ne_bytes(ids[index]),
            answer: None,
        });
        self.ask_by_datagram(&address, &mut queries, deadline)?;
        for query in &mut queries {
            if query.answer == Some(DnsAnswer::Truncated) {
                query.answer = None;
                self.ask_by_stream(&address, query, deadline)?;
            }
        }
        combine(queries.map(|query| query.answer))
    }

    fn ask_by_datagram(
        &self,
        server: &SocketAddr,
        queries: &mut [Query],
        deadline: Deadline,
    ) -> io::Result<()> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = self.udp_bind((any, 0))?;
        // Datagrams of others do not arrive, and errors of the server do.
        socket.connect(*server)?;
        socket.set_nonblocking(true)?;
        for query in queries.iter() {
            socket.send(&query.message()?)?;
        }
        let mut buffer = [0; DATAGRAM_SIZE];
        while queries.iter().any(|query| query.answer.is_none()) {
            if deadline.has_passed() || !socket.0.wait(libc::POLLIN, deadline)? {
                return Err(timed_out());
            }
            match socket.recv(&mut buffer) {
                Ok(length) => queries
                    .iter_mut()
                    .for_each(|query| query.offer(&buffer[..length])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends a message by TCP, and returns the answer.
    fn exchange(&self, server: &SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = self.tcp_connect(*server)?;
        let mut request = (message.len() as u16).to_be_bytes().to_vec();
        request.extend(message);
        stream.write_all(&request)?;
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }

    fn ask_by_stream(
        &self,
        server: &SocketAddr,
        query: &mut Query,
        deadline: Deadline,
    ) -> io::Result<()> {
        let message = query.message()?;
        let answer = deadline.run_request(|| self.exchange(server, &message))?;
        query.offer(&answer);
        match query.answer {
            Some(DnsAnswer::Truncated) | None => Err(io::ErrorKind::InvalidData.into()),
            Some(_) => Ok(()),
        }
    }
}

/// One family is enough. A refusal of both is an error.
fn combine(answers: [Option<DnsAnswer>; 2]) -> io::Result<Lookup> {
    let mut found = Vec::new();
    let (mut is_refused, mut exists) = (true, false);
    for answer in answers.into_iter().flatten() {
        match answer {
            DnsAnswer::Addresses(addresses) => {
                exists = true;
                found.extend(addresses);
            }
            DnsAnswer::Refused | DnsAnswer::Truncated => continue,
            DnsAnswer::NoSuchName => {}
        }
        is_refused = false;
    }
    match (is_refused, found.is_empty(), exists) {
        (true, ..) => Err(io::Error::other("the server cannot answer")),
        (_, false, _) => Ok(Lookup::Found(found)),
        (_, _, true) => Ok(Lookup::NoAddress),
        _ => Ok(Lookup::NoSuchName),
    }
}
