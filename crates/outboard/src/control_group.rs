// SPDX-License-Identifier: GPL-2.0-only
//! Limits for groups of processes: Linux's control groups, version 2.
//!
//! The groups lie in a mount that is in no namespace: only descriptors lead to it. So no program
//! finds the files by a path, unless it is root inside and mounts the hierarchy itself.

use crate::kernel_files::{make_directory, make_home};
use crate::{Fd, Kernel};
use outboard_sys::{default_memory, libc};
use std::ffi::{CStr, CString};
use std::io;

const PLACE: &CStr = c"/outboard/groups";
/// Each mount sets them for the whole hierarchy: as in the root of programs.
const OPTIONS: &CStr = c"nsdelegate,memory_recursiveprot,favordynmods";
/// The limits that groups have, where the kernel has them: of memory, and of tasks.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// A group of processes, and of the groups below it. Processes join only a group without groups
/// below. Children of a process are of its group.
#[derive(Debug)]
pub struct ControlGroup {
    directory: Fd,
}

fn c_string(text: &str) -> io::Result<CString> {
    Ok(CString::new(text)?)
}

impl Kernel {
    /// The group of all processes. `ENODEV`: the kernel has no control groups.
    pub fn control_groups(&self) -> io::Result<ControlGroup> {
        let system = self.system();
        make_home(system)?;
        let root = Fd::working_directory(system);
        make_directory(&root, PLACE)?;
        system.mount(c"cgroup2", PLACE, c"cgroup2", 0, OPTIONS)?;
        let directory = root.open_at(PLACE, libc::O_PATH | libc::O_DIRECTORY, 0);
        system.unmount(PLACE, libc::MNT_DETACH)?;
        let directory = directory?;
        Ok(ControlGroup { directory })
    }

    /// Most bytes of memory that the kernel may use; of a thread with another root than the
    /// kernel's own, what it may use by default.
    pub fn memory_limit(&self) -> io::Result<u64> {
        let system = self.system();
        if system.is_host() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let root = system.statfs(c"/")?;
        // The kernel's own tree may take a half: ob_size_root() of kernel/arch/core/init.c.
        match root.kind {
            libc::TMPFS_MAGIC => Ok(2 * root.size()),
            _ => Ok(default_memory()),
        }
    }
}

impl ControlGroup {
    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let file = self
            .directory
            .open_at(&c_string(name)?, libc::O_WRONLY, 0)?;
        file.write_all(text.as_bytes())
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let file = self
            .directory
            .open_at(&c_string(name)?, libc::O_RDONLY, 0)?;
        let mut bytes = [0; 256];
        let length = file.read(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// Makes a group in this one, or finds the one of this name. Groups in this one can have limits
    /// from then on, and no process can join this one.
    pub fn group(&self, name: &str) -> io::Result<Self> {
        for controller in CONTROLLERS {
            // Not every kernel has all of them.
            let _ = self.write("cgroup.subtree_control", &format!("+{controller}"));
        }
        let name = c_string(name)?;
        make_directory(&self.directory, &name)?;
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let directory = self.directory.open_at(&name, flags, 0)?;
        Ok(Self { directory })
    }

    /// Removes a group in this one. `EBUSY`: it has processes. The memory that it has left behind
    /// counts for this group.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let name = c_string(name)?;
        self.directory.unlink_at(&name, libc::AT_REMOVEDIR)
    }

    /// Limits memory: files in memory, caches of files, pipes, buffers of sockets, and objects of
    /// the kernel. Caches make room. A call for which there is none then fails with `ENOMEM`; a
    /// program of the group is killed. `ENOENT`: the kernel has no such limit.
    pub fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        self.write("memory.max", &bytes.to_string())
    }

    /// Limits tasks. Calls that would make more of them fail with `EAGAIN`. `ENOENT`: the kernel
    /// has no such limit.
    pub fn limit_tasks(&self, most: usize) -> io::Result<()> {
        self.write("pids.max", &most.to_string())
    }

    /// Bytes of memory that the group has. `ENOENT`: the kernel does not count them.
    pub fn memory(&self) -> io::Result<u64> {
        let text = self.read("memory.current")?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// Drops caches of files that count for the group, up to so many bytes.
    pub fn drop_caches(&self, bytes: u64) {
        // An error: there was less.
        let _ = self.write("memory.reclaim", &bytes.to_string());
    }

    /// A process joins the group. Its memory from before counts in the group that it leaves.
    pub fn add(&self, process: i32) -> io::Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }
}
