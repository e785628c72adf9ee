// SPDX-License-Identifier: GPL-2.0-only
//! The sandbox: gives up what a command does not need of the host, before anything of an image is looked at.
//! An image can exploit a mistake of the file systems' code; what it then can do is what is left here.
//!
//! 1. The command says what it uses of the host ([`HostAccess`]). Images are opened, and a file for
//!    the kernel's memory.
//! 2. [`Sandbox::enter`], while the process has one thread: name spaces of its own, no capabilities ([`rights`]), no
//!    files but the named ones (Landlock, [`files`]), no system calls but the needed ones (seccomp, [`filter`]).
//! 3. The kernel boots, which may read and write its snapshot.
//! 4. [`Sandbox::close`], for all threads: no more files are opened if the command works on images alone.
//! 5. The first image is looked at by the kernel.
//!
//! Each layer is there where the host has it. Without seccomp there is no sandbox, and that is said.

mod files;
mod filter;
pub mod programs;
pub mod rights;

use crate::error::{warn, Error, Result};
use std::path::PathBuf;

/// What a command uses of the host besides its standard streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAccess {
    /// Images, and whether they may be written.
    pub images: Vec<(PathBuf, bool)>,
    /// Files that are read, and directories with all below them.
    pub reads: Vec<PathBuf>,
    /// Files that are written, and directories below which everything may be changed.
    pub writes: Vec<PathBuf>,
    /// All attributes of what is read count, also those that only root sees.
    pub keeps_attributes: bool,
    /// The command parses files that it reads: it runs in the sandbox also without an image.
    pub parses: bool,
    /// The command uses names and attributes of files alone, or a few blocks: the kernel's memory
    /// grows little.
    pub is_small: bool,
    /// Among what is written may be device nodes.
    pub makes_nodes: bool,
    /// It runs other programs, each of which is shut in ([`programs`]); the command itself is not, and so must
    /// not run the kernel: see [`crate::apart`].
    pub programs: bool,
}

impl HostAccess {
    /// Whether all files that it uses are images.
    pub fn is_images_only(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }

    /// As a command with images, and further disks of the same machine with the rights that those have.
    pub fn with_disks(&self, disks: &[PathBuf]) -> Self {
        let mut access = self.clone();
        if !self.images.is_empty() {
            let write = self.images.iter().any(|(_, write)| *write);
            let disks = disks.iter().map(|disk| (disk.clone(), write));
            access.images.extend(disks);
        }
        access
    }

    /// Adds what another command uses.
    pub fn add(&mut self, other: HostAccess) {
        self.images.extend(other.images);
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.keeps_attributes |= other.keeps_attributes;
        self.parses |= other.parses;
        self.is_small &= other.is_small;
        self.makes_nodes |= other.makes_nodes;
        self.programs |= other.programs;
    }
}

/// How far the process has shut itself in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Not at all.
    Open,
    /// `files`: more files are to be opened when the kernel has booted.
    Entered { files: bool },
}

impl Sandbox {
    /// Shuts the calling thread in, and all that it will create. `snapshots`: where the kernel's snapshots are;
    /// `components`: files that are read before [`Sandbox::close`].
    pub fn enter(
        access: &HostAccess,
        snapshots: Option<&PathBuf>,
        components: &[PathBuf],
    ) -> Result<Self> {
        let files = !access.is_images_only();
        // Owners of the host's files have meaning to a command that uses them.
        if !files {
            rights::separate();
        }
        rights::hide_devices(access);
        files::restrict(access, snapshots, components)?;
        rights::drop_capabilities(access)?;
        rights::limit_memory()?;
        match filter::apply() {
            Ok(()) => Ok(Sandbox::Entered { files }),
            Err(error) if filter::is_missing(&error) => {
                warn("warning: this host has no seccomp: the sandbox is not closed");
                Ok(Sandbox::Open)
            }
            Err(error) => Err(Error::Failed(format!("cannot make the sandbox: {error}"))),
        }
    }

    /// After boot, and before the kernel looks at an image.
    pub fn close(self) -> Result<()> {
        let Sandbox::Entered { files } = self else {
            return Ok(());
        };
        filter::apply_to_all(files)
            .map_err(|error| Error::Failed(format!("cannot close the sandbox: {error}")))
    }
}
