// SPDX-License-Identifier: GPL-2.0-only
//! Servers whose mount is gone while they still have the image.
//!
//! The host's own umount(8) does not wait until everything is written, as `outboard umount` does. A
//! mount that follows at once waits here for the server before it, and for nobody else who has the
//! image.

use outboard::{process_end, Fd, HostTree};
use outboard_error::warn;
use outboard_volume::host_mounts;
use outboard_volume::servers::{self, MountServer};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long such a server may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A wait that is longer than this is reported.
const UNNOTICED: Duration = Duration::from_secs(1);
/// The longest wait for one server before all processes are looked at again.
const SLICE: Duration = Duration::from_secs(1);

/// Waits until an image can be locked as a mount needs it, or somebody has it that is not about to
/// end.
pub fn wait(image: &Path, write: bool) {
    let Ok(file) = HostTree.open_fd(image, libc::O_RDONLY, 0) else {
        return;
    };
    let start = Instant::now();
    let mut told = false;
    while is_locked(&file, write) && start.elapsed() < PATIENCE {
        let Some(server) = unmounted_server(image) else {
            return;
        };
        if !told && start.elapsed() > UNNOTICED {
            warn(format!(
                "{}: waiting for the server of its last mount to end",
                image.display()
            ));
            told = true;
        }
        wait_for_end(&server);
    }
}

/// Returns when the process has ended, or after [`SLICE`].
fn wait_for_end(server: &MountServer) {
    let slice = SLICE.as_millis() as libc::c_int;
    match process_end(server.process).and_then(|end| end.wait_to_read(slice)) {
        Ok(_) => {}
        // It has just ended.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
        // A host without pidfd_open(2).
        Err(_) => std::thread::sleep(SLICE / 10),
    }
}

fn is_locked(file: &Fd, write: bool) -> bool {
    let taken = file.duplicate().and_then(|file| file.lock(write));
    matches!(taken, Err(error) if error.raw_os_error() == Some(libc::EBUSY))
}

/// A server of this image without its mount.
fn unmounted_server(image: &Path) -> Option<MountServer> {
    let mut servers = servers::all().into_iter();
    servers.find(|server| server.image() == image && has_lost_mount(server).unwrap_or(false))
}

/// `None`: the server has just ended.
fn has_lost_mount(server: &MountServer) -> Option<bool> {
    let mounts = host_mounts::mounts(&server.files()).ok()?;
    Some(mounts.iter().all(|mounted| mounted.source != server.source))
}
