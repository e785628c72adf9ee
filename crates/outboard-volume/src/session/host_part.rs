// SPDX-License-Identifier: GPL-2.0-only
//! The part of a session that owns what it has from the host: images held open, keys, the network,
//! the sandbox.

use super::program_network::ProgramNetwork;
use super::servers::Network;
use super::used;
use crate::control_socket::ControlSocket;
use crate::destination::{Use, UsedFiles};
use crate::held::{HeldImage, HeldImages};
use crate::image::Image;
use crate::layers::keys::Keys;
use crate::new_overlay::NewOverlay;
use crate::options::Options;
use crate::port_gates::PortGates;
use crate::server_ends::ServerEnds;
use crate::snapshots;
use outboard::Kernel;
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_sandbox::{HostAccess, PassedSocket, Sandbox};
use std::mem::{forget, take};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// State of the process that a program hands to its session.
#[derive(Default)]
pub struct ProcessState {
    /// The umask of the user, for modes that are not kept.
    pub umask: u32,
    /// The keys of the user: of the key file, or by questions on the terminal.
    pub keys: Keys,
    /// The control socket of a run in the background.
    pub control: Option<ControlSocket>,
    /// The ends of a server.
    pub server: Option<ServerEnds>,
    /// Sockets that lead to programs, in the place of ports of the same number.
    pub sockets: Vec<PassedSocket>,
    /// An overlay that was made for a program.
    pub new_overlay: Option<NewOverlay>,
}

/// The umask of a process that may have other threads: it is only read.
fn umask_of_process() -> u32 {
    const USUAL: u32 = 0o022;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    mask.unwrap_or(USUAL)
}

pub(super) struct HostPart {
    options: Options,
    held: HeldImages,
    /// Files that commands must not overwrite.
    used: Arc<UsedFiles>,
    keys: Keys,
    sandbox: Sandbox,
    /// `None`: no server is named.
    network: Option<Network>,
    /// `None`: no programs run, or they use the network above.
    program_network: Option<ProgramNetwork>,
    /// Of sockets that lead to programs.
    gates: Option<PortGates>,
    /// The command stays outside of the sandbox, and has no kernel.
    outside: bool,
    snapshots: Option<PathBuf>,
    umask: u32,
    /// The process belongs to a program that is not ours.
    in_library: bool,
    /// Changes of images stay in memory, of which they take so many bytes at most.
    changes_in_memory: Option<u64>,
    /// By which other commands reach a run.
    control: Option<ControlSocket>,
    /// By which a server is reached.
    server: Option<ServerEnds>,
    /// An overlay that goes unless the program starts.
    new_overlay: Option<NewOverlay>,
}

impl HostPart {
    /// For a program. `access`: the command's needs of the host, to which the network is added.
    /// `others`: files that another session uses.
    pub(super) fn of_program(
        options: Options,
        access: &mut HostAccess,
        process: ProcessState,
        others: &UsedFiles,
    ) -> Result<Self> {
        let network = if access.outside {
            None
        } else {
            Network::prepare(&options, &access.images, false)
        };
        if let Some(network) = network.as_ref().filter(|_| !options.no_sandbox) {
            network.check_sandbox()?;
        }
        access.network = network
            .as_ref()
            .map(|network| network.access(&access.images));
        let mut program_network = match network {
            None if access.runs_programs => {
                ProgramNetwork::prepare(&options, access, process.sockets)?
            }
            _ => None,
        };
        // Other programs may make images, and change them.
        let held = if access.outside {
            HeldImages::default()
        } else {
            HeldImages::open(&access.images, &options.image_options())
        };
        let used = used::find(&options, access, &held, others)?;
        if let Some(network) = &network {
            network.check_capture(&used)?;
        }
        let needs_kernel = access.needs_kernel();
        Ok(Self {
            held,
            used: Arc::new(used),
            network,
            gates: program_network
                .as_mut()
                .and_then(ProgramNetwork::take_gates),
            program_network,
            outside: access.outside,
            snapshots: needs_kernel.then(snapshots::directory).flatten(),
            umask: process.umask,
            control: process.control,
            server: process.server,
            new_overlay: process.new_overlay,
            ..Self::new(options, process.keys)
        })
    }

    /// For a library, whose process may have many threads. It changes no setting of the process,
    /// and asks nobody for a key.
    pub(super) fn of_library(options: Options, images: &[(PathBuf, bool)]) -> Self {
        let held = HeldImages::open(images, &options.image_options());
        let keys = Keys::without_terminal(&options);
        let network = Network::prepare(&options, images, true);
        Self {
            network,
            used: used::of_library(&options, &held),
            held,
            snapshots: options.snapshots.clone(),
            in_library: true,
            ..Self::new(options, keys)
        }
    }

    /// The same for work that runs tools. It has no kernel.
    pub(super) fn of_tools(options: Options) -> Self {
        Self {
            outside: true,
            umask: umask_of_process(),
            ..Self::of_library(options, &[])
        }
    }

    /// The part for these images, for a part of the work of a library.
    pub(super) fn part_of_library(&self, access: &HostAccess) -> Self {
        let access = access.with_disks(&self.options.disks);
        Self {
            umask: self.umask,
            ..Self::of_library(self.options.clone(), &access.images)
        }
    }

    fn new(options: Options, keys: Keys) -> Self {
        Self {
            options,
            held: HeldImages::default(),
            used: Arc::default(),
            keys,
            sandbox: Sandbox::Open,
            network: None,
            program_network: None,
            gates: None,
            outside: false,
            snapshots: None,
            umask: 0,
            in_library: false,
            changes_in_memory: None,
            control: None,
            server: None,
            new_overlay: None,
        }
    }

    /// Enters the sandbox. The process must have one thread. `prepare`: asks the host for what it
    /// refuses later.
    pub(super) fn enter_sandbox(
        &mut self,
        access: &HostAccess,
        prepare: impl FnOnce(),
    ) -> Result<()> {
        let harmless = !access.needs_kernel() && !access.parses;
        if harmless || access.outside || self.options.no_sandbox {
            return Ok(());
        }
        // The memory of a growing kernel also needs a namespace.
        if !access.is_small {
            prepare();
        }
        let components = &self.options.components;
        // Images named /dev/fd/N have descriptors of their own now.
        if access.is_images_only() {
            take(&mut self.options.inherited).close();
        }
        self.sandbox = Sandbox::enter(access, self.snapshots.as_ref(), components)?;
        Ok(())
    }

    /// Closes the sandbox: from now on nothing is opened by its name.
    pub(super) fn close_sandbox(&mut self) -> Result<()> {
        self.sandbox.close()
    }

    /// How the kernel is run and images are opened.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Fails with --ro.
    pub(super) fn may_write(&self, shown: &str) -> Result<()> {
        if self.options.read_only {
            let (kind, setting) = (ErrorKind::ReadOnly, Hint::OpenedReadOnly);
            Err(Error::hinted(kind, setting, |setting| {
                format!("cannot write to {shown}: it was opened read-only{setting}")
            }))
        } else {
            Ok(())
        }
    }

    /// The images that were opened at the start.
    pub(super) fn held(&self) -> &HeldImages {
        &self.held
    }

    /// Calls `work` with an image; opens the image unless it is held open.
    pub(super) fn with_held<T>(
        &self,
        path: &Path,
        write: bool,
        work: impl FnOnce(&HeldImage) -> T,
    ) -> T {
        match self.held.find(path) {
            Some(held) => work(held),
            None => work(&HeldImage::open(path, write, &self.options.image_options())),
        }
    }

    /// Files that commands must not overwrite.
    pub(super) fn used(&self) -> Arc<UsedFiles> {
        Arc::clone(&self.used)
    }

    /// Adds an image that was unknown at the start of the session, as in a shell, so that no
    /// command overwrites it.
    pub(super) fn note_use(&mut self, file: &Path, image: &Image) {
        if self.held.find(file).is_some() {
            return;
        }
        let used = Arc::make_mut(&mut self.used);
        used.look_again();
        used.add(file, Use::Image);
        if image.format == Some("qcow2") {
            let options = self.options.image_options();
            HeldImages::open(&[(file.to_owned(), false)], &options).add_to(used);
        }
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(super) fn options_and_keys(&mut self) -> (&Options, &mut Keys) {
        (&self.options, &mut self.keys)
    }

    /// Gives its keys away.
    pub(super) fn take_keys(&mut self) -> Keys {
        take(&mut self.keys)
    }

    pub(super) fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    pub(super) fn network_mut(&mut self) -> Option<&mut Network> {
        self.network.as_mut()
    }

    /// Connects the kernel, which has booted, to the network; does nothing if no server is named.
    pub(super) fn start_network(&mut self, kernel: &Kernel) -> Result<()> {
        let Some(network) = &mut self.network else {
            return Ok(());
        };
        // The program has checked it before the sandbox.
        if self.in_library {
            network.check_capture(&self.used)?;
        }
        network.start(kernel)
    }

    /// Begins to connect the programs of the kernel, which has booted, to their network.
    pub(super) fn start_program_network(&mut self, kernel: &Kernel) -> Result<()> {
        let network = self.program_network.take();
        let started = network.map(|network| network.start(kernel));
        self.program_network = started.transpose()?;
        Ok(())
    }

    /// Leaves the network of programs to the end of the process.
    pub(super) fn forget_program_network(&mut self) {
        forget(self.program_network.take());
    }

    /// Waits until programs have their network.
    pub(super) fn finish_program_network(&mut self) -> Result<()> {
        let network = self.program_network.take();
        let started = network.map(ProgramNetwork::finish_start);
        self.program_network = started.transpose()?;
        Ok(())
    }

    /// Whether the command stays outside of the sandbox, and uses the kernel in other processes.
    pub(super) fn is_outside(&self) -> bool {
        self.outside
    }

    /// Most bytes of changes of images that stay in memory; `None`: they reach the images.
    pub(super) fn changes_in_memory(&self) -> Option<u64> {
        self.changes_in_memory
    }

    /// The gates of sockets that were passed to this process. Once, before the kernel boots.
    pub(super) fn take_gates(&mut self) -> Option<PortGates> {
        self.gates.take()
    }

    /// Once.
    pub(super) fn take_new_overlay(&mut self) -> Option<NewOverlay> {
        self.new_overlay.take()
    }

    /// Once.
    pub(super) fn take_control(&mut self) -> Option<ControlSocket> {
        self.control.take()
    }

    /// Once.
    pub(super) fn take_server(&mut self) -> Option<ServerEnds> {
        self.server.take()
    }

    pub(super) fn set_changes_in_memory(&mut self, most: u64) {
        self.changes_in_memory = Some(most);
    }

    /// Whether a disk that is opened in this way changes an image.
    pub(super) fn writes_images(&self, write: bool) -> bool {
        write && self.changes_in_memory.is_none()
    }

    /// The directory of snapshots of kernels.
    pub(super) fn snapshots(&self) -> Option<&PathBuf> {
        self.snapshots.as_ref()
    }

    /// The umask of the user, for modes that are not kept.
    pub(super) fn umask(&self) -> u32 {
        self.umask
    }

    /// Whether the process belongs to a program that is not ours.
    pub(super) fn is_in_library(&self) -> bool {
        self.in_library
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(options: Options) -> HostPart {
        HostPart::new(options, Keys::default())
    }

    #[test]
    fn nothing_is_written_after_ro() {
        assert!(part(Options::default()).may_write("a").is_ok());
        let read_only = Options {
            read_only: true,
            ..Options::default()
        };
        let error = part(read_only).may_write("a.img").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        assert!(error.message().unwrap().contains("a.img"));
    }

    #[test]
    fn what_the_program_hands_in_stays() {
        let process = ProcessState {
            umask: 0o27,
            ..ProcessState::default()
        };
        let mut access = HostAccess::default();
        let others = UsedFiles::default();
        let part = HostPart::of_program(Options::default(), &mut access, process, &others).unwrap();
        assert_eq!(part.umask(), 0o27);
        assert!(!part.is_in_library() && part.network().is_none());
        // Without an image there is nothing to start a kernel for.
        assert!(part.snapshots().is_none());
    }

    #[test]
    fn a_library_has_a_umask_of_its_own() {
        let missing = Path::new("/nowhere/image");
        let images = [(missing.to_owned(), true)];
        let part = HostPart::of_library(Options::default(), &images);
        assert!(part.is_in_library() && part.umask() == 0);
        // An image that cannot be opened is an error when it is used.
        assert!(part.held().find(missing).is_some());
        assert!(part.with_held(missing, false, |held| held.identity().is_err()));
    }
}
