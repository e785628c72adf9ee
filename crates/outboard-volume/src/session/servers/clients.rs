// SPDX-License-Identifier: GPL-2.0-only
//! File systems and disks that servers have: mounts of NFS, SMB and 9p, connections of NBD.

use super::network::Network;
use super::relay::Relay;
use super::state::ServerState;
use crate::address::ImageName;
use crate::containers::Content;
use crate::image::Image;
use crate::remote::{Protocol, Remote};
use crate::session::mounted::{MountSource, MountedDevice};
use crate::session::open_disk::OpenDisk;
use crate::session::whole::Session;
use outboard::net::EventSource;
use outboard::{Kernel, Mount, Secret};
use outboard_error::{Error, ErrorKind, Failure, Hint, Result};
use outboard_sandbox::interrupt::Guard;
use std::ffi::{CStr, CString};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// Versions of NFS, the newest first: the kernel's client tries one at a time.
const NFS_VERSIONS: [&str; 4] = ["4.2", "4.1", "4.0", "3"];
/// Bytes of a message of 9p. The kernel's default of 128 KiB is its most for TCP without zero copy.
const NINE_P_MESSAGE: &str = "msize=131072";
/// Bytes that SMB reads ahead. With the kernel's 8 MiB a whole file takes as long.
const SMB_READAHEAD: u32 = 1 << 20;
/// Most bytes of a password: the limit of the kernel's SMB client.
const LONGEST_PASSWORD: usize = 512;

/// Options of a mount, separated by commas. They may have a password.
struct SecretText(Zeroizing<Vec<u8>>);

impl SecretText {
    fn new(words: &[String]) -> Self {
        // Room for a password, so that no copy of it stays behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(4096 + 2 * LONGEST_PASSWORD));
        bytes.extend(words.join(",").into_bytes());
        Self(bytes)
    }

    /// Adds the options of a name.
    fn add(&mut self, options: &[(String, Option<String>)]) {
        for (name, value) in options {
            self.0.push(b',');
            self.0.extend(name.bytes());
            if let Some(value) = value {
                self.0.push(b'=');
                self.0.extend(value.bytes());
            }
        }
    }

    /// Adds the password. Two commas stand for one.
    fn add_password(&mut self, password: &[u8]) {
        self.0.extend(b",password=");
        for &byte in password {
            self.0.push(byte);
            if byte == b',' {
                self.0.push(byte);
            }
        }
    }

    fn with_end(mut self) -> io::Result<Self> {
        self.0.push(0);
        match CStr::from_bytes_with_nul(&self.0) {
            Ok(_) => Ok(self),
            Err(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    fn as_c(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).unwrap_or_default()
    }
}

/// An address as the text of a mount has it, with brackets if `bracketed`.
fn address_text(address: &SocketAddr, bracketed: bool) -> String {
    if address.is_ipv6() && bracketed {
        format!("[{}]", address.ip())
    } else {
        address.ip().to_string()
    }
}

/// The driver, source and options of a mount.
struct RemoteMount {
    driver: &'static str,
    source: String,
    words: Vec<String>,
}

impl RemoteMount {
    fn nfs(remote: &Remote, address: &SocketAddr, version: &str, limit: Duration) -> Self {
        let family = if address.is_ipv6() { "tcp6" } else { "tcp" };
        // A request is sent again once; the second try waits as long again.
        let tenths = (limit.as_millis() / 200).max(1);
        let mut words = vec![
            format!("vers={version}"),
            format!("addr={}", address_text(address, false)),
            format!("proto={family},softerr,timeo={tenths},retrans=1,noresvport"),
        ];
        if let Some(port) = remote.port {
            words.push(format!("port={port}"));
        }
        if version.starts_with('4') {
            // The server cannot connect to this client: it grants no delegations.
            words.push("clientaddr=0.0.0.0".to_owned());
        } else {
            words.push(format!("mountproto={family},nolock"));
        }
        let host = address_text(address, true);
        Self {
            driver: "nfs",
            source: format!("{host}:/{}", remote.export),
            words,
        }
    }

    fn smb(remote: &Remote, address: &SocketAddr, limit: Duration) -> Self {
        let mut words = vec![
            format!("ip={}", address_text(address, false)),
            format!("port={}", remote.port()),
            // A server is given up after three times this.
            // Uncached reads would need memory of the kernel's own windows.
            // Each request of a readahead waits ten seconds in turn for a server that has ended.
            format!(
                "soft,cache=loose,rasize={SMB_READAHEAD},echo_interval={}",
                (limit.as_secs() / 3).clamp(1, 600)
            ),
        ];
        words.push(match &remote.user {
            Some(user) => format!("username={user}"),
            None => "guest".to_owned(),
        });
        Self {
            driver: "cifs",
            source: format!("//{}/{}", remote.host, remote.export),
            words,
        }
    }

    fn nine_p(remote: &Remote, socket: i32, user: &str) -> Self {
        // Requests come as the kernel's user, 0; or all as the named user.
        let access = if user.is_empty() { "user" } else { "any" };
        let mut words = vec![
            format!("trans=fd,rfdno={socket},wfdno={socket}"),
            format!("version=9p2000.L,access={access},cache=mmap,ignoreqv,{NINE_P_MESSAGE}"),
            format!("aname=/{}", remote.export),
        ];
        if !user.is_empty() {
            words.push(format!("uname={user}"));
        }
        Self {
            driver: "9p",
            source: remote.host.clone(),
            words,
        }
    }

    fn mount(
        &self,
        kernel: &Kernel,
        remote: &Remote,
        password: Option<&Secret>,
        write: bool,
    ) -> io::Result<Mount> {
        let mut text = SecretText::new(&self.words);
        text.add(&remote.options);
        if let Some(password) = password {
            text.add_password(password);
        }
        let text = text.with_end()?;
        let source = CString::new(self.source.as_str())?;
        kernel.mount_remote(self.driver, &source, !write, text.as_c())
    }
}

/// The message of the kernel's client about a server that does not answer in time.
fn late_message(remote: &Remote, address: &SocketAddr) -> String {
    match remote.protocol {
        Protocol::Smb => format!("\\\\{} has not responded", remote.host),
        _ => format!("nfs: server {} not responding", address_text(address, true)),
    }
}

/// A password is the key file's first line.
fn first_line(key: &Secret) -> Secret {
    let end = key.iter().position(|&byte| byte == b'\n' || byte == b'\r');
    Secret::from(&key[..end.unwrap_or(key.len())])
}

/// The reason of a server that does not answer.
const NO_ANSWER: &str = "the server does not answer";

/// Why a server has no such mount, where the errno alone would mislead.
fn reason_of(remote: &Remote, error: &io::Error) -> Option<(ErrorKind, &'static str)> {
    let number = outboard::errno(error)?;
    Some(match (number, remote.protocol) {
        (libc::ENOENT, Protocol::Nfs) => (ErrorKind::NotFound, "the server has no such export"),
        (libc::ENOENT, Protocol::Smb) => (
            ErrorKind::NotFound,
            "the server has no such share, or no such directory in it",
        ),
        (libc::ENOENT, _) => (ErrorKind::NotFound, "the server has no such tree"),
        (libc::EACCES | libc::EPERM, Protocol::Nfs) => (
            ErrorKind::PermissionDenied,
            "the server refuses this client: the export must allow its address, and ports above \
             1023 (option insecure)",
        ),
        (libc::EACCES | libc::EPERM, Protocol::Smb) => (
            ErrorKind::PermissionDenied,
            "the server refuses this user or password",
        ),
        (libc::EACCES | libc::EPERM, _) => (
            ErrorKind::PermissionDenied,
            "the server refuses this user or tree",
        ),
        (libc::EPROTONOSUPPORT, _) => (
            ErrorKind::Unsupported,
            "the server does not speak this version of the protocol",
        ),
        (libc::ECONNREFUSED, _) => (
            ErrorKind::Unreachable,
            "connection refused: no server listens at this port",
        ),
        (libc::EHOSTDOWN | libc::EAGAIN | libc::ETIMEDOUT, _) | (libc::EIO, Protocol::Nfs) => {
            (ErrorKind::Unreachable, NO_ANSWER)
        }
        (libc::ECONNRESET | libc::ECONNABORTED | libc::EPIPE | libc::EREMOTEIO, _) => (
            ErrorKind::Unreachable,
            "the server has closed the connection",
        ),
        (libc::EINVAL, _) if !remote.options.is_empty() => (
            ErrorKind::Usage,
            "the kernel refuses an option behind the question mark",
        ),
        _ => return None,
    })
}

/// The failure of a server that has no such mount or disk, if the errno alone would mislead.
fn explained(shown: &str, remote: &Remote, error: &io::Error) -> Option<Failure> {
    let (kind, why) = reason_of(remote, error)?;
    let failure = Failure::of(error);
    Some(if why == NO_ANSWER {
        failure
            .with_text(kind, format!("{shown}: {NO_ANSWER}{}", Hint::Timeout))
            .with_hint(Hint::Timeout)
    } else {
        failure.with_text(kind, format!("{shown}: {why}"))
    })
}

impl Session {
    /// The network of this session.
    fn network(&self) -> Result<&Network> {
        let missing = || {
            Error::known(
                ErrorKind::Unsupported,
                "this session was begun without the network that servers need",
            )
        };
        self.host.network().ok_or_else(missing)
    }

    /// Mounts what a server has, unless it is mounted.
    pub(in crate::session) fn mount_remote(
        &mut self,
        name: &ImageName,
        remote: &Remote,
        write: bool,
    ) -> Result<usize> {
        let kernel = self.kernel(None)?;
        let origin = MountSource::Server {
            identity: self.network()?.identity(&kernel, remote)?,
        };
        let shown = name.shown();
        if let Some(index) = self.find_mount(&shown, origin, write)? {
            return Ok(index);
        }
        let password = self.password(name, remote)?;
        self.machine.advice().add_server(&shown, write);
        let position = self.machine.position();
        let make = || self.mount_by_client(&kernel, remote, &shown, password.as_ref(), write);
        let (mounted, mut state) = self.network()?.while_mounting(&shown, make)?;
        let mount = mounted.map_err(|error| self.no_mount(&shown, remote, &error, position))?;
        if let ServerState::Logged(_, watched) = &mut state {
            let network = self.network()?;
            *watched = match remote.protocol {
                Protocol::Smb => network.watch_share(&shown, mount.requests()),
                _ => network.watch(&shown, mount.requests()),
            };
        }
        let mut mounted = MountedDevice::new(shown, origin, mount);
        mounted.server = Some(state);
        Ok(self.slots.add_mount(mounted))
    }

    fn mount_by_client(
        &self,
        kernel: &Kernel,
        remote: &Remote,
        shown: &str,
        password: Option<&Secret>,
        write: bool,
    ) -> Result<(io::Result<Mount>, ServerState)> {
        if remote.protocol == Protocol::NineP {
            let (mounted, relay) = self.mount_nine_p(kernel, remote, shown, write)?;
            return Ok((mounted, ServerState::Relayed(relay)));
        }
        let address = self.network()?.address(kernel, remote)?;
        let mounted = self.mount_at(kernel, remote, &address, password, write)?;
        let state = ServerState::Logged(late_message(remote, &address), None);
        Ok((mounted, state))
    }

    /// NFS and SMB.
    fn mount_at(
        &self,
        kernel: &Kernel,
        remote: &Remote,
        address: &SocketAddr,
        password: Option<&Secret>,
        write: bool,
    ) -> Result<io::Result<Mount>> {
        let limit = self.network()?.limit();
        if remote.protocol == Protocol::Smb {
            let mut request = RemoteMount::smb(remote, address, limit);
            let owner = [("uid", self.style.user), ("gid", self.style.group)];
            let owner = owner.iter().filter_map(|(name, id)| Some((name, (*id)?)));
            request
                .words
                .extend(owner.map(|(name, id)| format!("{name}={id}")));
            return Ok(request.mount(kernel, remote, password, write));
        }
        let wanted = remote.nfs_version();
        let versions = wanted.map_or(NFS_VERSIONS.to_vec(), |version| vec![version]);
        let mut plain = remote.clone();
        plain
            .options
            .retain(|(name, _)| !["vers", "nfsvers", "v"].contains(&name.as_str()));
        let mut result = Err(io::Error::from_raw_os_error(libc::EPROTONOSUPPORT));
        for version in versions {
            result = RemoteMount::nfs(remote, address, version, limit)
                .mount(kernel, &plain, None, write);
            let number = result.as_ref().err().and_then(outboard::errno);
            if number != Some(libc::EPROTONOSUPPORT) {
                break;
            }
        }
        Ok(result)
    }

    fn mount_nine_p(
        &self,
        kernel: &Kernel,
        remote: &Remote,
        shown: &str,
        write: bool,
    ) -> Result<(io::Result<Mount>, Relay)> {
        let network = self.network()?;
        let server = network.connect(kernel, remote, shown)?;
        let started = Relay::start(kernel, server, network.limit());
        let (relay, client) = started.map_err(|error| Error::failed(shown, &error))?;
        let user = remote
            .user
            .clone()
            .unwrap_or_else(|| network.user_name().to_owned());
        let request = RemoteMount::nine_p(remote, client.descriptor().raw(), &user);
        let mounted = request.mount(kernel, remote, None, write);
        let mounted = mounted.map_err(|error| {
            if relay.is_late() {
                io::Error::from_raw_os_error(libc::ETIMEDOUT)
            } else {
                error
            }
        });
        Ok((mounted, relay))
    }

    fn no_mount(&self, shown: &str, remote: &Remote, error: &io::Error, position: usize) -> Error {
        let failure = explained(shown, remote, error)
            .unwrap_or_else(|| Failure::of(error).after(format!("{shown}: cannot mount")));
        failure
            .with_kernel(self.machine.lines_since(position))
            .into()
    }

    /// The password for a share: from the key file, or typed.
    fn password(&self, name: &ImageName, remote: &Remote) -> Result<Option<Secret>> {
        if remote.protocol != Protocol::Smb || remote.user.is_none() {
            return Ok(None);
        }
        let question = format!("Password of {}: ", name.shown());
        let key = match self.host.keys().file()? {
            None => self.host.keys().ask(&question)?,
            file => file,
        };
        let Some(key) = key else {
            return Err(Error::hinted(
                ErrorKind::KeyNeeded,
                Hint::Password,
                |give| {
                    let why = if self.is_in_library() {
                        "no password was given"
                    } else {
                        "no password: there is no terminal to ask on"
                    };
                    format!("{}: {why}{give}", name.shown())
                },
            ));
        };
        let password = first_line(&key);
        if password.contains(&0) || password.len() > LONGEST_PASSWORD {
            let text = format!(
                "{}: the password has a NUL, or more than {LONGEST_PASSWORD} bytes",
                name.shown()
            );
            return Err(Error::Failed(text));
        }
        Ok(Some(password))
    }

    /// Connects the disk of a server, if the name is one's. Then its image can be found.
    pub fn connect(&mut self, file: &Path, write: bool) -> Result<()> {
        match Remote::of(file) {
            Some(remote) => self.remote_disk(file, &remote?, write).map(drop),
            None => Ok(()),
        }
    }

    /// The disk of an NBD server; connects unless it is connected.
    pub(in crate::session) fn remote_disk(
        &mut self,
        file: &Path,
        remote: &Remote,
        write: bool,
    ) -> Result<usize> {
        let shown = outboard_error::format::escaped(file.as_os_str().as_encoded_bytes());
        if remote.protocol != Protocol::Nbd {
            let text = format!("{shown} is a file system of a server, not a disk");
            return Err(Error::Usage(text));
        }
        let kernel = self.kernel(None)?;
        let identity = self.network()?.identity(&kernel, remote)?;
        if let Some(index) = self.slots.disk_of(identity) {
            if self.slots.disk(index).writable || !write {
                return Ok(index);
            }
            self.release_disk(index)?;
        }
        let network = self.network()?;
        let position = self.machine.position();
        let stream = network.connect(&kernel, remote, &shown)?;
        let guard = write.then(Guard::new);
        let added = kernel.add_nbd_disk(stream, &remote.export, write, network.limit());
        let disk = added.map_err(|error| match error.raw_os_error() {
            Some(libc::EROFS) => Error::known(
                ErrorKind::ReadOnly,
                format!("cannot write to {shown}: the server offers it read-only"),
            ),
            _ => match explained(&shown, remote, &error) {
                Some(failure) => failure.into(),
                None => Error::failed(&shown, &error),
            },
        })?;
        let failed = |error: io::Error| Error::failed(format!("cannot read {shown}"), &error);
        let source = disk.device(None).and_then(|device| device.source());
        let content = Arc::new(Content::Device(source.map_err(failed)?));
        let image = Image::new(file, identity, None, content, None);
        let image = image.map_err(|error| match error.into_failure() {
            Ok(failure) => failure
                .with_kernel(self.machine.lines_since(position))
                .into(),
            Err(other) => other,
        })?;
        Ok(self.slots.add_disk(OpenDisk {
            image,
            writable: write,
            writes_image: write,
            disk,
            _locks: Vec::new(),
            _guard: guard,
        }))
    }

    /// The image of a disk that [`Session::connect`] has connected.
    pub(in crate::session) fn remote_image(&self, file: &Path) -> Result<Image> {
        let shown = outboard_error::format::escaped(file.as_os_str().as_encoded_bytes());
        let missing = || {
            let text = format!("{shown}: this works with files of the host only");
            Error::known(ErrorKind::Unsupported, text)
        };
        let remote = Remote::of(file).ok_or_else(missing)??;
        let kernel = self.machine.kernel().ok_or_else(missing)?;
        let identity = self.network()?.identity(kernel, &remote)?;
        let index = self.slots.disk_of(identity).ok_or_else(missing)?;
        let content = Arc::clone(&self.slots.disk(index).image.content);
        Image::new(file, identity, None, content, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> Remote {
        Remote::of(Path::new(text)).unwrap().unwrap()
    }

    #[test]
    fn requests_of_nfs() {
        let address = "10.0.2.2:2049".parse().unwrap();
        let limit = Duration::from_secs(30);
        let four = RemoteMount::nfs(&remote("nfs://h/a/b"), &address, "4.2", limit);
        assert_eq!(four.source, "10.0.2.2:/a/b");
        assert_eq!(
            four.words.join(","),
            "vers=4.2,addr=10.0.2.2,proto=tcp,softerr,timeo=150,retrans=1,noresvport,\
             clientaddr=0.0.0.0"
        );
        let address = "[fd00::1]:77".parse().unwrap();
        let three = RemoteMount::nfs(&remote("nfs://h:77/"), &address, "3", limit);
        assert_eq!(three.source, "[fd00::1]:/");
        assert!(three
            .words
            .join(",")
            .ends_with("port=77,mountproto=tcp6,nolock"));
    }

    #[test]
    fn a_password_is_one_option() {
        let mut text = SecretText::new(&["username=ann".to_owned()]);
        text.add(&[
            ("vers".to_owned(), Some("3.0".to_owned())),
            ("x".to_owned(), None),
        ]);
        text.add_password(b"a,b");
        let text = text.with_end().ok().unwrap();
        assert_eq!(text.as_c(), c"username=ann,vers=3.0,x,password=a,,b");
        let mut text = SecretText::new(&[]);
        text.add_password(b"a\0b");
        assert!(text.with_end().is_err());
        assert_eq!(&*first_line(&Secret::from(&b"abc\nd"[..])), b"abc");
    }
}
