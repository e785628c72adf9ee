// SPDX-License-Identifier: GPL-2.0-only
//! The network of programs of a session.
//!
//! | kind | connects programs by |
//! |---|---|
//! | `user` | a NAT in a process of its own ([`NatProcess`]), which starts before the sandbox |
//! | `host` | sockets of the host, which the sandbox then allows |
//! | `none` | nothing |
//! | others | an interface that the kernel opens: not in the sandbox |
//!
//! A NAT is connected by a thread, while the session goes on: it takes longer than to mount a root.

use super::words::{forbidden, has_address, words_of};
use crate::options::Options;
use crate::port_gates::PortGates;
use outboard::{Interface, Kernel};
use outboard_error::{warn, Error, ErrorKind, Hint, Result};
use outboard_sandbox::nat::{no_libslirp, NatProcess, NatRequest};
use outboard_sandbox::sandbox::NetworkAccess;
use outboard_sandbox::{HostAccess, HostPort, PassedSocket};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::thread::{self, JoinHandle};

/// Addresses of the kernel and the gateway, which docs/net.md names.
const ADDRESSES: &str = "ip=10.0.2.15/24,gw=10.0.2.2";
const ADDRESSES6: &str = "ip=fec0::15/64,gw=fec0::2";
const NAME_SERVER: &str = "dns=10.0.2.3";
/// The word that opens the way to the host's loopback.
const HOST_LOOPBACK: &str = "host-loopback";
/// The library takes so many.
const MOST_SERVERS: usize = 8;

/// The network of programs.
pub(super) enum ProgramNetwork {
    /// A NAT that the kernel does not have yet.
    Nat(NatNetwork),
    /// A description of another interface that the kernel does not have yet.
    Other(String),
    /// The thread that connects the kernel to a NAT.
    Starting(JoinHandle<Result<Connected>>),
    /// The kernel has it.
    Started { _connected: Connected },
}

/// A NAT to connect to.
pub(super) struct NatNetwork {
    process: NatProcess,
    /// Of sockets that were passed to this process.
    gates: Option<PortGates>,
    /// Behind the kind of the interface.
    words: String,
    /// The user has asked for it.
    is_wanted: bool,
}

/// What the kernel is connected by. The interface goes before the NAT.
pub(super) struct Connected {
    _interface: Option<Interface>,
    _nat: Option<NatProcess>,
}

fn wrong(text: &str) -> Error {
    Error::Usage(format!("cannot connect programs to the network: {text}"))
}

impl ProgramNetwork {
    /// The network that the user wants; `None`: none. The process has one thread. Adds its needs to
    /// `access`.
    pub(super) fn prepare(
        options: &Options,
        access: &mut HostAccess,
        sockets: Vec<PassedSocket>,
    ) -> Result<Option<Self>> {
        let wish = options.net.as_deref().unwrap_or("user");
        let (kind, words) = wish.split_once(',').unwrap_or((wish, ""));
        let is_user = matches!(kind, "user" | "user:slirp");
        if !is_user && !access.ports.is_empty() {
            return Err(wrong(&format!(
                "ports of the host lead to programs by the kind user alone, not by {kind}"
            )));
        }
        match kind {
            "none" if words.is_empty() => return Ok(None),
            "none" => return Err(wrong("the kind none has no words")),
            _ => {}
        }
        if is_user {
            return Self::of_nat(options, access, words, sockets).map(Some);
        }
        if kind == "host" {
            access.network = Some(NetworkAccess {
                kernel_sockets: true,
                listens: true,
                ..NetworkAccess::default()
            });
            return Ok(Some(Self::Other(host_description(words))));
        }
        match forbidden(wish).filter(|_| !options.no_sandbox) {
            Some(part) => {
                let (kind, other) = (ErrorKind::Other, Hint::PermittedInterface);
                Err(Error::hinted(kind, other, |other| {
                    format!(
                        "cannot connect programs to the network: the sandbox forbids {part}; \
                         {other}"
                    )
                }))
            }
            None => Ok(Some(Self::Other(wish.to_owned()))),
        }
    }

    fn of_nat(
        options: &Options,
        access: &HostAccess,
        words: &str,
        sockets: Vec<PassedSocket>,
    ) -> Result<Self> {
        let all = words_of(words);
        if all.iter().any(|word| word.starts_with("forward=")) {
            return Err(wrong("name ports of the host apart from the network"));
        }
        let is_loopback = |word: &&String| *word == HOST_LOOPBACK;
        let gates = PortGates::of(&sockets);
        let request = NatRequest {
            ports: bound(&access.ports, &sockets),
            sockets,
            host_loopback: all.iter().any(|word| is_loopback(&word)),
            no_sandbox: options.no_sandbox,
        };
        let others = words.split(',');
        let others: Vec<&str> = others
            .filter(|word| !word.is_empty() && *word != HOST_LOOPBACK)
            .collect();
        let is_wanted = options.net.is_some() || !access.ports.is_empty();
        let mut process = NatProcess::start(request)?;
        let gates = gates.and_then(|gates| Some(gates.opened_by(process.take_gate()?)));
        Ok(Self::Nat(NatNetwork {
            process,
            gates,
            words: others.join(","),
            is_wanted,
        }))
    }

    /// The gates of sockets that were passed to this process. Once.
    pub(super) fn take_gates(&mut self) -> Option<PortGates> {
        match self {
            Self::Nat(nat) => nat.gates.take(),
            _ => None,
        }
    }

    /// Begins to connect the kernel, which has booted.
    pub(super) fn start(self, kernel: &Kernel) -> Result<Self> {
        match self {
            Self::Nat(nat) => {
                let kernel = kernel.clone();
                let started = thread::Builder::new()
                    .name("network".to_owned())
                    .spawn(move || nat.connect(&kernel));
                started.map(Self::Starting).map_err(|error| failed(&error))
            }
            Self::Other(description) => {
                let interface = kernel.add_interface(&description);
                Ok(Self::of(Connected {
                    _interface: Some(interface.map_err(|error| failed(&error))?),
                    _nat: None,
                }))
            }
            started => Ok(started),
        }
    }

    fn of(connected: Connected) -> Self {
        Self::Started {
            _connected: connected,
        }
    }

    /// Waits until the kernel is connected.
    pub(super) fn finish_start(self) -> Result<Self> {
        let gone = |_| Err(failed(&io::Error::other("the thread for it has ended")));
        match self {
            Self::Starting(thread) => {
                let connected = thread.join().unwrap_or_else(gone);
                connected.map(Self::of)
            }
            other => Ok(other),
        }
    }
}

/// The ports in whose place there is no socket.
fn bound(ports: &[HostPort], sockets: &[PassedSocket]) -> Vec<HostPort> {
    let is_passed = |port: &&HostPort| sockets.iter().any(|passed| passed.is_for(port));
    let others = ports.iter().filter(|port| !is_passed(port));
    others.cloned().collect()
}

fn failed(error: &io::Error) -> Error {
    Error::failed("cannot connect programs to the network", error)
}

impl NatNetwork {
    fn connect(mut self, kernel: &Kernel) -> Result<Connected> {
        let interface = match self.process.wait()? {
            true => {
                let description = nat_description(&self.process, &self.words);
                let added = kernel.add_interface(&description);
                Some(added.map_err(|error| failed(&error))?)
            }
            false if self.is_wanted => return Err(no_libslirp()),
            false => {
                warn(
                    "note: programs have no network: install the package libslirp0, or choose the \
                     network none",
                );
                None
            }
        };
        Ok(Connected {
            _interface: interface,
            _nat: Some(self.process),
        })
    }
}

fn nat_description(nat: &NatProcess, words: &str) -> String {
    let socket = format!("stream:{}", nat.as_fd().as_raw_fd());
    let mut parts = vec![socket.as_str()];
    parts.extend((!words.is_empty()).then_some(words));
    if !has_address(words) {
        parts.push(ADDRESSES);
        parts.extend(nat.has_ipv6().then_some(ADDRESSES6));
        let names_servers = words_of(words).iter().any(|word| word.starts_with("dns="));
        parts.extend((!names_servers).then_some(NAME_SERVER));
    }
    parts.join(",")
}

/// The kernel's sockets are the host's: its name servers are, too.
fn host_description(words: &str) -> String {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let mut parts = vec!["host".to_owned()];
    if words.is_empty() {
        parts.extend(name_servers(&text));
    } else {
        parts.push(words.to_owned());
    }
    parts.join(",")
}

/// The words for the name servers of resolv.conf(5).
fn name_servers(text: &str) -> Vec<String> {
    let server = |line: &str| {
        let address = line.strip_prefix("nameserver")?.trim();
        Some(format!("dns={}", address.parse::<IpAddr>().ok()?))
    };
    let mut servers: Vec<String> = text.lines().filter_map(server).collect();
    servers.dedup();
    servers.truncate(MOST_SERVERS);
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_of_the_host() {
        let text =
            "# x\nnameserver 10.0.0.1\nsearch a\nnameserver  fd00::1\nnameserver fe80::1%e\n";
        assert_eq!(name_servers(text), ["dns=10.0.0.1", "dns=fd00::1"]);
        assert_eq!(host_description("dns=10.0.0.2"), "host,dns=10.0.0.2");
    }

    #[test]
    fn wrong_networks_are_refused() {
        let refused = |net: &str, ports: bool| {
            let options = Options {
                net: Some(net.to_owned()),
                ..Options::default()
            };
            let mut access = HostAccess::default();
            if ports {
                access.ports.push(outboard_sandbox::HostPort {
                    udp: false,
                    address: "127.0.0.1:1".parse().unwrap(),
                    port: 1,
                });
            }
            let refused = ProgramNetwork::prepare(&options, &mut access, Vec::new()).err();
            refused.map(|error| error.message().unwrap_or_default().to_owned())
        };
        assert_eq!(refused("none", false), None);
        assert_eq!(refused("host", false), None);
        for (net, ports, why) in [
            ("none", true, "not by none"),
            ("tap:t", true, "not by tap:t"),
            ("tap:t", false, "the sandbox forbids tap:t"),
            ("none,mtu=1400", false, "no words"),
            ("user,forward=1:2", false, "apart"),
        ] {
            let text = refused(net, ports).unwrap();
            assert!(text.contains(why), "{net}: {text}");
        }
    }
}
