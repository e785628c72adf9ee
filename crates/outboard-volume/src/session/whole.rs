// SPDX-License-Identifier: GPL-2.0-only
//! A session: three parts that own their state, and what concerns the present command.

use super::host_part::{HostPart, ProcessState};
use super::machine::{BootRequest, Machine};
use super::mounted::Style;
use super::servers::Network;
use super::slots::Slots;
use crate::control_socket::ControlSocket;
use crate::destination::UsedFiles;
use crate::layers::keys::Keys;
use crate::layers::several::RegisteredDevices;
use crate::new_overlay::NewOverlay;
use crate::options::Options;
use crate::port_gates::PortGates;
use crate::server_ends::ServerEnds;
use outboard::{default_memory, BlockDevice, Cancel, HostTree, Kernel, Mount, Tree};
use outboard_error::Result;
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The sandbox leaves the process little more memory than this.
const MOST_CHANGES: u64 = 3 << 30;

/// The tree of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeId {
    Host,
    Mount(usize),
}

/// Boots its kernel on demand. Written data is safe only after [`Session::finish`].
pub struct Session {
    pub(super) host: HostPart,
    pub(super) machine: Machine,
    pub(super) slots: Slots,
    pub(super) registered: RegisteredDevices,
    /// Notes that were printed.
    pub(super) noted: HashSet<String>,
    /// Mounts that show an older state, as the present command has reported.
    pub(super) older: Vec<usize>,
    /// Options of the next mounts.
    pub(super) style: Style,
    /// Stops the work of a library.
    cancel: Cancel,
}

impl Session {
    /// `access`: the command's needs of the host. The process must have one thread.
    pub fn new(options: Options, access: &HostAccess, process: ProcessState) -> Result<Self> {
        Self::as_part(options, access, process, &UsedFiles::default())
    }

    /// As `new`, with the keys of another session and the files that it uses.
    pub fn as_part(
        options: Options,
        access: &HostAccess,
        process: ProcessState,
        others: &UsedFiles,
    ) -> Result<Self> {
        let mut access = access.with_disks(&options.disks);
        let host = HostPart::of_program(options, &mut access, process, others)?;
        let mut session = Self::of_host(host);
        let machine = &mut session.machine;
        let prepare = || machine.prepare(access.runs_programs);
        session.host.enter_sandbox(&access, prepare)?;
        Ok(session)
    }

    /// A session in a process that is not ours.
    pub(crate) fn in_library(options: Options, image: &Path, write: bool) -> Self {
        let images = [image]
            .into_iter()
            .chain(options.disks.iter().map(PathBuf::as_path));
        let images: Vec<(PathBuf, bool)> = images.map(|file| (file.to_owned(), write)).collect();
        Self::of_host(HostPart::of_library(options, &images))
    }

    /// A session for work of a library that also runs tools. It has no kernel:
    /// [`apart`](super::apart) boots one for a part of the work, in this process.
    pub fn of_tools(options: Options, cancel: Cancel) -> Self {
        Self {
            cancel,
            ..Self::of_host(HostPart::of_tools(options))
        }
    }

    /// A session with these images for a part of the work of this one, in the same process.
    pub(super) fn part_of_library(&self, access: &HostAccess) -> Self {
        Self {
            cancel: self.cancel.clone(),
            ..Self::of_host(self.host.part_of_library(access))
        }
    }

    fn of_host(host: HostPart) -> Self {
        Self {
            machine: Machine::new(host.options().vcpus),
            host,
            slots: Slots::default(),
            registered: RegisteredDevices::new(),
            noted: HashSet::new(),
            older: Vec::new(),
            style: Style::default(),
            cancel: Cancel::default(),
        }
    }

    /// Boots the kernel for a file system of this type, or finds it booted.
    pub(crate) fn kernel(&mut self, kind: Option<&str>) -> Result<Kernel> {
        if let Some(kernel) = self.machine.kernel() {
            return Ok(kernel.clone());
        }
        assert!(
            !self.host.is_outside(),
            "the kernel runs in the sandbox only"
        );
        let kernel = self.machine.boot(&BootRequest {
            options: self.host.options(),
            in_library: self.host.is_in_library(),
            kind,
            shares_memory: self
                .host
                .network()
                .is_some_and(Network::needs_shared_memory),
            snapshots: self.host.snapshots(),
        })?;
        self.host.start_network(&kernel)?;
        self.host.start_program_network(&kernel)?;
        self.host.close_sandbox()?;
        Ok(kernel)
    }

    /// How the kernel is run and images are opened.
    pub fn options(&self) -> &Options {
        self.host.options()
    }

    /// The umask of the user, for modes that are not kept.
    pub fn umask(&self) -> u32 {
        self.host.umask()
    }

    /// Files that commands must not overwrite.
    pub fn used(&self) -> Arc<UsedFiles> {
        self.host.used()
    }

    /// Fails with --ro.
    pub fn may_write(&self, shown: &str) -> Result<()> {
        self.host.may_write(shown)
    }

    /// Hands its keys to another session.
    pub fn take_keys(&mut self) -> Keys {
        self.host.take_keys()
    }

    /// Whether the command stays outside of the sandbox, and uses the kernel in other processes.
    pub fn is_outside(&self) -> bool {
        self.host.is_outside()
    }

    /// Whether the user gave -v.
    pub fn verbose(&self) -> bool {
        self.options().verbose > 0
    }

    /// From now on an interrupt only sets a flag, which the command polls through the result. An
    /// earlier interrupt counts, too: it may have come between two commands of a script.
    pub fn catch_interrupts(&mut self) -> Interrupt {
        if self.is_in_library() {
            Interrupt::by(self.cancel.clone())
        } else {
            Interrupt::poll()
        }
    }

    /// Waits until programs have their network.
    pub(crate) fn finish_program_network(&mut self) -> Result<()> {
        self.host.finish_program_network()
    }

    /// The control socket of a run in the background.
    pub(crate) fn take_control(&mut self) -> Option<ControlSocket> {
        self.host.take_control()
    }

    /// The ends of a server.
    pub(crate) fn take_server(&mut self) -> Option<ServerEnds> {
        self.host.take_server()
    }

    /// The gates of sockets that were passed to this process.
    pub(crate) fn take_gates(&mut self) -> Option<PortGates> {
        self.host.take_gates()
    }

    /// The overlay that was made for the program.
    pub(crate) fn take_new_overlay(&mut self) -> Option<NewOverlay> {
        self.host.take_new_overlay()
    }

    /// From now on, images that are opened for writing stay as they are: changes lie in memory, and
    /// go with the session.
    pub fn keep_changes_in_memory(&mut self) {
        let most = self.options().memory.unwrap_or_else(default_memory);
        self.host.set_changes_in_memory(most.min(MOST_CHANGES));
    }

    /// Whether the process belongs to a program that is not ours.
    pub fn is_in_library(&self) -> bool {
        self.host.is_in_library()
    }

    /// Gives the kernel, before its boot, the library's default memory: a mount caches files as
    /// long as programs use them.
    pub fn remember_more(&mut self) {
        self.machine.remember_more();
    }

    /// The number of threads that the kernel can serve at once.
    pub fn vcpus(&self) -> u32 {
        self.machine.vcpus()
    }

    /// From now on calls wait for servers only while `is_waiting` returns true. By default they do
    /// all the time: a server that owes an answer for long is given up then.
    pub fn watch_servers_while(&self, is_waiting: impl Fn() -> bool + Send + 'static) {
        if let Some(network) = self.host.network() {
            network.watch_while(Box::new(is_waiting));
        }
    }

    /// Sets options of later mounts.
    pub fn set_style(&mut self, style: Style) {
        self.style = style;
    }

    /// The tree that [`Session::open`] returned this for.
    pub fn tree(&self, id: TreeId) -> &Tree {
        match id {
            TreeId::Host => HostTree.as_tree(),
            TreeId::Mount(index) => self.mounted(index),
        }
    }

    /// The mount that [`Session::mount`] returned this for.
    pub fn mounted(&self, index: usize) -> &Mount {
        &self.slots.mounted(index).mount
    }

    /// Whether a volume lies on another one.
    pub fn lies_on(&self, upper: &BlockDevice, lower: &BlockDevice) -> bool {
        self.slots.lies_on(upper, lower)
    }
}
