// SPDX-License-Identifier: GPL-2.0-only
//! The sandbox: before a command looks into an image, it drops everything of the host that it does
//! not need. An image may exploit a bug of the file systems' code: then it can do only what is
//! left.
//!
//! 1. The command states its needs of the host ([`HostAccess`]). It opens images, and a file for
//!    the kernel's memory.
//! 2. [`Sandbox::enter`], while the process has one thread: namespaces of its own, no capabilities
//!    (`rights`), only named files (Landlock, `files`), only needed system calls (seccomp,
//!    `filter`).
//! 3. The kernel boots, which may read and write its snapshot.
//! 4. [`Sandbox::close`], for all threads: a command that works on images alone cannot open more
//!    files.
//! 5. The kernel reads the first image.
//!
//! A layer that the host lacks is left out. Without seccomp there is no sandbox; a warning says so.

mod files;
mod filter;
pub mod programs;
pub mod rights;

use outboard_error::{warn, Error, Result};
use std::path::PathBuf;

/// The needs of a command on the host, besides its standard streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAccess {
    /// Images, and whether they may be written.
    pub images: Vec<(PathBuf, bool)>,
    /// Files to read, and directories with everything below.
    pub reads: Vec<PathBuf>,
    /// Files to write, and directories below which everything may be changed.
    pub writes: Vec<PathBuf>,
    /// The command uses all attributes of the files that it reads, also those that only root sees.
    pub keeps_attributes: bool,
    /// The command parses files that it reads: it runs in the sandbox also without an image.
    pub parses: bool,
    /// The command uses names and attributes of files alone, or a few blocks: the kernel's memory
    /// grows little.
    pub is_small: bool,
    /// Written files may be device nodes.
    pub makes_nodes: bool,
    /// The command stays outside of the sandbox, so it must not run the kernel: it starts programs,
    /// each in a sandbox ([`programs`]), or processes that work for it ([`crate::apart`]).
    pub outside: bool,
    /// The command reaches servers.
    pub network: Option<NetworkAccess>,
    /// The command serves front-ends of vhost-user, on sockets that listen before. Other processes
    /// of the user open its memory, so it keeps the user's namespaces.
    pub serves: bool,
}

/// The network of the host, as far as a command uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkAccess {
    /// TCP ports of servers. Empty: any.
    pub ports: Vec<u16>,
    /// The kernel's sockets are the host's: its clients of servers send and receive messages.
    pub kernel_sockets: bool,
}

/// The allowed system calls on sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketCalls {
    /// None.
    Nothing,
    /// Connections to servers.
    Connections,
    /// The same, with messages of several pieces.
    Messages,
    /// Connections of others to sockets that listen already.
    Serving,
}

impl SocketCalls {
    fn of(access: &HostAccess) -> Self {
        match &access.network {
            None if access.serves => Self::Serving,
            None => Self::Nothing,
            Some(network) if network.kernel_sockets => Self::Messages,
            Some(_) => Self::Connections,
        }
    }
}

impl NetworkAccess {
    /// Adds the needs of another command.
    fn add(&mut self, other: NetworkAccess) {
        self.kernel_sockets |= other.kernel_sockets;
        if self.ports.is_empty() || other.ports.is_empty() {
            self.ports.clear();
        } else {
            self.ports.extend(other.ports);
        }
    }
}

impl HostAccess {
    /// Whether all used files are images.
    pub fn is_images_only(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }

    /// Adds further disks of the same machine, with the rights of the images.
    pub fn with_disks(&self, disks: &[PathBuf]) -> Self {
        let mut access = self.clone();
        if !self.images.is_empty() {
            let write = self.images.iter().any(|(_, write)| *write);
            let disks = disks.iter().map(|disk| (disk.clone(), write));
            access.images.extend(disks);
        }
        access
    }

    /// Adds the needs of another command.
    pub fn add(&mut self, other: HostAccess) {
        self.images.extend(other.images);
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.keeps_attributes |= other.keeps_attributes;
        self.parses |= other.parses;
        self.is_small &= other.is_small;
        self.makes_nodes |= other.makes_nodes;
        self.outside |= other.outside;
        self.serves |= other.serves;
        match (&mut self.network, other.network) {
            (Some(network), Some(other)) => network.add(other),
            (network @ None, other) => *network = other,
            (Some(_), None) => {}
        }
    }
}

/// The state of the process's sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// No sandbox.
    Open,
    /// The process is in the sandbox.
    Entered {
        /// The command opens more files after the boot.
        files: bool,
        /// The system calls on sockets that the command needs.
        sockets: SocketCalls,
    },
}

impl Sandbox {
    /// Sandboxes the calling thread, and all threads that it will create. `snapshots`: directory of
    /// the kernel's snapshots; `components`: files to read before [`Sandbox::close`].
    pub fn enter(
        access: &HostAccess,
        snapshots: Option<&PathBuf>,
        components: &[PathBuf],
    ) -> Result<Self> {
        let files = !access.is_images_only();
        // A command that uses files of the host needs their real owners.
        let sockets = SocketCalls::of(access);
        if !files && !access.serves {
            rights::separate();
        }
        rights::hide_devices(access);
        files::restrict(access, snapshots, components)?;
        rights::drop_capabilities(access)?;
        rights::limit_memory()?;
        match filter::apply(sockets) {
            Ok(()) => Ok(Sandbox::Entered { files, sockets }),
            Err(error) if filter::is_missing(&error) => {
                warn("warning: this host has no seccomp: the sandbox is not closed");
                Ok(Sandbox::Open)
            }
            Err(error) => Err(Error::Failed(format!("cannot make the sandbox: {error}"))),
        }
    }

    /// Closes the sandbox, after the boot and before the kernel reads an image.
    pub fn close(self) -> Result<()> {
        let Sandbox::Entered { files, sockets } = self else {
            return Ok(());
        };
        filter::apply_to_all(files, sockets)
            .map_err(|error| Error::Failed(format!("cannot close the sandbox: {error}")))
    }
}
