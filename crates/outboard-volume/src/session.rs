// SPDX-License-Identifier: GPL-2.0-only
//! One run of the kernel: boots it when it is needed, mounts each file system once,
//! and at the end writes and unmounts everything.

mod apart;
mod devices;
mod layered;
mod used;

use crate::address::{ImageName, Place};
use crate::containers::Content;
use crate::destination::UsedFiles;
use crate::held::{HeldImage, HeldImages};
use crate::image::{FileSystem, Image};
use crate::image_file::{cannot_open, cannot_write};
use crate::image_lock;
use crate::layers::keys::Keys;
use crate::limits::kernel_memory;
use crate::options::Options;
use crate::scratch::directory_of;
use crate::snapshots;
use crate::warnings;
pub use apart::{apart, start_apart};
pub use devices::Wanted;
use layered::OpenStack;
use outboard::image::{Probe, State};
use outboard::{
    component_of, BlockDevice, Builder, Disk, DiskOptions, Fd, FileLock, Kernel, Level, LogRing,
    Mount, MountOptions, Space, Storage, System, Tree,
};
use outboard_sandbox::crash::{self, plain_line, Advice};
use outboard_sandbox::error::{reason, warn, Error, Result};
use outboard_sandbox::format::{escaped, size as size_text};
use outboard_sandbox::interrupt::{Guard, Interrupt};
use outboard_sandbox::{HostAccess, Sandbox};
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::forget;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// vCPUs beyond this do not make copying faster.
const USEFUL_VCPUS: u32 = 4;
/// Places in the kernel's tables of names and inodes. By itself it makes them for the little memory that it begins with,
/// and with ten thousand files looks through tens of them for each.
const TABLES: &CStr = c"dhash_entries=16384 ihash_entries=8192";
/// What its log says of a disk that the host has no room for (block/blk-mq.c), before the disk's name.
const NO_ROOM: &str = "critical space allocation error, dev ";
/// Bytes that are free where inodes are what is missing. XFS counts inodes by the space that is
/// left for them.
const MUCH_ROOM: u64 = 1 << 20;
/// Lines of the kernel's log that an error message may have.
const LINES: usize = 4;

/// Which tree a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeId {
    Host,
    Mount(usize),
}

struct OpenDisk {
    image: Image,
    writable: bool,
    disk: Disk,
    /// Given back after the disk.
    _locks: Vec<FileLock>,
    /// A written file system has to be unmounted.
    _guard: Option<Guard>,
}

impl OpenDisk {
    /// Returns what was lost, in words, of what the kernel did not flush itself.
    fn flush(&self) -> Option<String> {
        if !self.writable {
            return None;
        }
        let error = self.image.content.flush().err()?;
        Some(format!(
            "{}: not everything was written: {}",
            self.image.shown(),
            reason(&error)
        ))
    }
}

/// What is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Disk {
        disk: usize,
        partition: Option<u32>,
    },
    /// A node of a stack. `subvolume`: its number, where it is not the file system's usual one.
    Node {
        stack: usize,
        node: usize,
        subvolume: Option<u64>,
    },
}

impl Origin {
    /// Whether it is in a disk, or in a stack that the disk is in.
    fn is_in(&self, its_disk: usize, its_stack: Option<usize>) -> bool {
        match self {
            Origin::Disk { disk, .. } => *disk == its_disk,
            Origin::Node { stack, .. } => Some(*stack) == its_stack,
        }
    }
}

struct Mounted {
    name: String,
    origin: Origin,
    mount: Mount,
}

impl Mounted {
    fn is_written(&self) -> bool {
        !self.mount.is_read_only()
    }

    /// Returns what was lost, in words.
    fn unmount(self) -> Option<String> {
        let reader = self.mount.is_read_only();
        let error = self.mount.unmount().err().filter(|_| !reader)?;
        Some(format!(
            "{}: not everything was written: {}",
            self.name,
            reason(&error)
        ))
    }
}

/// How file systems are mounted besides what the options say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Whose files are, where a file system keeps no owners.
    pub user: Option<u32>,
    pub group: Option<u32>,
    /// Permissions that files lack there.
    pub mask: Option<u32>,
    /// Each change is on stable storage when its call returns: all of them, or those of directories.
    pub synchronous: bool,
    pub synchronous_directories: bool,
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

/// The level that the environment's OUTBOARD_LOG asks for.
fn level_from_environment() -> Option<u8> {
    const NAMES: [&str; 8] = [
        "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
    ];
    let wish = std::env::var("OUTBOARD_LOG").ok()?;
    let by_name = NAMES.iter().position(|name| *name == wish);
    by_name
        .map(|level| level as u8)
        .or_else(|| wish.parse().ok())
        .filter(|level| *level < 8)
}

/// Writes a line of the kernel's log at once.
fn write_line(stderr: &Fd, line: &[u8]) {
    let (text, length) = plain_line(line);
    // There is nobody to tell of an error here.
    let _ = stderr.write_all(&text[..length]);
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

    /// Boots the kernel for a file system of this type, or finds it booted.
    fn kernel(&mut self, kind: Option<&str>) -> Result<Kernel> {
        if let Some(kernel) = &self.kernel {
            return Ok(kernel.clone());
        }
        assert!(!self.outside, "the kernel runs in the sandbox only");
        let shown = match self.options.verbose {
            0 => level_from_environment(),
            1 => Some(Level::Info as u8),
            _ => Some(Level::Debug as u8),
        };
        let ring = Arc::clone(&self.log);
        let standard_error =
            || Fd::standard(2).map_err(|error| Error::failed("cannot use standard error", &error));
        let (stderr, last_words) = (standard_error()?, standard_error()?);
        let advice = Arc::clone(&self.advice);
        let log = move |level: Level, line: &[u8]| {
            ring.push(level, line);
            let (text, length) = plain_line(line);
            warnings::note(level, &text[..length]);
            if shown.is_some_and(|most| level as u8 <= most) {
                write_line(&stderr, line);
            }
        };
        let level = match shown {
            Some(most) if most >= Level::Debug as u8 => Level::Debug,
            Some(most) if most > Level::Warning as u8 => Level::Info,
            _ => Level::Warning,
        };
        let mut builder = std::mem::take(&mut self.builder)
            .vcpus(self.vcpus())
            .memory(self.options.memory.unwrap_or(self.memory))
            .command_line(TABLES.to_owned())
            .log(level, log)
            .panic(move |text| crash::end(&last_words, &advice, text));
        if let Some(directory) = &self.snapshots {
            let directory = CString::new(directory.as_os_str().as_bytes());
            builder = builder.snapshots(directory.expect("a path that exists"));
            // A snapshot has the driver in it.
            if let Some(name) = kind.and_then(component_of) {
                builder = builder.components(CString::new(name).expect("a module's name"));
            }
        }
        let kernel = builder
            .boot()
            .map_err(|error| Error::failed("cannot start the kernel", &error))?;
        self.kernel = Some(kernel.clone());
        for file in &self.options.components {
            let shown = file.display();
            kernel
                .load_component_file(file, "")
                .map_err(|error| Error::failed(format!("cannot load {shown}"), &error))?;
        }
        self.sandbox.close()?;
        Ok(kernel)
    }

    /// The tree that a place is in; mounts its file system if that was not done before.
    pub fn open(&mut self, place: &Place, write: bool) -> Result<TreeId> {
        match place {
            Place::Host(_) => Ok(TreeId::Host),
            Place::Image(name, _) => self.mount(name, write).map(TreeId::Mount),
        }
    }

    pub fn tree(&self, id: TreeId) -> &Tree {
        match id {
            TreeId::Host => &self.host,
            TreeId::Mount(index) => self.mounted(index),
        }
    }

    pub fn mounted(&self, index: usize) -> &Mount {
        let slot = self.mounts[index].as_ref();
        &slot.expect("a mount of a disk that was not released").mount
    }

    /// Boots the kernel and gives it the disk that a name means: after that nothing of the host is looked up by its name to mount it.
    pub fn prepare(&mut self, name: &ImageName, write: bool) -> Result<()> {
        if write {
            self.may_write(&name.shown())?;
        }
        self.disk(name, write).map(drop)
    }

    /// Mounts the file system that a name means, or finds it mounted.
    pub fn mount(&mut self, name: &ImageName, write: bool) -> Result<usize> {
        if write {
            self.may_write(&name.shown())?;
        }
        let disk = self.disk(name, write)?;
        if self.is_layered(&self.open_disk(disk).image, name) {
            return self.mount_layered(name, disk, write);
        }
        let forced = self.options.kind.is_some();
        let found = self.open_disk(disk).image.find(name, forced)?;
        if let (None, Some(number)) = (name.partition, found.partition) {
            self.note(format!(
                "note: {} has partitions; the only one with a file system is {0}@{number}",
                name.shown()
            ));
        }
        let origin = Origin::Disk {
            disk,
            partition: found.partition,
        };
        if let Some(index) = self.find_mount(origin, write) {
            return Ok(index);
        }
        let mount = self.mount_found(name, disk, &found, write)?;
        Ok(self.add_mount(name.shown(), origin, mount))
    }

    /// What is mounted already. What was mounted for reading is given up if it is to be written: what [`Session::open`]
    /// returned for it is void.
    fn find_mount(&mut self, origin: Origin, write: bool) -> Option<usize> {
        let same = |slot: &Option<Mounted>| {
            slot.as_ref()
                .is_some_and(|mounted| mounted.origin == origin)
        };
        let index = self.mounts.iter().position(same)?;
        let reader = self.mounted(index).is_read_only();
        if !write || !reader {
            return Some(index);
        }
        // Nothing was written, so nothing can be lost.
        self.mounts[index].take().and_then(Mounted::unmount);
        None
    }

    fn add_mount(&mut self, name: String, origin: Origin, mount: Mount) -> usize {
        self.mounts.push(Some(Mounted {
            name,
            origin,
            mount,
        }));
        self.mounts.len() - 1
    }

    /// Explains errors of file systems that have room left, but for no further file: the error
    /// itself only tells of no space.
    pub fn note_missing_inodes(&mut self) {
        let full = |mounted: &Mounted| {
            let space = mounted.mount.space().ok()?;
            let writable = !mounted.mount.is_read_only();
            (space.lacks_inodes(MUCH_ROOM) && writable).then(|| {
                format!(
                    "note: {} has no inodes left: all {} are in use, though {} are free (remove files, or make it again with more: outboard mkfs ... -- -N NUMBER)",
                    mounted.name,
                    space.files,
                    size_text(space.available)
                )
            })
        };
        let notes: Vec<String> = self.mounts.iter().flatten().filter_map(full).collect();
        notes.into_iter().for_each(|note| self.note(note));
    }

    /// The same for the host's file systems on which a command makes files: `paths` are the
    /// places that it writes, and the images.
    pub fn note_missing_host_inodes(&mut self, paths: &[&Path]) {
        for path in paths {
            let directory = match path.is_dir() {
                true => path,
                false => directory_of(path),
            };
            let found = Tree::host().open_fd(directory, libc::O_PATH, 0);
            let Ok(space) = found.and_then(|directory| Space::of(&directory)) else {
                continue;
            };
            if space.lacks_inodes(MUCH_ROOM) {
                self.note(format!(
                    "note: the host's file system of {} has no inodes left: all {} are in use, though {} are free (remove files there)",
                    escaped(directory.as_os_str().as_bytes()),
                    space.files,
                    size_text(space.available)
                ));
            }
        }
    }

    /// Says something once.
    fn note(&mut self, note: String) {
        if self.noted.insert(note.clone()) {
            warn(note);
        }
    }

    fn open_disk(&self, index: usize) -> &OpenDisk {
        let slot = self.disks[index].as_ref();
        slot.expect("a disk that was not released")
    }

    /// Unmounts what is mounted of an image and takes it from the kernel, so that it can be
    /// opened in another way. What [`Session::open`] returned for it is void.
    pub fn release(&mut self, image: &Image) -> Result<()> {
        let same = |slot: &Option<OpenDisk>| {
            slot.as_ref()
                .is_some_and(|open| open.image.identity == image.identity)
        };
        match self.disks.iter().position(same) {
            Some(disk) => self.release_disk(disk),
            None => Ok(()),
        }
    }

    /// Unmounts written file systems: a signal that comes now leaves them clean. Layers stay open,
    /// since to open them again can take seconds.
    pub fn settle(&mut self) -> Result<()> {
        let is_written = |(number, slot): (usize, &Option<OpenDisk>)| {
            let written = slot.as_ref().is_some_and(|open| open.writable);
            written.then_some(number)
        };
        let disks = self.disks.iter().enumerate();
        let written: Vec<usize> = disks.filter_map(is_written).collect();
        let mut done = Ok(());
        for disk in written {
            let settled = match self.stack_with(disk) {
                Some(_) => {
                    let position = self.log.position();
                    let mut problems = self.unmount_all_of(disk, Mounted::is_written);
                    problems.extend(self.open_disk(disk).flush());
                    self.told(problems, position)
                }
                None => self.release_disk(disk),
            };
            done = done.and(settled);
        }
        done.and(self.sync())
    }

    /// Unmounts the mounts of a disk that `chosen` picks, also inside of layers. Returns what was
    /// lost.
    fn unmount_all_of(&mut self, disk: usize, chosen: impl Fn(&Mounted) -> bool) -> Vec<String> {
        let stack = self.stack_with(disk);
        let mut problems = Vec::new();
        for slot in &mut self.mounts {
            let gone = |mounted: &Mounted| mounted.origin.is_in(disk, stack) && chosen(mounted);
            if slot.as_ref().is_some_and(gone) {
                problems.extend(slot.take().and_then(Mounted::unmount));
            }
        }
        problems
    }

    fn release_disk(&mut self, disk: usize) -> Result<()> {
        let position = self.log.position();
        let mut problems = self.unmount_all_of(disk, |_| true);
        if let Some(stack) = self.stack_with(disk) {
            let closed = self.stacks[stack].take();
            problems.extend(closed.iter().flat_map(OpenStack::lost_snapshots));
        }
        let open = self.disks[disk].take();
        problems.extend(open.as_ref().and_then(OpenDisk::flush));
        self.told(problems, position)
    }

    /// Looks at the beginning of an image.
    pub fn image(&self, path: &Path) -> Result<Image> {
        self.with_held(path, false, |held| {
            let failed = |error: io::Error| cannot_open(path, &error);
            let identity = held.identity().map_err(failed)?;
            // What a disk has written is seen by those who look through the same object.
            let same = |open: &&OpenDisk| open.image.identity == identity;
            let content = match self.disks.iter().flatten().find(same) {
                Some(open) => Arc::clone(&open.image.content),
                None => Arc::new(held.content(false).map_err(failed)?),
            };
            Image::new(path, identity, held.format(), content, held.split())
        })
    }

    /// Works with an image that was opened before, or is now.
    fn with_held<T>(&self, path: &Path, write: bool, work: impl FnOnce(&HeldImage) -> T) -> T {
        match self.held.find(path) {
            Some(held) => work(held),
            None => work(&HeldImage::open(path, write, &self.options.image_options())),
        }
    }

    /// The disk in an image as the kernel shall get it, and locks on what it is made of.
    fn content(
        &self,
        image: &Image,
        path: &Path,
        write: bool,
    ) -> Result<(Arc<Content>, Vec<FileLock>)> {
        self.with_held(path, write, |held| {
            let failed = |error: io::Error| match error.raw_os_error() {
                Some(libc::EBUSY) => held.in_use(write),
                _ => cannot_write(path, &error),
            };
            if !write {
                let locks = held.lock(false).map_err(failed)?;
                return Ok((Arc::clone(&image.content), locks));
            }
            held.writable().map_err(failed)?;
            let locks = held.lock(true).map_err(failed)?;
            Ok((Arc::new(held.content(true).map_err(failed)?), locks))
        })
    }

    /// Gives the disk in an image another size. No kernel may have it.
    pub fn set_image_size(&self, path: &Path, size: u64) -> Result<()> {
        self.with_held(path, true, |held| {
            held.writable()
                .map_err(|error| cannot_write(path, &error))?;
            let set = || -> io::Result<()> {
                let _locks = held.lock(true)?;
                held.check_locked(true)?;
                held.set_size(size)
            };
            set().map_err(|error| match error.raw_os_error() {
                Some(libc::EBUSY) => held.in_use(true),
                _ => {
                    let text = format!("cannot make {} {}", path.display(), size_text(size));
                    Error::failed(text, &error)
                }
            })
        })
    }

    /// Adds a disk to the kernel, or finds it added.
    fn disk(&mut self, name: &ImageName, write: bool) -> Result<usize> {
        let image = self.image(&name.file)?;
        if let Some(index) = self.find_disk(&image, write) {
            return Ok(index);
        }
        self.note_use(&name.file, &image);
        // An earlier command may have opened it for reading.
        self.release(&image)?;
        // What cannot be mounted is told before a kernel is started for it.
        let kind = match self.is_layered(&image, name) {
            true => None,
            false => {
                let found = image.find(name, self.options.kind.is_some())?;
                found.probe.map(|probe| probe.kind)
            }
        };
        self.add_disk(image, &name.file, write, kind)
    }

    fn find_disk(&self, image: &Image, write: bool) -> Option<usize> {
        let good = |slot: &Option<OpenDisk>| {
            slot.as_ref().is_some_and(|open| {
                open.image.identity == image.identity && (open.writable || !write)
            })
        };
        self.disks.iter().position(good)
    }

    /// `kind`: the type of the file system on it, if it has one only.
    fn add_disk(
        &mut self,
        mut image: Image,
        file: &Path,
        write: bool,
        kind: Option<&str>,
    ) -> Result<usize> {
        let (content, locks) = self.content(&image, file, write)?;
        image.content = Arc::clone(&content);
        let mut options = if write {
            DiskOptions::read_write()
        } else {
            DiskOptions::read_only()
        };
        if image_lock::is_ours(image.identity) {
            options = options.without_lock();
        }
        let kernel = self.kernel(kind)?;
        let guard = write.then(Guard::new);
        let added = match &*content {
            Content::File(file) => kernel.add_disk(&file.path(), options),
            Content::Served(disk) => {
                kernel.add_served_disk(Arc::clone(disk) as Arc<dyn Storage>, options)
            }
        };
        let disk = added.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => self.with_held(file, write, |held| held.in_use(write)),
            _ => Error::failed(format!("cannot open image {}", file.display()), &error),
        })?;
        // The lock may have been somebody else's when the image was opened.
        self.with_held(file, write, |held| held.check_locked(write))
            .map_err(|error| cannot_open(file, &error))?;
        self.disks.push(Some(OpenDisk {
            image,
            writable: write,
            disk,
            _locks: locks,
            _guard: guard,
        }));
        Ok(self.disks.len() - 1)
    }

    fn device(&self, name: &ImageName, disk: usize, partition: Option<u32>) -> Result<BlockDevice> {
        self.open_disk(disk)
            .disk
            .device(partition)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::ENXIO) => Error::Failed(format!(
                    "{}: the kernel does not find this partition",
                    name.shown()
                )),
                _ => Error::failed(format!("cannot use {}", name.shown()), &error),
            })
    }

    fn mount_found(
        &self,
        name: &ImageName,
        disk: usize,
        found: &FileSystem,
        write: bool,
    ) -> Result<Mount> {
        let device = self.device(name, disk, found.partition)?;
        let probed = found.probe.as_ref();
        let cut = || self.open_disk(disk).image.truncation(found);
        self.mount_device(&name.shown(), &device, probed, "", write, cut)
    }

    /// Mounts what is on a block device. `probed`: what a probe has found; `options`: of the file
    /// system; `cut`: tells what is missing of it.
    fn mount_device(
        &self,
        shown: &str,
        device: &BlockDevice,
        probed: Option<&Probe>,
        options: &str,
        write: bool,
        cut: impl Fn() -> Option<String>,
    ) -> Result<Mount> {
        let kind = match (&self.options.kind, probed) {
            (Some(kind), _) => kind.clone(),
            (None, Some(found)) => found.kind.to_owned(),
            (None, None) => return Err(Error::Failed(format!("{shown}: unknown file system"))),
        };
        let style = self.style;
        let mut options = MountOptions::default()
            .read_only(!write)
            .owner(style.user, style.group)
            .mask(style.mask)
            .synchronous(style.synchronous)
            .synchronous_directories(style.synchronous_directories)
            .options(options);
        if self.options.kind.is_some() {
            options = options.kind(&kind);
        } else if let Some(found) = probed {
            options = options.probed(found);
        }
        self.advice.add(shown, write);
        let position = self.log.position();
        let mount = device.mount(&options).map_err(|error| {
            // A journal that was not replayed, for one.
            let unclean = device.probe().ok().flatten().filter(|_| write);
            let state = unclean.map_or(State::Unknown, |found| found.state);
            self.explain(shown, &kind, &error, position, state, cut())
        })?;
        if mount.journal_ignored() {
            warn(format!(
                "{shown}: not left well, and opened without replaying its journal: what was written last may be missing"
            ));
        }
        if write && mount.is_read_only() {
            return Err(Error::Failed(format!(
                "cannot write to {shown}: its file system ({kind}) is read-only{}",
                self.kernel_lines(position)
            )));
        }
        Ok(mount)
    }

    fn explain(
        &self,
        shown: &str,
        kind: &str,
        error: &io::Error,
        position: usize,
        state: State,
        cut: Option<String>,
    ) -> Error {
        let text = match error.raw_os_error() {
            Some(libc::EINVAL) if matches!(state, State::Unclean(_)) => {
                format!("not clean: run outboard fsck -y {shown}")
            }
            Some(libc::ENODEV) => {
                format!("this outboard has no driver for file systems of type {kind}")
            }
            Some(libc::ENOTBLK) => {
                "file systems of this type lie on no device: nothing of the image would be read or written (leave --type out, or name another type)".to_owned()
            }
            Some(libc::EROFS | libc::EACCES) if !self.options.read_only => {
                "read-only file system: this type can only be read, or it was not left well"
                    .to_owned()
            }
            _ => reason(error),
        };
        let cut = cut.map_or(String::new(), |text| format!("; {text}"));
        Error::Failed(format!(
            "{shown}: cannot mount as {kind}: {text}{cut}{}",
            self.kernel_lines(position)
        ))
    }

    /// What the kernel had to say since a position of its log.
    fn kernel_lines(&self, position: usize) -> String {
        let lines = self.log.since(position, Level::Warning);
        lines
            .iter()
            .take(LINES)
            .map(|line| without_time(line).trim_end())
            .map(|line| format!("\n  kernel: {}", escaped(line.as_bytes())))
            .collect()
    }

    /// Writes everything that was written so far to stable storage.
    pub fn sync(&self) -> Result<()> {
        let position = self.log.position();
        let problem = |mounted: &Mounted| {
            let error = mounted.mount.sync().err()?;
            let why = reason(&error);
            Some(format!(
                "{}: not everything was written: {why}",
                mounted.name
            ))
        };
        let written = self.mounts.iter().flatten();
        let problems = written
            .filter(|mounted| !mounted.mount.is_read_only())
            .filter_map(problem)
            .collect();
        self.told(problems, position)
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

    /// The images that the host had no room for, in words. File systems tell of that as of any error of a disk.
    fn full_disks(&self) -> String {
        let lines = self.log.since(0, Level::Warning);
        let is_full = |open: &&OpenDisk| {
            let text = format!("{NO_ROOM}{}, ", open.disk.name());
            lines.iter().any(|line| line.contains(&text))
        };
        let full = self.disks.iter().flatten().filter(is_full);
        full.map(|open| {
            format!(
                "\n  {}: no space left on the host's file system",
                open.image.shown()
            )
        })
        .collect()
    }

    fn told(&self, problems: Vec<String>, position: usize) -> Result<()> {
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "{}{}{}",
            problems.join("\n  "),
            self.full_disks(),
            self.kernel_lines(position)
        )))
    }
}

/// A line of the kernel's log without the time that stands before it in brackets.
fn without_time(line: &str) -> &str {
    match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((time, text)) if time.trim_start().parse::<f64>().is_ok() => text,
        _ => line,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_lose_their_time() {
        assert_eq!(without_time("[    0.022465] ufs: bad"), "ufs: bad");
        assert_eq!(without_time("[vda] x"), "[vda] x");
        assert_eq!(without_time("plain"), "plain");
    }
}
