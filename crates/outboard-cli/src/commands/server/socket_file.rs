// SPDX-License-Identifier: GPL-2.0-only
//! The socket at which a server listens.

use super::url::ServerUrl;
use outboard::{Fd, System};
use outboard_error::{Error, ErrorKind, Result};
use std::fs::{self, File, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Until another server at the same path has its socket.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(5);

/// A socket that listens. Its file, if it has one, is removed when this is dropped and it was made
/// here.
pub struct SocketFile {
    pub listener: OwnedFd,
    _made: Option<MadeFile>,
}

struct MadeFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// Listens at a URL. A file that an ended server has left is replaced. `is_shared`: all users
    /// of the host may connect.
    pub fn listen(url: &ServerUrl, is_shared: bool) -> Result<Self> {
        let cannot = |error| Error::failed(format!("cannot listen at {url}"), &error);
        let path = match url {
            ServerUrl::Unix(path) => path,
            ServerUrl::Network(network) => {
                let listener = TcpListener::bind(&network.place).map_err(cannot)?;
                return Ok(Self {
                    listener: listener.into(),
                    _made: None,
                });
            }
        };
        let _lock = lock_above(path).map_err(cannot)?;
        if is_socket(path) {
            if UnixStream::connect(path).is_ok() {
                return Err(Error::known(
                    ErrorKind::InUse,
                    format!("cannot listen at {url}: a server listens there already"),
                ));
            }
            fs::remove_file(path).map_err(cannot)?;
        }
        let listener = bind(path).map_err(cannot)?;
        let made = MadeFile::find(path).map_err(cannot)?;
        let file = Self {
            listener: listener.into(),
            _made: Some(made),
        };
        let mode = if is_shared { 0o666 } else { 0o600 };
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(cannot)?;
        Ok(file)
    }

    /// One that systemd has made, and removes.
    pub fn passed(listener: UnixListener) -> Self {
        Self {
            listener: listener.into(),
            _made: None,
        }
    }
}

impl MadeFile {
    fn find(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self {
            // A later working directory does not matter.
            path: std::path::absolute(path)?,
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

impl Drop for MadeFile {
    fn drop(&mut self) {
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

/// Nobody else can connect before the file has its mode.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let mask = System::Host.umask(0o177);
    let bound = UnixListener::bind(path);
    System::Host.umask(mask);
    bound
}

/// Two servers may start at one path. `None`: somebody else has locked the directory for long.
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
