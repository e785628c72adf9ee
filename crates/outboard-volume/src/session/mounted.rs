// SPDX-License-Identifier: GPL-2.0-only
//! A mount of a session, and what it is of.

use super::servers::ServerState;
use outboard::{Mount, ServerRequests, Tree};
use outboard_error::Failure;
use std::mem::forget;
use std::sync::Arc;

/// The source of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountSource {
    Disk {
        disk: usize,
        partition: Option<u32>,
    },
    /// A node of a stack. `subvolume`: its number, unless it is the default one.
    Node {
        stack: usize,
        node: usize,
        subvolume: Option<u64>,
    },
    /// A file system that a server has.
    #[cfg_attr(not(feature = "remote"), allow(dead_code))]
    Server {
        identity: (u64, u64),
    },
    /// A directory of the host.
    Directory,
}

impl MountSource {
    /// Whether the mount is in a disk, or in the stack of the disk.
    pub(super) fn is_in(&self, its_disk: usize, its_stack: Option<usize>) -> bool {
        match self {
            MountSource::Disk { disk, .. } => *disk == its_disk,
            MountSource::Node { stack, .. } => Some(*stack) == its_stack,
            MountSource::Server { .. } | MountSource::Directory => false,
        }
    }
}

pub(super) struct MountedDevice {
    pub(super) name: String,
    pub(super) origin: MountSource,
    /// Volumes of a library use it without the session.
    pub(super) mount: Arc<Mount>,
    /// `None`: it is on a disk. Ends after the mount.
    pub(super) server: Option<ServerState>,
    /// Of its file system.
    pub(super) uuid: Option<String>,
    /// It shows an older state than the last one.
    pub(super) older: Option<Failure>,
}

impl MountedDevice {
    pub(super) fn new(name: String, origin: MountSource, mount: Mount) -> Self {
        Self {
            name,
            origin,
            mount: Arc::new(mount),
            server: None,
            uuid: None,
            older: None,
        }
    }

    pub(super) fn is_written(&self) -> bool {
        !self.mount.is_read_only()
    }

    /// Whether its server owes an answer for too long.
    pub(super) fn is_late(&self) -> bool {
        self.server.as_ref().is_some_and(ServerState::is_late)
    }

    /// Whether a volume of a library uses it.
    pub(super) fn is_used(&self) -> bool {
        Arc::strong_count(&self.mount) > 1
    }

    /// Returns what was lost. A mount that a volume uses stays until the kernel halts, and so does
    /// one whose server does not answer.
    pub(super) fn unmount(self) -> Option<Failure> {
        let (problem, left) = self.end();
        forget(left);
        problem
    }

    /// The same. Also returns the mount if its server does not answer.
    pub(super) fn end(self) -> (Option<Failure>, Option<LeftMount>) {
        let (reader, is_late) = (self.mount.is_read_only(), self.is_late());
        let server = self.server.as_ref().map(|_| self.mount.requests());
        let Some(mount) = Arc::into_inner(self.mount) else {
            return (None, None);
        };
        let (unmounted, root) = if is_late {
            mount.leave()
        } else {
            (mount.unmount(), None)
        };
        let problem = unmounted.err().filter(|_| !reader).map(|error| {
            let what = match error.raw_os_error() {
                Some(libc::EBUSY) => "files are still open: everything is written, not unmounted",
                _ => "not everything was written",
            };
            Failure::of(&error).after(format!("{}: {what}", self.name))
        });
        let is_left = is_late || problem.is_some();
        let left = server.filter(|_| is_left).map(|server| LeftMount {
            server,
            _root: root,
        });
        (problem, left)
    }
}

/// A mount whose server does not answer. A halt of the kernel would wait for the server, and so
/// would a drop of this before the halt.
pub(super) struct LeftMount {
    server: ServerRequests,
    _root: Option<Tree>,
}

impl LeftMount {
    /// Ends all waits for the server. All that could be written is written.
    pub(super) fn give_up(&self) {
        // An error: the mount has ended, or its client has no such waits.
        let _ = self.server.shut_down();
    }
}

/// Syncs a file system to stable storage. Returns what was lost. `name`: of its volume.
pub(crate) fn unsynced(name: &str, mount: &Mount) -> Option<Failure> {
    if mount.is_read_only() {
        return None;
    }
    let error = mount.sync().err()?;
    let what = format!("{name}: not everything was written");
    Some(Failure::of(&error).after(what))
}

/// Mount options that are not options of the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Owner reported for file systems that store no owner (FAT, exFAT, HFS).
    pub user: Option<u32>,
    pub group: Option<u32>,
    /// Permissions to remove from files there.
    pub mask: Option<u32>,
    /// Each change is on stable storage when its call returns: all of them, or those of
    /// directories.
    pub synchronous: bool,
    pub synchronous_directories: bool,
}
