// SPDX-License-Identifier: GPL-2.0-only
//! A root directory for programs: what a volume has, and what programs expect of a running system.
//!
//! | at | comes from |
//! |---|---|
//! | / | the volume; if it is mounted read-only, under a layer in memory that takes all changes |
//! | /proc, /sys, /sys/fs/cgroup, /dev/pts | the kernel |
//! | /dev, /tmp, /run, /dev/shm | memory |
//! | wherever they are bound | directories of the host ([`ProgramRoot::bind`]) |
//! | files such as /etc/resolv.conf | memory ([`ProgramRoot::show_text`]) |
//!
//! Directories of this table that the volume lacks are made, and stay. Other places for mounts are
//! removed with the root (`mount_points`).
//!
//! All of it is mounted in a namespace of its own, whose root it is: programs mount, unshare and
//! pivot as on any system. The namespace goes, with all mounts, when nobody has it any more: this
//! root, and the programs.

mod mount_points;
mod text_file;

use crate::host_directory;
use crate::kernel_files::{make_directory, make_directory_of};
use crate::program_leftovers;
use crate::{File, HostDirectory, Mount, RootEntry, Tree};
use mount_points::MountPoints;
use outboard_sys::{explained, libc, Fd, System};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;

/// Devices that every system has: name, mode, major and minor number (Linux:
/// Documentation/admin-guide/devices.txt). The first use of one loads its component.
const DEVICES: [(&CStr, u32, u32, u32); 8] = [
    (c"dev/null", 0o666, 1, 3),
    (c"dev/zero", 0o666, 1, 5),
    (c"dev/full", 0o666, 1, 7),
    (c"dev/random", 0o666, 1, 8),
    (c"dev/urandom", 0o666, 1, 9),
    (c"dev/tty", 0o666, 5, 0),
    (c"dev/fuse", 0o666, 10, 229),
    (c"dev/loop-control", 0o660, 10, 237),
];

/// Loop devices: how many names they have here, and their major number. Linux makes each one when
/// it is first used.
const LOOPS: u32 = 8;
const LOOP_MAJOR: u32 = 7;

/// Links of /dev: name, target.
const LINKS: [(&CStr, &CStr); 5] = [
    (c"dev/fd", c"/proc/self/fd"),
    (c"dev/stdin", c"/proc/self/fd/0"),
    (c"dev/stdout", c"/proc/self/fd/1"),
    (c"dev/stderr", c"/proc/self/fd/2"),
    (c"dev/ptmx", c"pts/ptmx"),
];

/// The mounts below the root, in this order: type, path, mode, options. A path that is not there is
/// made, with this mode.
const MOUNTS: [(&CStr, &CStr, u32, &CStr); 8] = [
    (c"proc", c"proc", 0o555, c""),
    (c"sysfs", c"sys", 0o555, c""),
    (
        c"cgroup2",
        c"sys/fs/cgroup",
        0o555,
        c"nsdelegate,memory_recursiveprot",
    ),
    (c"tmpfs", c"dev", 0o755, c"mode=0755"),
    (c"devpts", c"dev/pts", 0o755, c"mode=0620,ptmxmode=0666"),
    (c"tmpfs", c"dev/shm", 0o1777, c"mode=1777"),
    (c"tmpfs", c"tmp", 0o1777, c"mode=1777"),
    (c"tmpfs", c"run", 0o755, c"mode=0755"),
];

/// A root for programs ([`Mount::program_root`]).
pub struct ProgramRoot {
    system: System,
    /// Of the layers and of memory, in the order of their mounts.
    mounted: Vec<CString>,
    /// Files and directories that were made in the volume for mounts.
    made: MountPoints,
    place: Option<Place>,
}

/// The root directory, and the namespace that has it.
struct Place {
    tree: Tree,
    mounts: Fd,
}

impl Mount {
    /// Makes a root for programs of what is mounted here. Changes by programs are changes of the
    /// mount; if it is read-only, they lie in the kernel's memory, and go with the root. The root
    /// has to go before the mount. Programs that still run keep it in use: end them before.
    pub fn program_root(&self) -> io::Result<ProgramRoot> {
        let mut root = ProgramRoot {
            system: self.kernel().system().clone(),
            mounted: Vec::new(),
            made: MountPoints::default(),
            place: None,
        };
        let directory = if self.is_read_only() {
            root.mount_layers(self)?
        } else {
            self.directory().to_owned()
        };
        root.place = Some(root.furnish(&directory)?);
        Ok(root)
    }
}

impl ProgramRoot {
    fn place(&self) -> &Place {
        self.place.as_ref().expect("a root that was made has one")
    }

    /// The root's files.
    pub fn tree(&self) -> &Tree {
        &self.place().tree
    }

    /// The root's mount namespace.
    pub(crate) fn mounts(&self) -> &Fd {
        &self.place().mounts
    }

    /// A new terminal of the root: the end that its user has, and the one for a program's standard
    /// input, output and error.
    pub fn terminal(&self) -> io::Result<(File, File)> {
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        let user = self.tree().root().open_at(c"dev/pts/ptmx", flags, 0)?;
        let program = user.open_terminal()?;
        Ok((File::from(user), File::from(program)))
    }

    /// Returns where the layers are mounted.
    fn mount_layers(&mut self, lower: &Mount) -> io::Result<CString> {
        let kernel = lower.kernel();
        // It may be built in.
        let _ = kernel.load_component("overlay", "");
        let memory = kernel.shared.mount_directory()?;
        self.mount(c"tmpfs", &memory, c"mode=0700")?;
        let place = open_directory(&self.system, &memory)?;
        place.make_directory_at(c"work", 0o700)?;
        place.make_directory_at(c"upper", 0o700)?;
        copy_owner(lower.root(), &place)?;
        let top = kernel.shared.mount_directory()?;
        let [lower, memory] = [lower.directory(), &memory].map(CStr::to_string_lossy);
        let options = format!("lowerdir={lower},upperdir={memory}/upper,workdir={memory}/work");
        let options = CString::new(options)?;
        self.mount(c"overlay", &top, &options).map_err(no_overlay)?;
        Ok(top)
    }

    fn mount(&mut self, kind: &CStr, directory: &CStr, options: &CStr) -> io::Result<()> {
        self.system.mount(kind, directory, kind, 0, options)?;
        self.mounted.push(directory.to_owned());
        Ok(())
    }

    /// Makes the namespace, and adds what a running system has.
    fn furnish(&self, directory: &CStr) -> io::Result<Place> {
        by_a_thread(|| {
            enter_alone(&self.system, directory)?;
            furnish_here(&self.system)?;
            let here = Fd::working_directory(&self.system);
            Ok(Place {
                tree: Tree::below(open_directory(&self.system, c".")?),
                mounts: here.open_at(c"/proc/thread-self/ns/mnt", libc::O_RDONLY, 0)?,
            })
        })
    }

    /// The calling thread, which is to end, enters the root's namespace, and has no files of other
    /// threads from then on.
    pub fn enter(&self) -> io::Result<()> {
        self.system.set_thread_apart()?;
        self.system.enter_mounts(self.mounts())
    }

    /// A way into the root for other processes of the kernel.
    pub fn entry(&self) -> io::Result<RootEntry> {
        RootEntry::new(&self.system, self.mounts())
    }

    /// Shows a mount also at a path of the root, whose directories are made if they are not there.
    /// The root has to go before the mount.
    pub fn show_mount(&self, mount: &Mount, path: &Path) -> io::Result<()> {
        let target = CString::new(path.as_os_str().as_bytes())?;
        let copy = self.system.copy_mount(mount.directory())?;
        by_a_thread(|| {
            self.enter()?;
            self.made.make_directories(&self.system, path)?;
            copy.attach(&target).map_err(|error| named(error, &target))
        })
    }

    /// Mounts a directory of the host at a path of the root, whose directories are made if they are
    /// not there, and go with the root. A regular file is mounted at a file.
    pub fn bind(&self, directory: &HostDirectory, path: &Path) -> io::Result<()> {
        let shown = CString::new(path.as_os_str().as_bytes())?;
        by_a_thread(|| {
            self.enter()?;
            self.bind_here(directory, path)
                .map_err(|error| named(error, &shown))
        })
    }

    fn bind_here(&self, directory: &HostDirectory, path: &Path) -> io::Result<()> {
        let system = &self.system;
        let target = CString::new(path.as_os_str().as_bytes())?;
        let Some(name) = directory.file_name() else {
            self.made.make_directories(system, path)?;
            return mount_host(system, directory, &target);
        };
        if let Some(above) = path.parent() {
            self.made.make_directories(system, above)?;
        }
        self.made.make_file(system, &target)?;
        bind_from_aside(system, name, &target, |aside| {
            mount_host(system, directory, aside)
        })
    }
}

/// Works on a thread that ends, and whose root becomes that of the programs: the volume may have
/// symbolic links in the place of directories.
fn by_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let gone = |_| Err(io::Error::other("the thread that mounts has ended"));
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(gone))
}

impl Drop for ProgramRoot {
    fn drop(&mut self) {
        // A root that could not be made has had no programs.
        if self.place.is_some() {
            let _ = by_a_thread(|| {
                let here = Fd::working_directory(&self.system);
                let swaps = here.open_at(c"/proc/swaps", libc::O_RDONLY, 0);
                self.enter()?;
                // This kernel may have no swap.
                let _ = swaps.and_then(|swaps| program_leftovers::end_swap(&self.system, &swaps));
                self.made.remove(&self.system);
                Ok(())
            });
            self.place = None;
            let _ = program_leftovers::detach_loops(&self.system);
        }
        for directory in self.mounted.iter().rev() {
            let _ = self.system.unmount(directory, libc::MNT_DETACH);
        }
    }
}

/// The calling thread enters a mount namespace of its own, whose root is the mount at a directory.
fn enter_alone(system: &System, directory: &CStr) -> io::Result<()> {
    let none = c"none";
    system.unshare(libc::CLONE_NEWNS)?;
    let private = libc::MS_REC | libc::MS_PRIVATE;
    system.mount(none, c"/", none, private, c"")?;
    system.change_directory(directory)?;
    system.mount(c".", c"/", none, libc::MS_MOVE, c"")?;
    system.change_root()?;
    allow_devices(system)
}

/// Lets programs use device nodes of the root, as on any system. Other users of the same file
/// system still cannot: this copy of the mount is the namespace's own.
fn allow_devices(system: &System) -> io::Result<()> {
    let none = c"none";
    let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_NOATIME;
    system.mount(none, c"/", none, flags, c"")
}

fn open_directory(system: &System, path: &CStr) -> io::Result<Fd> {
    Fd::working_directory(system).open_at(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)
}

/// Gives the upper layer, which programs see as the root, mode and owner of the lower one.
fn copy_owner(from: &Fd, place: &Fd) -> io::Result<()> {
    let stat = from.stat()?;
    let upper = place.open_at(c"upper", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    place.set_owner_at(c"upper", stat.st_uid, stat.st_gid, 0)?;
    upper.set_mode(stat.st_mode & 0o7777)
}

/// In the root, which is the working directory.
fn furnish_here(system: &System) -> io::Result<()> {
    let here = Fd::working_directory(system);
    for (kind, path, mode, options) in MOUNTS {
        make_directory_of(&here, path, mode)
            .and_then(|()| system.mount(kind, path, kind, 0, options))
            .map_err(|error| named(error, path))?;
    }
    for (path, mode, major, minor) in DEVICES {
        make_device(&here, path, libc::S_IFCHR | mode, (major, minor))?;
    }
    for number in 0..LOOPS {
        let path = CString::new(format!("dev/loop{number}"))?;
        make_device(&here, &path, libc::S_IFBLK | 0o660, (LOOP_MAJOR, number))?;
    }
    for (path, target) in LINKS {
        here.make_symlink_at(target, path)
            .map_err(|error| named(error, path))?;
    }
    Ok(())
}

/// `device`: its major and minor number.
fn make_device(here: &Fd, path: &CStr, mode: u32, device: (u32, u32)) -> io::Result<()> {
    here.make_node_at(path, mode, libc::makedev(device.0, device.1))
        .map_err(|error| named(error, path))
}

fn mount_host(system: &System, directory: &HostDirectory, path: &CStr) -> io::Result<()> {
    let flags = if directory.is_read_only() {
        libc::MS_RDONLY
    } else {
        0
    };
    let kind = CString::new(host_directory::KIND)?;
    system.mount(directory.tag(), path, &kind, flags, c"")
}

/// Binds a file over the one at a path. `mount` mounts the directory that has it aside, for a
/// moment.
fn bind_from_aside(
    system: &System,
    name: &CStr,
    path: &CStr,
    mount: impl FnOnce(&CStr) -> io::Result<()>,
) -> io::Result<()> {
    let here = Fd::working_directory(system);
    let aside = c"/run/.outboard-bind";
    make_directory(&here, aside)?;
    mount(aside)?;
    let file = CString::new([aside.to_bytes(), b"/", name.to_bytes()].concat())?;
    let bound = system.mount(&file, path, c"", libc::MS_BIND, c"");
    system.unmount(aside, libc::MNT_DETACH)?;
    here.unlink_at(aside, libc::AT_REMOVEDIR)?;
    bound
}

fn no_overlay(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENODEV) => explained(error, "this kernel has no overlayfs: profile full has"),
        _ => error,
    }
}

fn named(error: io::Error, path: &CStr) -> io::Error {
    let path = path.to_string_lossy();
    let path = path.trim_start_matches('/');
    let text = format!("/{path} of the programs' root: {error}");
    explained(error, text)
}
