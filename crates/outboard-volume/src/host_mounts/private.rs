// SPDX-License-Identifier: GPL-2.0-only
//! Mounts for this process and its children alone: in a mount namespace, or, where the host refuses
//! one, visible to all processes for a while.

use super::{
    call_helper, cannot_mount, is_root, mount_directly, unmount, unmount_directly, Flags,
    UnmountFailure, HELPER,
};
use outboard::System;
use outboard_error::{Error, Result};
use outboard_sandbox::sandbox::rights::unshare_user;
use outboard_sandbox::tool;
use outboard_worker::{Launch, Started};
use std::ffi::OsStr;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

/// A process that runs the helper to unmount, on request or when its parent is gone. The helper's
/// own `auto_unmount` does not work: as root it asks whether the file system is dead, and a mount
/// without `allow_other` refuses root (libfuse 3.14).
struct Unmounter {
    process: Started,
    /// Its standard input.
    socket: UnixStream,
}

impl Unmounter {
    const SCRIPT: &str = "read -r end; exec \"$0\" -u -z -- \"$1\"";

    fn start(directory: &Path) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let process = Launch::new("/bin/sh")
            .arguments(["-c", Self::SCRIPT])
            .argument(tool::path_of(HELPER)?)
            .argument(directory)
            .clear_environment()
            .own_group()
            .outlives()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .start()?;
        Ok(Self { process, socket })
    }

    /// Ends it without an unmount.
    fn cancel(mut self) {
        let _ = self.process.process.kill();
    }

    fn finish(self) -> io::Result<ExitStatus> {
        // A copy of this process may have it open, too.
        self.socket.shutdown(Shutdown::Both)?;
        Ok(self.process.wait_with_errors()?.0)
    }
}

/// A mount for this process and its children, which ends with them at the latest.
pub struct PrivateMount {
    directory: PathBuf,
    /// Unmounts for a user who gets no namespace.
    unmounter: Option<Unmounter>,
}

impl PrivateMount {
    /// Also returns the FUSE descriptor. `what`: the failed action in messages.
    pub fn new(directory: &Path, what: &str) -> Result<(OwnedFd, Self)> {
        let (device, unmounter) = match enter_name_space() {
            Ok(()) => (mount_apart(directory, what)?, None),
            Err(error) if is_root() => return Err(cannot_mount(what, &error)),
            Err(_) => mount_in_sight(directory, what)?,
        };
        let directory = directory.to_owned();
        let mount = Self {
            directory,
            unmounter,
        };
        Ok((device, mount))
    }

    /// Ends the mount.
    pub fn unmount(self) -> Result<()> {
        match self.unmounter {
            None => unmount_directly(&self.directory, true).map_err(UnmountFailure::error),
            // The process that was to unmount has been killed.
            Some(unmounter) => match unmounter.finish() {
                Ok(status) if status.success() => Ok(()),
                _ => unmount(&self.directory, true),
            },
        }
    }
}

/// In a namespace of its own.
fn mount_apart(directory: &Path, what: &str) -> Result<OwnedFd> {
    let options = Flags {
        noexec: true,
        ..Flags::default()
    };
    mount_directly(directory, OsStr::new("outboard"), options)
        .map_err(|error| cannot_mount(what, &error))
}

/// Visible to all processes.
fn mount_in_sight(directory: &Path, what: &str) -> Result<(OwnedFd, Option<Unmounter>)> {
    let unmounter = Unmounter::start(directory).map_err(|error| Error::failed(what, &error))?;
    match call_helper(directory, OsStr::new("subtype=outboard,fsname=outboard")) {
        Ok(device) => Ok((device, Some(unmounter))),
        Err(error) => {
            unmounter.cancel();
            let why = error.message().unwrap_or_default();
            Err(Error::known(error.kind(), format!("{what}: {why}")))
        }
    }
}

/// Enters a new mount namespace, which no other process sees and which ends with its last process.
/// An ordinary user also needs a user namespace, which some hosts refuse.
fn enter_name_space() -> io::Result<()> {
    System::Host
        .unshare(libc::CLONE_NEWNS)
        .or_else(|_| unshare_user(libc::CLONE_NEWUSER | libc::CLONE_NEWNS))?;
    let flags = libc::MS_REC | libc::MS_SLAVE;
    System::Host.mount(c"none", c"/", c"none", flags, c"")
}
