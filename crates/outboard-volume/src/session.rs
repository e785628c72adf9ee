// SPDX-License-Identifier: GPL-2.0-only
//! One run of the kernel: boots it when it is needed, mounts each file system once,
//! and at the end writes and unmounts everything.
//!
//! A session of the program owns its process: it sandboxes the process, prints notes. A session of
//! a library (`Session::in_library`) changes nothing of its process.

mod apart;
mod boot;
mod devices;
mod disk_volumes;
mod disks;
mod exclusion;
mod file_systems;
mod layered;
mod mounts;
mod network;
mod problems;
mod relay;
mod remote;
mod used;
mod watch;

use crate::address::Place;
use crate::destination::UsedFiles;
use crate::held::HeldImages;
use crate::layers::keys::Keys;
use crate::layers::several::RegisteredDevices;
use crate::limits::kernel_memory;
use crate::options::Options;
use crate::snapshots;
use crate::warnings;
pub use apart::{apart, apart_without, start_apart};
pub use devices::WantedDevice;
use disks::OpenDisk;
use layered::OpenStack;
pub(crate) use mounts::unsynced;
use mounts::MountedDevice;
pub use mounts::Style;
use network::Network;
use outboard::{Builder, Cancel, HostTree, Kernel, LogRing, Mount, System, Tree};
use outboard_error::{report, Error, ErrorKind, Failure, Hint, Result};
use outboard_sandbox::crash::Advice;
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::{HostAccess, Sandbox};
pub(crate) use problems::messages_since;
use std::collections::HashSet;
use std::mem::forget;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// vCPUs beyond this do not make copying faster.
const USEFUL_VCPUS: u32 = 4;
/// The tree of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeId {
    Host,
    Mount(usize),
}

/// Boots its kernel on demand. Written data is safe only after [`Session::finish`].
pub struct Session {
    options: Options,
    vcpus: u32,
    /// Default of --memory; 0: the library's default.
    memory: u64,
    held: HeldImages,
    /// Files that commands must not overwrite.
    used: Arc<UsedFiles>,
    keys: Keys,
    registered: RegisteredDevices,
    sandbox: Sandbox,
    /// `None`: no server is named.
    network: Option<Network>,
    /// The user's login name; empty if unknown.
    user_name: String,
    /// The command stays outside of the sandbox, and has no kernel.
    outside: bool,
    snapshots: Option<PathBuf>,
    log: Arc<LogRing>,
    /// Where the log was when the kernel had booted.
    booted: usize,
    advice: Arc<Advice>,
    /// Settings and prepared resources for the boot.
    builder: Builder,
    kernel: Option<Kernel>,
    /// The slots of a released disk and of its mounts are empty.
    disks: Vec<Option<OpenDisk>>,
    mounts: Vec<Option<MountedDevice>>,
    /// A slot is empty once one of its disks was released.
    stacks: Vec<Option<OpenStack>>,
    noted: HashSet<String>,
    /// Mounts that show an older state, as the present command has reported.
    older: Vec<usize>,
    umask: u32,
    style: Style,
    /// The process belongs to a program that is not ours.
    in_library: bool,
    /// Stops the work of a library.
    cancel: Cancel,
}

/// The umask of a process that may have other threads: it is only read.
fn umask_of_process() -> u32 {
    const USUAL: u32 = 0o022;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    mask.unwrap_or(USUAL)
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

impl Session {
    /// `access`: the command's needs of the host. The process must have one thread.
    pub fn new(options: Options, access: &HostAccess) -> Result<Self> {
        let keys = if access.images.is_empty() && !access.outside {
            Keys::default()
        } else {
            Keys::open(&options)
        };
        Self::as_part(options, access, keys, &UsedFiles::default())
    }

    /// As `new`, with the keys of another session and the files that it uses.
    pub fn as_part(
        options: Options,
        access: &HostAccess,
        keys: Keys,
        others: &UsedFiles,
    ) -> Result<Self> {
        let mut access = access.with_disks(&options.disks);
        let network = if access.outside {
            None
        } else {
            Network::prepare(&options, &access.images)
        };
        if let Some(network) = network.as_ref().filter(|_| !options.no_sandbox) {
            network.check_sandbox()?;
        }
        access.network = network
            .as_ref()
            .map(|network| network.access(&access.images));
        let access = &access;
        warnings::open();
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
        let mut session = Self::of_images(options, held, keys);
        session.used = Arc::new(used);
        session.network = network;
        session.outside = access.outside;
        if !access.images.is_empty() {
            session.snapshots = snapshots::directory();
        }
        // Commands compute the modes of new files: the kernel of an image has no umask.
        session.umask = System::Host.umask(0);
        System::Host.umask(session.umask);
        session.shut_in(access)?;
        Ok(session)
    }

    /// A session in a process that is not ours, which may have many threads. It changes no setting
    /// of the process, and asks nobody for a key.
    pub(crate) fn in_library(options: Options, image: &Path, write: bool) -> Self {
        let images = [image]
            .into_iter()
            .chain(options.disks.iter().map(PathBuf::as_path));
        let images: Vec<(PathBuf, bool)> = images.map(|file| (file.to_owned(), write)).collect();
        Self::of_library(options, images)
    }

    /// A session for work of a library that also runs tools. It has no kernel: [`apart`] boots one
    /// for a part of the work, in this process.
    pub fn of_tools(options: Options, cancel: Cancel) -> Self {
        let mut session = Self::of_library(options, Vec::new());
        session.outside = true;
        session.umask = umask_of_process();
        session.cancel = cancel;
        session
    }

    /// A session with these images for a part of the work of this one, in the same process.
    fn part_of_library(&self, access: &HostAccess) -> Self {
        let access = access.with_disks(&self.options.disks);
        let mut session = Self::of_library(self.options.clone(), access.images);
        session.umask = self.umask;
        session.cancel = self.cancel.clone();
        session
    }

    fn of_library(options: Options, images: Vec<(PathBuf, bool)>) -> Self {
        let held = HeldImages::open(&images, &options.image_options());
        let keys = Keys::without_terminal(&options);
        let used = used::of_library(&options, &held);
        let mut session = Self::of_images(options, held, keys);
        session.used = used;
        session.snapshots = session.options.snapshots.clone();
        session.in_library = true;
        session
    }

    fn of_images(options: Options, held: HeldImages, keys: Keys) -> Self {
        // Count processors now: the sandbox hides the host's files that list them.
        let vcpus = options
            .vcpus
            .unwrap_or_else(|| processors().min(USEFUL_VCPUS));
        Self {
            options,
            vcpus,
            memory: kernel_memory(),
            held,
            used: Arc::default(),
            keys,
            registered: RegisteredDevices::new(),
            sandbox: Sandbox::Open,
            network: None,
            user_name: std::env::var("USER").unwrap_or_default(),
            outside: false,
            snapshots: None,
            log: Arc::new(LogRing::new(256)),
            booted: 0,
            advice: Arc::default(),
            builder: Kernel::builder(),
            kernel: None,
            disks: Vec::new(),
            mounts: Vec::new(),
            stacks: Vec::new(),
            noted: HashSet::new(),
            older: Vec::new(),
            umask: 0,
            style: Style::default(),
            in_library: false,
            cancel: Cancel::default(),
        }
    }

    /// Enters the sandbox. The process must have one thread.
    fn shut_in(&mut self, access: &HostAccess) -> Result<()> {
        let harmless = access.images.is_empty() && !access.parses;
        if harmless || access.outside || self.options.no_sandbox {
            return Ok(());
        }
        // The memory of a growing kernel also needs a namespace: prepare it first.
        if !access.is_small {
            self.builder = std::mem::take(&mut self.builder).prepare();
        }
        let components = &self.options.components;
        // Images named /dev/fd/N have descriptors of their own now.
        if access.is_images_only() {
            std::mem::take(&mut self.options.inherited).close();
        }
        self.sandbox = Sandbox::enter(access, self.snapshots.as_ref(), components)?;
        Ok(())
    }

    /// How the kernel is run and images are opened.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The umask of the user, for modes that are not kept.
    pub fn umask(&self) -> u32 {
        self.umask
    }

    /// From now on an interrupt only sets a flag, which the command polls through the result. An
    /// earlier interrupt counts, too: it may have come between two commands of a script.
    pub fn catch_interrupts(&mut self) -> Interrupt {
        if self.in_library {
            Interrupt::by(self.cancel.clone())
        } else {
            Interrupt::poll()
        }
    }

    /// Whether the process belongs to a program that is not ours.
    pub fn is_in_library(&self) -> bool {
        self.in_library
    }

    /// Gives the kernel, before its boot, the library's default memory: a mount caches files as
    /// long as programs use them.
    pub fn remember_more(&mut self) {
        self.memory = 0;
    }

    /// From now on calls wait for servers only while `is_waiting` returns true. By default they do
    /// all the time: a server that owes an answer for long is given up then.
    pub fn watch_servers_while(&self, is_waiting: impl Fn() -> bool + Send + 'static) {
        if let Some(network) = &self.network {
            network.watch_while(Box::new(is_waiting));
        }
    }

    /// Sets options of later mounts.
    pub fn set_style(&mut self, style: Style) {
        self.style = style;
    }

    /// The number of threads that the kernel can serve at once.
    pub fn vcpus(&self) -> u32 {
        self.vcpus
    }

    /// Fails with --ro.
    pub fn may_write(&self, shown: &str) -> Result<()> {
        if self.options.read_only {
            let (kind, setting) = (ErrorKind::ReadOnly, Hint::OpenedReadOnly);
            Err(Error::hinted(kind, setting, |setting| {
                format!("cannot write to {shown}: it was opened read-only{setting}")
            }))
        } else {
            Ok(())
        }
    }

    /// Hands its keys to another session.
    pub fn take_keys(&mut self) -> Keys {
        std::mem::take(&mut self.keys)
    }

    /// Whether the command stays outside of the sandbox, and uses the kernel in other processes.
    pub fn is_outside(&self) -> bool {
        self.outside
    }

    /// Whether the user gave -v.
    pub fn verbose(&self) -> bool {
        self.options.verbose > 0
    }

    /// The tree that a place is in; mounts its file system if that was not done before.
    pub fn open(&mut self, place: &Place, write: bool) -> Result<TreeId> {
        match place {
            Place::Host(_) => Ok(TreeId::Host),
            Place::Image(name, _) => self.mount(name, write).map(TreeId::Mount),
        }
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
        let slot = self.mounts[index].as_ref();
        &slot.expect("a mount of a disk that was not released").mount
    }

    /// Writes everything to stable storage, unmounts and stops the kernel. An error
    /// means that something may be missing in an image.
    pub fn finish(mut self) -> Result<()> {
        let position = self.log.position();
        let mut problems = Vec::new();
        if let Some(network) = &self.network {
            network.finish();
        }
        let mut is_left = false;
        while let Some(slot) = self.mounts.pop() {
            let Some(mounted) = slot else {
                continue;
            };
            let (is_late, is_remote) = (mounted.is_late(), mounted.server.is_some());
            let problem = mounted.unmount();
            is_left |= is_late || is_remote && problem.is_some();
            problems.extend(problem);
        }
        if let Some(network) = &mut self.network {
            network.end_watch();
        }
        let stacks = self.stacks.iter().flatten();
        problems.extend(stacks.flat_map(OpenStack::lost_snapshots));
        for slot in self.stacks.iter_mut().rev() {
            drop(slot.take_if(|stack| stack.must_be_closed()));
        }
        // A halt removes all disks; removing them one by one takes longer.
        if let Some(kernel) = self.kernel.take() {
            // A layer may have tried to write to a disk that can only be read.
            let written = self.disks.iter().flatten().any(|open| open.writable);
            // A halt would wait for the server of a mount that was left.
            let halted = if is_left {
                forget(kernel);
                Ok(())
            } else {
                kernel.halt()
            };
            if let Some(error) = halted.err().filter(|_| written) {
                problems.push(Failure::of(&error).after("the kernel did not stop well"));
            }
        }
        problems.extend(self.disks.iter().flatten().filter_map(OpenDisk::flush));
        if self.in_library {
            let removed = |open: &OpenDisk| open.removed(&self.held);
            problems.extend(self.disks.iter().flatten().filter_map(removed));
        }
        self.told(problems, position)
    }

    /// The result of a command, which ends: a failure if it used a file system in an older state.
    pub fn unless_older<T>(&mut self, done: Result<T>) -> Result<T> {
        let used = !std::mem::take(&mut self.older).is_empty();
        match done {
            Ok(_) if used => Err(Error::AlreadyReported),
            done => done,
        }
    }

    /// As [`Session::finish`], for a process that ends next. If no disk is writable, the kernel is
    /// not halted, and ends with the process: a halt takes longer than a short command.
    fn finish_last(mut self) -> Result<()> {
        let written = self.disks.iter().flatten().any(|open| open.writable)
            || self.mounts.iter().flatten().any(MountedDevice::is_written);
        if written || !self.stacks.is_empty() || !self.options.components.is_empty() {
            return self.finish();
        }
        // Dropping the last of these would halt the kernel. Everything else is dropped, such as
        // temporary files.
        forget((self.kernel.take(), std::mem::take(&mut self.mounts)));
        let disks = self.disks.drain(..).flatten();
        disks.for_each(|open| forget(open.disk));
        Ok(())
    }
}

/// Runs `work` in a session, and finishes the session even after an error. The error of `work`
/// comes first. The process must end next.
pub fn with_session<T>(
    options: Options,
    access: &HostAccess,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    finished(Session::new(options, access)?, work, Session::finish_last)
}

/// The same, in this session, while the process goes on.
pub fn in_session<T>(session: Session, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
    finished(session, work, Session::finish)
}

fn finished<T>(
    mut session: Session,
    work: impl FnOnce(&mut Session) -> Result<T>,
    finish: impl FnOnce(Session) -> Result<()>,
) -> Result<T> {
    let done = work(&mut session);
    let done = session.unless_older(done);
    if done.is_err() {
        session.note_missing_inodes();
        session.report_silent_servers();
    }
    let finished = finish(session);
    match (done, finished) {
        (Ok(value), finished) => finished.map(|()| value),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(second)) => {
            if let Some(text) = second.message() {
                report(text.to_owned());
            }
            Err(error)
        }
    }
}
