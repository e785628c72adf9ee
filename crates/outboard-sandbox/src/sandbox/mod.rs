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

mod access;
mod files;
mod filter;
pub mod programs;
pub mod rights;

pub use access::{HostAccess, NetworkAccess, SocketCalls};
use outboard_error::{warn, Error, Result};
use std::path::PathBuf;

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
        /// Processes of the host use the kernel.
        clients: bool,
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
        let clients = access.serves_clients;
        if !files && !access.serves && !clients {
            rights::separate();
        }
        rights::hide_devices(access);
        files::restrict(access, snapshots, components)?;
        rights::drop_capabilities(access)?;
        rights::limit_memory()?;
        match filter::apply(sockets, clients) {
            Ok(()) => Ok(Sandbox::Entered {
                files,
                sockets,
                clients,
            }),
            Err(error) if filter::is_missing(&error) => {
                warn("warning: this host has no seccomp: the sandbox is not closed");
                Ok(Sandbox::Open)
            }
            Err(error) => Err(Error::Failed(format!("cannot make the sandbox: {error}"))),
        }
    }

    /// Closes the sandbox, after the boot and before the kernel reads an image.
    pub fn close(self) -> Result<()> {
        let Sandbox::Entered {
            files,
            sockets,
            clients,
        } = self
        else {
            return Ok(());
        };
        filter::apply_to_all(files, sockets, clients)
            .map_err(|error| Error::Failed(format!("cannot close the sandbox: {error}")))
    }
}
