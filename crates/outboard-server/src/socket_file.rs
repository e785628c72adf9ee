// SPDX-License-Identifier: GPL-2.0-only
//! The socket at which a server listens, with its file.

use outboard::{explained, Fd};
use outboard_protocol::url::ServerUrl;
use rustix::fs::{fchmod, Mode};
use rustix::net::{
    bind, listen, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType,
};
use std::fs::{self, File, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Until another server at the same path has its socket.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(5);
/// Connections that wait until they are accepted: the host's net.core.somaxconn is the limit.
const BACKLOG: i32 = i32::MAX;

/// A socket that listens.
pub struct BoundSocket {
    /// The socket.
    pub listener: OwnedFd,
    /// Its file, if one was made here.
    pub file: Option<SocketFile>,
    /// Its address, if it is one of a network.
    pub address: Option<SocketAddr>,
}

/// The file of a socket. It is removed when this is dropped, by the process that has made it.
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    process: u32,
}

impl BoundSocket {
    /// Listens at a URL. A file that an ended server has left is replaced. `EADDRINUSE`: a server
    /// listens there. `is_shared`: all users of the host may connect.
    pub fn listen(url: &ServerUrl, is_shared: bool) -> io::Result<Self> {
        match url {
            ServerUrl::Unix(path) => Self::at_path(path, is_shared),
            ServerUrl::Network(network) => {
                let listener = TcpListener::bind(&network.place)?;
                Ok(Self {
                    address: Some(listener.local_addr()?),
                    listener: listener.into(),
                    file: None,
                })
            }
        }
    }

    fn at_path(path: &Path, is_shared: bool) -> io::Result<Self> {
        let _lock = lock_above(path)?;
        if is_socket(path) {
            if UnixStream::connect(path).is_ok() {
                let cause = io::Error::from_raw_os_error(libc::EADDRINUSE);
                return Err(explained(cause, "a server listens there already"));
            }
            fs::remove_file(path)?;
        }
        let listener = bind_privately(path)?;
        let file = SocketFile::find(path)?;
        let mode = if is_shared { 0o666 } else { 0o600 };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        listen(&listener, BACKLOG)?;
        Ok(Self {
            listener,
            file: Some(file),
            address: None,
        })
    }

    /// One that another process has made, and removes.
    pub fn passed(listener: UnixListener) -> Self {
        Self {
            listener: listener.into(),
            file: None,
            address: None,
        }
    }
}

impl SocketFile {
    fn find(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self {
            // A later working directory does not matter.
            path: std::path::absolute(path)?,
            device: found.dev(),
            inode: found.ino(),
            process: process::id(),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // In a child of fork(2), it is the parent's.
        if self.process != process::id() {
            return;
        }
        let found = fs::symlink_metadata(&self.path);
        // Another server may have replaced it.
        if found.is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Makes a socket whose file nobody else can use from the start: bind(2) gives the file the mode of
/// the socket, less the mask of the process (net/unix/af_unix.c, unix_bind_bsd). The mask itself
/// belongs to all threads.
fn bind_privately(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Two servers may start at one path. `None`: another process has locked the directory for long.
fn lock_above(path: &Path) -> io::Result<Option<Fd>> {
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    let directory = Fd::from(OwnedFd::from(File::open(above)?));
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if directory.try_lock()? {
            return Ok(Some(directory));
        }
        sleep(INTERVAL);
    }
    Ok(None)
}
