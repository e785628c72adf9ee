// SPDX-License-Identifier: GPL-2.0-only
//! A kernel in this process: boot and halt.

use crate::file_systems::driver;
use crate::kernel_files::{make_directory, make_home, read_text, write_text, HOME};
use crate::log::Level;
use crate::readiness::BridgePlace;
use crate::{Component, Fd, KernelError, System};
use outboard_sys::kernel as sys;
use outboard_sys::{EmptyInstance, HaltHook, Instance};
use std::ffi::CString;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

pub use sys::{option, profile, release, version};

/// Open files that the kernel shall allow this process.
const FILE_LIMIT: u64 = 1 << 20;

/// Says how a kernel shall be booted.
#[derive(Default)]
pub struct Builder {
    config: sys::Config,
    prepared: Option<EmptyInstance>,
}

impl Builder {
    /// Virtual CPUs, 1 to 64. Default: as many as the host has.
    pub fn vcpus(mut self, vcpus: u32) -> Self {
        self.config.vcpus = vcpus;
        self
    }

    /// Most bytes of memory that the kernel may use. Default: a quarter of the host's, or half of
    /// what the memory limits of cgroups leave.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.config.memory = bytes;
        self
    }

    /// Added to the kernel's command line.
    pub fn command_line(mut self, line: CString) -> Self {
        self.config.command_line = Some(line);
        self
    }

    /// Loads components before anything else: names or aliases, separated by spaces.
    pub fn components(mut self, names: CString) -> Self {
        self.config.components = Some(names);
        self
    }

    /// A directory of snapshots, which must be the user's alone. The kernel starts from a snapshot
    /// of its configuration; without one it boots and leaves one. [`Kernel::snapshot_status`] says
    /// which of these it did.
    pub fn snapshots(mut self, directory: CString) -> Self {
        self.config.snapshots = Some(directory);
        self
    }

    /// Hands lines of the kernel's log, of this level and more important ones, to a
    /// function. It runs on any thread, possibly inside the kernel: it must not
    /// block, allocate, or use the kernel. [`crate::LogRing`] keeps these rules.
    /// Default: standard error, with the level that `OUTBOARD_LOG` says.
    pub fn log(mut self, level: Level, log: impl Fn(Level, &[u8]) + Send + Sync + 'static) -> Self {
        self.config.log_level = Some(level as u8);
        self.config.log = Some(Box::new(move |number, line| {
            log(Level::from_number(number), line)
        }));
        self
    }

    /// Hands the text of a kernel panic, in lines, to a function instead of standard error. It
    /// keeps the rules of [`Builder::log`], and may end the process by [`crate::end_at_once`]. When
    /// it returns, the process ends by abort(3), unless [`Builder::contain_panic`] was called.
    pub fn panic(mut self, panic: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        self.config.panic = Some(Box::new(panic));
        self
    }

    /// The file of a kernel image, as the build leaves it. Default: the one that is part of the
    /// library.
    pub fn image(mut self, file: CString) -> Self {
        self.config.image = Some(file);
        self
    }

    /// A panic ends this kernel, not the process: its calls fail with [`KernelError::Panicked`]
    /// from then on. Threads that are in a call stay there for ever. The kernel keeps its memory,
    /// the locks of its disks, and its place among those that a process can have.
    pub fn contain_panic(mut self) -> Self {
        self.config.contain_panic = true;
        self
    }

    /// Other processes may map the kernel's memory, as interfaces of the kind vhost-user need it
    /// ([`needs_shared_memory`](crate::needs_shared_memory)). Such a kernel uses no snapshot, and
    /// returns no memory to the host until it halts.
    pub fn shared_memory(mut self) -> Self {
        self.config.shared_memory = true;
        self
    }

    /// Interfaces that a snapshot has in advance, at most 32: `eth0`, `eth1` and so on, down. A
    /// hub's port without a given MTU takes the first one that is left, and is ready sooner. Loads
    /// the component virtio_net. Settings that interfaces inherit belong into
    /// [`Builder::command_line`]: `sysctl.net.ipv6.conf.default.accept_dad=0`. Without a snapshot
    /// there are none.
    pub fn spare_interfaces(mut self, count: u32) -> Self {
        self.config.spare_interfaces = count;
        self
    }

    /// For programs that sandbox themselves before they boot: asks the host now for what it may
    /// refuse later. The kernel does without what the host refuses. Blocks for some tenths of a
    /// millisecond.
    pub fn prepare(self) -> Self {
        self.prepare_by(EmptyInstance::prepare)
    }

    /// The same for a kernel that will run [programs](Kernel::command).
    pub fn prepare_programs(self) -> Self {
        self.prepare_by(EmptyInstance::prepare_programs)
    }

    fn prepare_by(mut self, prepare: impl FnMut(&EmptyInstance)) -> Self {
        // Without a handle the boot fails, and tells why.
        self.prepared = EmptyInstance::new().ok();
        self.prepared.iter().for_each(prepare);
        self
    }

    /// Boots the kernel. [`KernelError::TooMany`] if this process has as many as it can.
    pub fn boot(self) -> io::Result<Kernel> {
        let empty = self.prepared.map_or_else(EmptyInstance::new, Ok)?;
        let kernel = Kernel::of_instance(empty.boot(self.config)?);
        prepare(kernel.system());
        Ok(kernel)
    }
}

/// Settings of the first thread, which later ones inherit.
fn prepare(system: &System) {
    system.umask(0);
    // More open files only make deep trees possible; the default works otherwise.
    let _ = system.raise_file_limit(FILE_LIMIT);
}

pub(crate) struct SharedKernel {
    instance: Instance,
    /// The same, for calls.
    system: System,
    mounts: AtomicU32,
    /// Reports when sockets become ready.
    pub(crate) bridge: BridgePlace,
}

impl SharedKernel {
    /// A directory for a new mount, not used before.
    pub(crate) fn mount_directory(&self) -> io::Result<CString> {
        make_home(&self.system)?;
        let number = self.mounts.fetch_add(1, Ordering::Relaxed);
        let path = CString::new(format!("{HOME}/{number}"))?;
        make_directory(&Fd::working_directory(&self.system), &path)?;
        Ok(path)
    }
}

impl Drop for SharedKernel {
    fn drop(&mut self) {
        if !self.instance.is_borrowed() {
            // It was halted, or nobody is there to learn of an error.
            let _ = self.instance.halt();
        }
    }
}

/// A kernel in this process. It stops when the last handle is dropped: those of
/// its disks and mounts count too, those of files do not. Dropping ignores errors; [`Kernel::halt`]
/// tells them.
///
/// A clone is the same kernel. An object of one kernel works with that kernel only: another one
/// returns EXDEV.
#[derive(Clone)]
pub struct Kernel {
    pub(crate) shared: Arc<SharedKernel>,
}

impl Kernel {
    /// How a kernel is to be booted.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The kernel of an instance. A borrowed one does not halt when the last handle is dropped.
    #[doc(hidden)]
    pub fn of_instance(instance: Instance) -> Self {
        Self {
            shared: Arc::new(SharedKernel {
                system: System::Kernel(instance.clone()),
                instance,
                mounts: AtomicU32::new(0),
                bridge: BridgePlace::default(),
            }),
        }
    }

    pub(crate) fn instance(&self) -> &Instance {
        &self.shared.instance
    }

    /// The target of its system calls.
    pub fn system(&self) -> &System {
        &self.shared.system
    }

    /// Whether the kernel takes calls, and if not, why. Calls on its files, disks and mounts fail
    /// with the same [`KernelError`].
    pub fn check(&self) -> Result<(), KernelError> {
        self.instance().check()
    }

    /// How its boot used the snapshot.
    pub fn snapshot_status(&self) -> String {
        self.instance().snapshot_status()
    }

    /// Loads a component by its name or an alias, and what it needs, with parameters as in
    /// `"name=value"`. Linux does this by itself when a file system is mounted or a socket opened.
    pub fn load_component(&self, name: &str, parameters: &str) -> io::Result<()> {
        self.instance().load_component(name, parameters)
    }

    /// Loads a module that was built for this kernel (`make modules M=DIRECTORY`) from a file.
    pub fn load_component_file(&self, path: &Path, parameters: &str) -> io::Result<()> {
        self.instance().load_component_file(path, parameters)
    }

    /// Unloads a component. An error while it is in use.
    pub fn unload_component(&self, name: &str) -> io::Result<()> {
        self.instance().unload_component(name)
    }

    /// As [`crate::components`], with what is loaded in this kernel; then the loaded ones that did
    /// not come with the library.
    pub fn components(&self) -> io::Result<Vec<Component>> {
        self.instance().components()
    }

    /// From now on, files that the calling thread makes belong to this user and group and do not
    /// get the permissions of the mask, except where their directory has a default ACL.
    pub fn make_files_as(&self, user: u32, group: u32, umask: u32) -> io::Result<()> {
        self.instance().make_files_as(user, group, umask)
    }

    /// From now on, the calling thread changes data as a member of this group does. `privileged`:
    /// set-user-ID and set-group-ID bits stay.
    pub fn change_files_as(&self, group: u32, privileged: bool) -> io::Result<()> {
        self.instance().change_files_as(group, privileged)
    }

    /// Whether later changes of files by the calling thread keep their set-user-ID and set-group-ID
    /// bits, as changes by a privileged thread do.
    pub fn keep_set_id(&self, keep: bool) -> io::Result<()> {
        self.instance().keep_set_id(keep)
    }

    /// Whether a type of file system, as in "ext4", is part of this kernel. Loads it if it is.
    pub fn has_file_system(&self, kind: &str) -> bool {
        // Without a component of that name it may be built in.
        let _ = self.load_component(&format!("fs-{kind}"), "");
        self.file_systems()
            .is_ok_and(|kinds| kinds.iter().any(|name| name == kind))
    }

    /// Whether a type of file system lies on no device, as tmpfs. Loads it if it is part of this
    /// kernel.
    pub fn needs_no_device(&self, kind: &str) -> bool {
        let _ = self.load_component(&format!("fs-{kind}"), "");
        let line = format!("nodev\t{kind}");
        read_text(self.system(), c"/proc/filesystems")
            .is_ok_and(|text| text.lines().any(|known| known == line))
    }

    /// Whether a driver for this type of file system, as a probe names it, is loaded now.
    pub fn has_driver(&self, kind: &str) -> bool {
        let wanted = driver(kind);
        read_text(self.system(), c"/proc/filesystems").is_ok_and(|text| {
            let mut names = text.lines().filter_map(|line| line.split('\t').nth(1));
            names.any(|name| name == wanted)
        })
    }

    /// The types of file systems on disks that are loaded now.
    pub fn file_systems(&self) -> io::Result<Vec<String>> {
        let text = read_text(self.system(), c"/proc/filesystems")?;
        Ok(text
            .lines()
            .filter_map(|line| line.strip_prefix('\t'))
            .map(str::to_owned)
            .collect())
    }

    /// The number of the calling thread in this kernel, for [`Kernel::interrupt`].
    pub fn thread(&self) -> io::Result<i32> {
        self.system().thread()
    }

    /// Does work on a thread whose root is the kernel's first one, whatever the program has done by
    /// chroot(2). Blocks until it is done.
    #[doc(hidden)]
    pub fn in_first_root<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let enter_and_work = || self.system().enter_first_root().map(|()| work());
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, enter_and_work)?;
            let panicked = |_| io::Error::other("a mistake: the thread has panicked");
            thread.join().map_err(panicked)?
        })
    }

    /// The function runs whenever the kernel is about to halt, and still takes calls, on the thread
    /// that halts it, until the result is dropped. `EAGAIN`: this process has too many libraries
    /// that ask for such calls.
    #[doc(hidden)]
    pub fn before_halt(&self, function: impl Fn() + Send + Sync + 'static) -> io::Result<HaltHook> {
        self.instance().before_halt(function)
    }

    /// Ends the blocked call of another thread early, or its next one that would block: the call
    /// fails with `EINTR`, as if by a signal. Calls on files begin again; calls on sockets return
    /// the error. [`crate::Cancel`] ends both, and loops that repeat such a call.
    /// Does not block. `EAGAIN`: 64 interrupts are on their way.
    pub fn interrupt(&self, thread: i32) -> io::Result<()> {
        self.instance().interrupt(thread)
    }

    /// Unmounts everything, writes everything to the disks and stops. Later calls to this kernel
    /// fail with [`KernelError::Halted`], in every thread. `EBUSY`: something could not be
    /// unmounted (it was synced); `EIO`: something could not be written; [`KernelError`]: there is
    /// no kernel to halt.
    pub fn halt(self) -> io::Result<()> {
        self.instance().halt()
    }
}

/// `InvalidInput`: the host's memory is the host's affair.
fn check_is_not_host(system: &System) -> io::Result<()> {
    match system {
        System::Host => Err(io::ErrorKind::InvalidInput.into()),
        System::Kernel(_) => Ok(()),
    }
}

/// Has a kernel give up what it remembers of files that nobody has open: names, inodes, and pages
/// that are written. By itself it does so only when its memory cannot grow any more.
pub fn forget_unused(system: &System) -> io::Result<()> {
    check_is_not_host(system)?;
    let caches = "/proc/sys/vm/drop_caches";
    // Not a line in the log each time.
    write_text(system, caches, "4")?;
    // A journal holds the disk's pages until its own objects are given up; a file's inode stays
    // until its pages are.
    write_text(system, caches, "2")?;
    write_text(system, caches, "3")
}

/// The kernel's caches of files, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Pages of files; with btrfs, of its own blocks too.
    pub contents: u64,
    /// Pages of disks; names, inodes and all other objects.
    pub other: u64,
}

/// Reads the size of a kernel's caches of files.
pub fn remembered(system: &System) -> io::Result<Remembered> {
    let bytes = memory_information(system)?;
    Ok(Remembered {
        contents: bytes("Cached:"),
        other: bytes("Buffers:") + bytes("Slab:"),
    })
}

/// Bytes of memory that a kernel, its programs and cached files have. Memory that is neither theirs
/// nor free was not taken from the host.
pub fn memory_in_use(system: &System) -> io::Result<u64> {
    let bytes = memory_information(system)?;
    let uses = [
        "AnonPages:",
        "Buffers:",
        "Cached:",
        "KernelStack:",
        "PageTables:",
        "Percpu:",
        "Slab:",
        "VmallocUsed:",
    ];
    Ok(uses.into_iter().map(bytes).sum())
}

/// The user of a process of a kernel, by the process's number.
pub fn process_user(system: &System, number: i32) -> io::Result<u32> {
    check_is_not_host(system)?;
    let path = CString::new(format!("/proc/{number}/status"))?;
    let text = read_text(system, &path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"));
    // The effective one comes second.
    let user = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    user.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Bytes by their names in /proc/meminfo of a kernel, with the colon.
fn memory_information(system: &System) -> io::Result<impl Fn(&str) -> u64> {
    check_is_not_host(system)?;
    let text = read_text(system, c"/proc/meminfo")?;
    Ok(move |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        let number = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse().ok());
        number.map_or(0, |kilobytes: u64| kilobytes << 10)
    })
}
