// SPDX-License-Identifier: GPL-2.0-only
//! The way into a root of programs for processes that nobody has started as a program.

use outboard_sys::{Fd, System};
use std::io;

/// The way into a root of programs, for tasks that have none of this process's descriptors. It
/// keeps the root in use: drop it before the root.
pub struct RootEntry {
    system: System,
    mounts: Fd,
    /// The process that has the descriptor.
    owner: i32,
}

impl RootEntry {
    /// `mounts`: the root's mount namespace.
    pub(crate) fn new(system: &System, mounts: &Fd) -> io::Result<Self> {
        Ok(Self {
            system: system.clone(),
            mounts: mounts.duplicate()?,
            owner: system.process()?,
        })
    }

    /// The calling thread, which has claimed the only task of a process, enters the root. Its
    /// working directory is the root then. `EPERM`: the process is not root.
    pub fn enter(&self) -> io::Result<()> {
        let owner = self.system.process_file(self.owner)?;
        let mounts = owner.copy_from_process(self.mounts.raw())?;
        self.system.set_thread_apart()?;
        self.system.enter_mounts(&mounts)
    }
}
