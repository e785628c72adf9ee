// SPDX-License-Identifier: GPL-2.0-only
//! The network of a session: the kernel's interface, and the addresses of servers.
//!
//! Before the sandbox: [`Network::prepare`] looks names of servers up by the host's resolver, and
//! loads libslirp if that connects the kernel. In a library, which has no sandbox, a limit of the
//! caller ends the look-up. After the boot and before
//! [`outboard_sandbox::Sandbox::close`]: [`Network::start`] adds the interface.

use super::super::words::{forbidden, has_address, words_of};
use super::watch::{IsWaiting, Lateness, ServerWatch};
use crate::aside::aside;
use crate::destination::{Overwrite, UsedFiles};
use crate::options::Options;
use crate::remote::{Protocol, Remote};
use outboard::net::TcpStream;
use outboard::{load_libslirp, Deadline, Interface, Kernel, ServerRequests};
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_sandbox::sandbox::NetworkAccess;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time limit of a request to a server, if the user sets none.
const LIMIT: Duration = Duration::from_secs(30);
/// The kind of network behind the host's own, by libslirp: a sandboxed process starts no passt.
const USER: &str = "user:slirp";
/// The kernel's sockets are the host's.
const HOST: &str = "host";
/// Addresses of the kernel and the gateway in such a network, which docs/net.md names.
const ADDRESSES: &str = "ip=10.0.2.15/24,gw=10.0.2.2";
const ADDRESSES6: &str = "ip=fec0::15/64,gw=fec0::2";
const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2));
const GATEWAY6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 2));
/// How often the kernel repeats the first packet of a connection: after 1, 2 and 4 seconds, and so
/// on. 3: a connection fails after 15 seconds.
const FIRST_PACKETS: &str = "3";

/// How the kernel reaches servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By its interface behind the host's.
    User,
    /// By sockets of the host.
    Host,
    /// By an interface with a network of its own.
    Other,
}

impl Way {
    fn of(kind: &str) -> Self {
        match kind {
            HOST => Self::Host,
            _ if kind == "user" || kind.starts_with("user:") => Self::User,
            _ => Self::Other,
        }
    }
}

/// The network of a session.
pub(in crate::session) struct Network {
    description: String,
    way: Way,
    in_library: bool,
    /// The user's login name; empty if unknown.
    user_name: String,
    limit: Duration,
    /// Servers by their names, with what the host's resolver found.
    servers: Vec<(String, Result<IpAddr>)>,
    /// Servers whose names the kernel has looked up: a second look may have another result.
    found: Mutex<HashMap<String, IpAddr>>,
    interface: Option<Interface>,
    watch: Option<ServerWatch>,
}

/// The address of a name, IPv4 if it has one.
fn look_up(host: &str) -> Result<IpAddr> {
    let failed = |text: String| Error::known(ErrorKind::NotFound, text);
    let unknown = |error: io::Error| {
        let text = error.to_string();
        let why = text.rsplit_once(": ").map_or(&*text, |(_, why)| why);
        failed(format!("cannot find the server {host}: {why}"))
    };
    let found = (host, 0).to_socket_addrs().map_err(unknown)?;
    let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    let first = found.iter().find(|address| address.is_ipv4());
    first
        .or(found.first())
        .copied()
        .ok_or_else(|| failed(format!("cannot find the server {host}: it has no address")))
}

/// The same on another thread: the host's resolver may wait for long, and a limit of the caller
/// ends the wait. Not for the program, which must have one thread before its sandbox.
fn look_up_aside(host: &str) -> Result<IpAddr> {
    let name = host.to_owned();
    let found = aside(move || Ok(look_up(&name)));
    found.unwrap_or_else(|why| {
        let text = format!("cannot find the server {host}: {why}");
        Err(Error::Failed(text))
    })
}

impl Network {
    /// The network that these images need; `None`: none of them has a server. The process has one
    /// thread, unless it belongs to a program that is not ours: `in_library`.
    pub(in crate::session) fn prepare(
        options: &Options,
        images: &[(PathBuf, bool)],
        in_library: bool,
    ) -> Option<Self> {
        let parse = |(file, _): &(PathBuf, bool)| Remote::of(file);
        // The command that uses a wrong name reports it.
        let remotes: Vec<Remote> = images
            .iter()
            .filter_map(parse)
            .filter_map(Result::ok)
            .collect();
        if !images
            .iter()
            .any(|(file, _)| crate::remote::is_remote(file))
        {
            return None;
        }
        let wish = options.net.as_deref().unwrap_or("user");
        let (kind, words) = wish.split_once(',').unwrap_or((wish, ""));
        let way = Way::of(kind);
        let look_up = if in_library { look_up_aside } else { look_up };
        let mut servers: Vec<(String, Result<IpAddr>)> = Vec::new();
        for remote in remotes.iter().filter(|_| way != Way::Other) {
            if servers.iter().all(|(known, _)| *known != remote.host) {
                servers.push((remote.host.clone(), look_up(&remote.host)));
            }
        }
        let has_v6 = servers
            .iter()
            .any(|(_, found)| matches!(found, Ok(IpAddr::V6(_))));
        let mut description = vec![if kind == "user" { USER } else { kind }];
        description.extend((!words.is_empty()).then_some(words));
        if way == Way::User {
            if !in_library {
                load_libslirp();
            }
            description.extend((!has_address(words)).then_some(ADDRESSES));
            description.extend((!has_address(words) && has_v6).then_some(ADDRESSES6));
        }
        Some(Self {
            description: description.join(","),
            way,
            in_library,
            user_name: std::env::var("USER").unwrap_or_default(),
            limit: options.timeout.map_or(LIMIT, Duration::from_secs),
            servers,
            found: Mutex::default(),
            interface: None,
            watch: None,
        })
    }

    /// An error if the sandbox forbids the interface. Its own error would blame the host.
    pub(in crate::session) fn check_sandbox(&self) -> Result<()> {
        match forbidden(&self.description) {
            Some(part) => {
                let (kind, other) = (ErrorKind::Other, Hint::PermittedInterface);
                Err(Error::hinted(kind, other, |other| {
                    format!(
                        "cannot connect the kernel to the network: the sandbox forbids {part}; \
                         {other}"
                    )
                }))
            }
            None => Ok(()),
        }
    }

    /// An error if a capture would overwrite a disk image, or a file of this command.
    pub(in crate::session) fn check_capture(&self, used: &UsedFiles) -> Result<()> {
        let words = words_of(&self.description);
        let path = words.iter().find_map(|word| word.strip_prefix("pcap="));
        path.map_or(Ok(()), |path| {
            let checked = used.check_path(Path::new(path), Overwrite::Plain);
            checked.map_err(|error| Error::failed(format!("cannot capture into {path}"), &error))
        })
    }

    /// The needs of a session on the host's network.
    pub(in crate::session) fn access(&self, images: &[(PathBuf, bool)]) -> NetworkAccess {
        let remotes = images.iter().filter_map(|(file, _)| Remote::of(file));
        let remotes: Vec<Remote> = remotes.filter_map(Result::ok).collect();
        // A name has several ports if NFS 3 may be used.
        let one = |remote: &Remote| remote.has_one_port().then(|| remote.port());
        let ports: Option<Vec<u16>> = remotes.iter().map(one).collect();
        NetworkAccess {
            ports: ports.unwrap_or_default(),
            kernel_sockets: self.way == Way::Host,
            ..NetworkAccess::default()
        }
    }

    /// Does the interface need a kernel whose memory other processes may map?
    pub(in crate::session) fn needs_shared_memory(&self) -> bool {
        outboard::needs_shared_memory(&self.description)
    }

    /// Adds the interface to the kernel that was booted.
    pub(in crate::session) fn start(&mut self, kernel: &Kernel) -> Result<()> {
        let failed = |error| Error::failed("cannot connect the kernel to the network", &error);
        let interface = kernel.add_interface(&self.description).map_err(failed)?;
        kernel
            .set_sysctl("net.ipv4.tcp_syn_retries", FIRST_PACKETS)
            .map_err(failed)?;
        self.interface = Some(interface);
        self.watch = Some(ServerWatch::start(self.limit, kernel, self.in_library).map_err(failed)?);
        Ok(())
    }

    /// Watches the requests of a mount. `None`: there is no kernel yet.
    pub(super) fn watch(&self, name: &str, requests: ServerRequests) -> Option<Arc<Lateness>> {
        let watch = self.watch.as_ref();
        watch.map(|watch| watch.add(name.to_owned(), requests))
    }

    /// The same for a share.
    pub(super) fn watch_share(
        &self,
        name: &str,
        requests: ServerRequests,
    ) -> Option<Arc<Lateness>> {
        let watch = self.watch.as_ref();
        watch.map(|watch| watch.add_share(name.to_owned(), requests))
    }

    /// From now on calls wait for servers only while `is_waiting` returns true.
    pub(in crate::session) fn watch_while(&self, is_waiting: IsWaiting) {
        if let Some(watch) = &self.watch {
            watch.watch_while(is_waiting);
        }
    }

    /// Mounts what a server has. The program, or a library's kernel, ends if that takes too long.
    pub(super) fn while_mounting<T>(&self, name: &str, mount: impl FnOnce() -> T) -> T {
        match &self.watch {
            Some(watch) => watch.while_mounting(name, mount),
            None => mount(),
        }
    }

    /// Ends the thread that looks after the servers: the kernel is about to halt.
    pub(in crate::session) fn end_watch(&mut self) {
        self.watch = None;
    }

    /// The session begins to write the rest to the servers.
    pub(in crate::session) fn finish(&self) {
        if let Some(watch) = &self.watch {
            watch.finish();
        }
    }

    /// The user's login name; empty if unknown.
    pub(super) fn user_name(&self) -> &str {
        &self.user_name
    }

    /// Time limit of a request to a server.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// The address of a server in the kernel's network.
    pub(super) fn address(&self, kernel: &Kernel, remote: &Remote) -> Result<SocketAddr> {
        let port = remote.port();
        if self.way == Way::Other {
            let address = self.look_up_inside(kernel, &remote.host)?;
            return Ok(SocketAddr::new(address, port));
        }
        let mut servers = self.servers.iter();
        let found = servers.find(|(known, _)| *known == remote.host);
        let address = match found {
            Some((_, found)) => found.clone()?,
            None => {
                return Err(Error::Failed(format!(
                    "the server {} was not named when the session began",
                    remote.host
                )))
            }
        };
        // The host's own loopback is behind the gateway.
        let address = match address {
            IpAddr::V4(own) if own.is_loopback() && self.way == Way::User => GATEWAY,
            IpAddr::V6(own) if own.is_loopback() && self.way == Way::User => GATEWAY6,
            other => other,
        };
        Ok(SocketAddr::new(address, port))
    }

    /// The address of a server by the kernel's own resolver.
    fn look_up_inside(&self, kernel: &Kernel, host: &str) -> Result<IpAddr> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = found.get(host) {
            return Ok(*address);
        }
        let failed = || format!("cannot find the server {host}");
        let resolved = Deadline::after(self.limit).run_request(|| kernel.net().resolve(host, 0));
        let resolved = resolved.map_err(|error| Error::failed(failed(), &error))?;
        let first = resolved.first();
        let first = first.ok_or_else(|| Error::Failed(format!("{}: no address", failed())))?;
        found.insert(host.to_owned(), first.ip());
        Ok(first.ip())
    }

    /// The identity of what a server has: the same under all names of the server.
    pub(super) fn identity(&self, kernel: &Kernel, remote: &Remote) -> Result<(u64, u64)> {
        Ok(identity_at(self.address(kernel, remote)?, remote))
    }

    /// A new connection to a server.
    pub(super) fn connect(
        &self,
        kernel: &Kernel,
        remote: &Remote,
        shown: &str,
    ) -> Result<TcpStream> {
        let address = self.address(kernel, remote)?;
        let connected = kernel.net().tcp_connect_timeout(&address, self.limit);
        connected.map_err(|error| {
            let place = format!("{} port {}", remote.host, remote.port());
            Error::failed(format!("{shown}: cannot connect to {place}"), &error)
        })
    }
}

/// The host at an address. All addresses of loopback, and of the gateways before it, are this host.
fn host_of(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    if address.is_loopback() || address == GATEWAY || address == GATEWAY6 {
        Ipv4Addr::LOCALHOST.into()
    } else {
        address
    }
}

/// The identity of what a server has, in the place of a file's device and inode.
fn identity_at(address: SocketAddr, remote: &Remote) -> (u64, u64) {
    use std::hash::{DefaultHasher, Hash, Hasher};
    // NBD's names are any text, a share has one name in all cases, others are paths.
    let export = match remote.protocol {
        Protocol::Nbd => remote.export.clone(),
        Protocol::Smb => remote.export.trim_matches('/').to_lowercase(),
        Protocol::Nfs | Protocol::NineP => remote.export.trim_matches('/').to_owned(),
    };
    let mut hasher = DefaultHasher::new();
    (remote.protocol, host_of(address.ip()), address.port()).hash(&mut hasher);
    (export, &remote.user, &remote.options).hash(&mut hasher);
    (u64::MAX, hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepare(net: Option<&str>, files: &[&str]) -> Option<Network> {
        let options = Options {
            net: net.map(str::to_owned),
            ..Options::default()
        };
        let images: Vec<(PathBuf, bool)> = files.iter().map(|file| (file.into(), false)).collect();
        Network::prepare(&options, &images, false)
    }

    fn ports(files: &[&str]) -> Vec<u16> {
        let images: Vec<(PathBuf, bool)> = files.iter().map(|file| (file.into(), false)).collect();
        prepare(None, files).unwrap().access(&images).ports
    }

    #[test]
    fn an_interface_is_described() {
        assert!(prepare(None, &["disk.img"]).is_none());
        let text = |net, file| prepare(net, &[file]).unwrap().description;
        let own = "user:slirp,ip=10.0.2.15/24,gw=10.0.2.2";
        assert_eq!(text(None, "nfs://127.0.0.1/e"), own);
        let both = format!("{own},ip=fec0::15/64,gw=fec0::2");
        assert_eq!(text(Some("user"), "nfs://[::1]/e"), both);
        let given = "user:slirp,mtu=1400,dhcp";
        assert_eq!(text(Some("user,mtu=1400,dhcp"), "nfs://127.0.0.1/e"), given);
        let own = "user:slirp,dhcp6,ip=10.0.2.15/24,gw=10.0.2.2";
        assert_eq!(text(Some("user,dhcp6"), "nfs://127.0.0.1/e"), own);
        assert_eq!(text(Some("host"), "nfs://[::1]/e"), "host");
        let tap = "tap:tap0,ip=10.0.0.2/24";
        assert_eq!(text(Some(tap), "nfs://10.0.0.1/e"), tap);
    }

    #[test]
    fn interfaces_that_the_sandbox_forbids_are_refused() {
        for (net, part) in [
            ("tap:tap0,ip=10.0.0.2/24", "tap:tap0"),
            ("hub:/tmp/hub", "hub:/tmp/hub"),
            ("vhost-user:/run/switch,mtu=1400", "vhost-user:/run/switch"),
            ("pcap:frames.pcapng", "pcap:frames.pcapng"),
            ("user:passt", "user:passt"),
            ("user,mtu=1400,pcap=frames.pcapng", "pcap=frames.pcapng"),
            ("user:slirp,forward=8080:80", "forward=8080:80"),
        ] {
            let network = prepare(Some(net), &["nbd://10.0.0.1/e"]).unwrap();
            let error = network.check_sandbox().unwrap_err();
            let text = error.message().unwrap_or_default().to_string();
            let wanted = format!("the sandbox forbids {part}; ");
            assert!(text.contains(&wanted), "{text}");
        }
        for net in [None, Some("user"), Some("user:slirp,dhcp"), Some("host")] {
            let network = prepare(net, &["nbd://10.0.0.1/e"]).unwrap();
            assert!(network.check_sandbox().is_ok(), "{net:?}");
        }
    }

    #[test]
    fn one_disk_has_one_identity() {
        let of = |name: &str, address: &str| {
            let remote = Remote::of(Path::new(name)).unwrap().unwrap();
            identity_at(
                SocketAddr::new(address.parse().unwrap(), remote.port()),
                &remote,
            )
        };
        let own = of("nbd://localhost", "127.0.0.1");
        for (name, address) in [
            ("nbd://127.0.0.1", "127.0.0.1"),
            ("nbd://127.0.0.1:10809/", "127.0.0.1"),
            ("nbd://[::1]", "::1"),
            ("nbd://[::1]", "fec0::2"),
            ("nbd://localhost", "10.0.2.2"),
            ("nbd://[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
            ("nbd://127.5.0.1", "127.5.0.1"),
        ] {
            assert_eq!(of(name, address), own, "{name}");
        }
        for (name, address) in [
            ("nbd://localhost/d", "127.0.0.1"),
            ("nbd://localhost//", "127.0.0.1"),
            ("nbd://localhost:10810", "127.0.0.1"),
            ("nbd://192.0.2.1", "192.0.2.1"),
            ("9p://localhost:10809", "127.0.0.1"),
        ] {
            assert_ne!(of(name, address), own, "{name}");
        }
        let share = of("smb://ann@h/share/dir", "192.0.2.1");
        assert_eq!(of("cifs://ann@g/Share/dir/", "192.0.2.1"), share);
        assert_ne!(of("smb://bob@h/share/dir", "192.0.2.1"), share);
        assert_eq!(of("nfs://h/e/", "192.0.2.1"), of("nfs://h/e", "192.0.2.1"));
        assert_ne!(
            of("nfs://h/e?vers=3", "192.0.2.1"),
            of("nfs://h/e", "192.0.2.1")
        );
    }

    #[test]
    fn the_kernel_has_sockets_of_the_host_if_asked() {
        let images = [("nfs://127.0.0.1/e".into(), false)];
        for (net, expected) in [(None, false), (Some("host"), true)] {
            let network = prepare(net, &["nfs://127.0.0.1/e"]).unwrap();
            assert_eq!(network.access(&images).kernel_sockets, expected);
        }
    }

    #[test]
    fn only_ports_of_servers_are_reached() {
        assert_eq!(ports(&["nbd://127.0.0.1:5/", "9p://127.0.0.1/"]), [5, 564]);
        assert!(ports(&["nbd://127.0.0.1:5/", "nfs://127.0.0.1/e"]).is_empty());
        assert_eq!(ports(&["nfs://127.0.0.1/e?vers=4.2"]), [2049]);
    }
}
