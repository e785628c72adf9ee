// SPDX-License-Identifier: GPL-2.0-only
//! One run of the kernel: boots it when it is needed, mounts each file system once,
//! and at the end writes and unmounts everything.

mod apart;
mod boot;
mod devices;
mod disks;
mod layered;
mod mounts;
mod problems;
mod used;

use crate::address::Place;
use crate::destination::UsedFiles;
use crate::held::HeldImages;
use crate::layers::keys::Keys;
use crate::limits::kernel_memory;
use crate::options::Options;
use crate::snapshots;
use crate::warnings;
pub use apart::{apart, start_apart};
pub use devices::Wanted;
use disks::OpenDisk;
use layered::OpenStack;
use mounts::Mounted;
pub use mounts::Style;
use outboard::{Builder, Kernel, LogRing, Mount, System, Tree};
use outboard_sandbox::crash::Advice;
use outboard_sandbox::error::{reason, warn, Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::{HostAccess, Sandbox};
use std::collections::HashSet;
use std::mem::forget;
use std::path::PathBuf;
use std::sync::Arc;

/// vCPUs beyond this do not make copying faster.
const USEFUL_VCPUS: u32 = 4;
/// Which tree a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeId {
    Host,
    Mount(usize),
}

/// Booted on demand; [`Session::finish`] must be called for what was written to be safe.
pub struct Session {
    options: Options,
    vcpus: u32,
    /// Most memory of the kernel unless the user says otherwise; 0: what the library takes.
    memory: u64,
    held: HeldImages,
    /// What commands must not overwrite.
    used: Arc<UsedFiles>,
    keys: Keys,
    sandbox: Sandbox,
    /// The command runs other programs: it stays outside of the sandbox, and has no kernel.
    outside: bool,
    snapshots: Option<PathBuf>,
    log: Arc<LogRing>,
    advice: Arc<Advice>,
    host: Tree,
    /// How the kernel is booted, and what was prepared for that.
    builder: Builder,
    kernel: Option<Kernel>,
    /// A slot is empty once its disk was released; so are those of its mounts.
    disks: Vec<Option<OpenDisk>>,
    mounts: Vec<Option<Mounted>>,
    /// A slot is empty once one of its disks was released.
    stacks: Vec<Option<OpenStack>>,
    noted: HashSet<String>,
    umask: u32,
    style: Style,
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

impl Session {
    /// `access`: what the command uses of the host. The process must have one thread.
    pub fn new(options: Options, access: &HostAccess) -> Result<Self> {
        let keys = match access.images.is_empty() && !access.programs {
            true => Keys::default(),
            false => Keys::open(&options),
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
        let access = &access.with_disks(&options.disks);
        warnings::open();
        // Other programs may make images, and change them.
        let held = match access.programs {
            true => HeldImages::default(),
            false => HeldImages::open(&access.images, &options.image_options()),
        };
        let used = used::find(&options, access, &held, others)?;
        // The host's files that tell it are not seen from inside.
        let vcpus = options
            .vcpus
            .unwrap_or_else(|| processors().min(USEFUL_VCPUS));
        let snapshots = match access.images.is_empty() {
            true => None,
            false => snapshots::directory(),
        };
        let mut session = Self {
            options,
            vcpus,
            memory: kernel_memory(),
            held,
            used: Arc::new(used),
            keys,
            sandbox: Sandbox::Open,
            outside: access.programs,
            snapshots,
            log: Arc::new(LogRing::new(256)),
            advice: Arc::default(),
            host: Tree::host(),
            builder: Kernel::builder(),
            kernel: None,
            disks: Vec::new(),
            mounts: Vec::new(),
            stacks: Vec::new(),
            noted: HashSet::new(),
            // Modes of new files are computed by commands, for images and the host alike.
            umask: System::Host.umask(0),
            style: Style::default(),
        };
        session.shut_in(access)?;
        Ok(session)
    }

    /// While there is one thread.
    fn shut_in(&mut self, access: &HostAccess) -> Result<()> {
        let harmless = access.images.is_empty() && !access.parses;
        if harmless || access.programs || self.options.no_sandbox {
            return Ok(());
        }
        // Memory for a kernel that grows comes by a namespace, too.
        if !access.is_small {
            self.builder = std::mem::take(&mut self.builder).prepare();
        }
        let components = &self.options.components;
        // Images that were named as /dev/fd/N are open by themselves now.
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

    /// Permissions that new files do not get where modes are not kept.
    pub fn umask(&self) -> u32 {
        self.umask
    }

    /// From now on an interrupt asks the command to stop, which looks at what is returned. One that came before is
    /// not forgotten: it may have come between two commands of a script.
    pub fn catch_interrupts(&mut self) -> Interrupt {
        Interrupt::poll()
    }

    /// Lets the kernel that is not booted yet have as much memory as the library takes by itself: it remembers files as
    /// long as somebody uses them.
    pub fn remember_more(&mut self) {
        self.memory = 0;
    }

    /// For what is mounted from now on.
    pub fn set_style(&mut self, style: Style) {
        self.style = style;
    }

    /// How many threads make use of the kernel.
    pub fn vcpus(&self) -> u32 {
        self.vcpus
    }

    /// Refuses with --ro.
    pub fn may_write(&self, shown: &str) -> Result<()> {
        match self.options.read_only {
            true => Err(Error::Failed(format!(
                "cannot write to {shown}: it was opened read-only (--ro)"
            ))),
            false => Ok(()),
        }
    }

    /// Its keys, for another session.
    pub fn take_keys(&mut self) -> Keys {
        std::mem::take(&mut self.keys)
    }

    /// Whether the command stays outside of the sandbox, and works with the kernel in processes of their own.
    pub fn is_outside(&self) -> bool {
        self.outside
    }

    /// Whether the user wants to see what happens.
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
            TreeId::Host => &self.host,
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
        while let Some(slot) = self.mounts.pop() {
            problems.extend(slot.and_then(Mounted::unmount));
        }
        let stacks = self.stacks.iter().flatten();
        problems.extend(stacks.flat_map(OpenStack::lost_snapshots));
        for slot in self.stacks.iter_mut().rev() {
            drop(slot.take_if(|stack| stack.must_be_closed()));
        }
        // The kernel's end takes the disks along; removing them one by one takes longer.
        if let Some(kernel) = self.kernel.take() {
            // A layer may have tried to write to a disk that can only be read.
            let written = self.disks.iter().flatten().any(|open| open.writable);
            if let Some(error) = kernel.halt().err().filter(|_| written) {
                problems.push(format!("the kernel did not stop well: {}", reason(&error)));
            }
        }
        problems.extend(self.disks.iter().flatten().filter_map(OpenDisk::flush));
        self.told(problems, position)
    }

    /// As [`Session::finish`], when the process ends next. Nothing was written if no disk can be:
    /// then the kernel is left as it is, and ends with the process. To stop it takes longer than a
    /// short command.
    fn finish_last(mut self) -> Result<()> {
        let written = self.disks.iter().flatten().any(|open| open.writable);
        if written || !self.stacks.is_empty() || !self.options.components.is_empty() {
            return self.finish();
        }
        // The last of these would stop it. All else of the session is dropped: temporary files.
        forget((self.kernel.take(), std::mem::take(&mut self.mounts)));
        let disks = self.disks.drain(..).flatten();
        disks.for_each(|open| forget(open.disk));
        Ok(())
    }
}

/// Runs `work` in a session and finishes it whatever happens. The error of the work is told first.
/// The process ends next.
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
    if done.is_err() {
        session.note_missing_inodes();
    }
    let finished = finish(session);
    match (done, finished) {
        (Ok(value), finished) => finished.map(|()| value),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(second)) => {
            if let Some(text) = second.message() {
                warn(text);
            }
            Err(error)
        }
    }
}
