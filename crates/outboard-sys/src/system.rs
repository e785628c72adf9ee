// SPDX-License-Identifier: GPL-2.0-only
//! A Linux kernel that takes system calls, and those calls that need no open file.

use crate::cancel::{is_limited, is_release, limited};
use crate::Instance;
use libc::{c_int, c_long, c_uint, c_ulong};
use std::ffi::CStr;
use std::io;
use std::mem::size_of;

/// A Linux kernel: the host's, or one in this process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// The host's kernel.
    Host,
    /// A kernel in this process.
    Kernel(Instance),
}

/// Sizes and kind of a file system, in the kernel's layout. (`libc::statfs` hides the flags.)
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StatFs {
    /// Magic number of the type.
    pub kind: i64,
    /// Bytes of a block.
    pub block_size: i64,
    /// Blocks in total.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks for users without privileges.
    pub blocks_available: u64,
    /// Inodes in total.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Id of the file system.
    pub id: [i32; 2],
    /// Most bytes of a name.
    pub name_length: i64,
    /// Bytes of a fragment; 0: as a block.
    pub fragment_size: i64,
    /// `ST_*`.
    pub flags: i64,
    spare: [i64; 4],
}

impl StatFs {
    /// Bytes of each of the blocks that are counted.
    pub fn unit(&self) -> u64 {
        match self.fragment_size {
            0 => self.block_size,
            size => size,
        }
        .max(0) as u64
    }

    /// Bytes of the file system.
    pub fn size(&self) -> u64 {
        self.blocks.saturating_mul(self.unit())
    }
}

/// The changes to a mount, in the kernel's layout (mount_setattr(2)).
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_name_space: u64,
}

const MOUNT_ATTR_NODEV: u64 = 4;

/// A pointer as an argument of a system call.
pub(crate) fn pointer<T: ?Sized>(reference: &T) -> usize {
    (reference as *const T).cast::<u8>() as usize
}

pub(crate) fn pointer_mut<T: ?Sized>(reference: &mut T) -> usize {
    (reference as *mut T).cast::<u8>() as usize
}

pub(crate) fn string(string: &CStr) -> usize {
    string.as_ptr() as usize
}

impl System {
    /// Whether this is the host's kernel.
    pub fn is_host(&self) -> bool {
        matches!(self, System::Host)
    }

    /// Makes one system call.
    ///
    /// # Safety
    /// The arguments are right for the call: pointers are valid for what it
    /// reads and writes, and it does nothing to memory or descriptors that Rust code relies on.
    pub(crate) unsafe fn call(&self, number: c_long, a: [usize; 6]) -> io::Result<usize> {
        match self {
            System::Host => {
                // SAFETY: the caller's promise.
                let result = unsafe { libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
                if result == -1 {
                    return Err(io::Error::last_os_error());
                }
                Ok(result as usize)
            }
            // SAFETY: the caller's promise.
            System::Kernel(instance) if is_limited() => {
                limited(instance, is_release(number), || unsafe {
                    instance.call(number, a)
                })
            }
            // SAFETY: the caller's promise.
            System::Kernel(instance) => unsafe { instance.call(number, a) },
        }
    }

    /// Mounts `source` at `target`. `flags`: `MS_*`; `options`: as after `-o`.
    pub fn mount(
        &self,
        source: &CStr,
        target: &CStr,
        kind: &CStr,
        flags: c_ulong,
        options: &CStr,
    ) -> io::Result<()> {
        let arguments = [
            string(source),
            string(target),
            string(kind),
            flags as usize,
            string(options),
            0,
        ];
        // SAFETY: all pointers are NUL-terminated strings that outlive the call.
        unsafe { self.call(libc::SYS_mount, arguments) }.map(drop)
    }

    /// Unmounts. `flags`: `MNT_*`.
    pub fn unmount(&self, target: &CStr, flags: c_int) -> io::Result<()> {
        // SAFETY: the path is a NUL-terminated string that outlives the call.
        unsafe {
            self.call(
                libc::SYS_umount2,
                [string(target), flags as usize, 0, 0, 0, 0],
            )
        }
        .map(drop)
    }

    /// Sizes and kind of the file system that holds `path`.
    pub fn statfs(&self, path: &CStr) -> io::Result<StatFs> {
        let mut result = StatFs::default();
        let arguments = [string(path), pointer_mut(&mut result), 0, 0, 0, 0];
        // SAFETY: the path is NUL-terminated, the result has the kernel's layout.
        unsafe { self.call(libc::SYS_statfs, arguments) }?;
        Ok(result)
    }

    /// Sets the mask of permissions that new files do not get; returns the old one.
    pub fn umask(&self, mask: u32) -> u32 {
        // SAFETY: has only a number as its argument.
        unsafe { self.call(libc::SYS_umask, [mask as usize, 0, 0, 0, 0, 0]) }.unwrap_or(0) as u32
    }

    /// Waits until all processors of the library's kernel are online, which takes up to 20 ms after
    /// its start. Linux without CPU hotplug takes them for constant: where it empties the caches of
    /// each (slub.c, flush_all_cpus_locked), it warns of one that comes meanwhile.
    pub fn wait_for_processors(&self) {
        let mut set = [0_u64; 16];
        let arguments = [0, size_of_val(&set), pointer_mut(&mut set), 0, 0, 0];
        // SAFETY: the kernel writes at most `size_of_val(&set)` bytes. The answer is of no use.
        let _ = unsafe { self.call(libc::SYS_sched_getaffinity, arguments) };
    }

    /// The user that files are made and rights are checked as.
    pub fn effective_user(&self) -> u32 {
        // SAFETY: has no arguments.
        unsafe { self.call(libc::SYS_geteuid, [0; 6]) }.unwrap_or(0) as u32
    }

    /// The group that files are made and rights are checked as.
    pub fn effective_group(&self) -> u32 {
        // SAFETY: has no arguments.
        unsafe { self.call(libc::SYS_getegid, [0; 6]) }.unwrap_or(0) as u32
    }

    /// Gives the process namespaces of its own. `flags`: `CLONE_NEW*`. EINVAL, if the host is
    /// meant: the process has more than one thread.
    pub fn unshare(&self, flags: c_int) -> io::Result<()> {
        // SAFETY: has only a number as its argument; namespaces do not concern memory.
        unsafe { self.call(libc::SYS_unshare, [flags as usize, 0, 0, 0, 0, 0]) }.map(drop)
    }

    /// From now on no device node of any mounted file system can be opened, in the mount namespace
    /// of this process, which has to be its own. ENOSYS before Linux 5.12.
    pub fn hide_devices(&self) -> io::Result<()> {
        let attributes = MountAttributes {
            set: MOUNT_ATTR_NODEV,
            clear: 0,
            propagation: libc::MS_PRIVATE,
            user_name_space: 0,
        };
        let arguments = [
            libc::AT_FDCWD as usize,
            string(c"/"),
            libc::AT_RECURSIVE as usize,
            pointer(&attributes),
            size_of::<MountAttributes>(),
            0,
        ];
        // SAFETY: the path is NUL-terminated; `attributes` has the kernel's layout, its size is
        // told, and it outlives the call.
        unsafe { self.call(libc::SYS_mount_setattr, arguments) }.map(drop)
    }

    /// A limit of this process. `resource`: `RLIMIT_*`.
    fn limit(&self, resource: usize) -> io::Result<libc::rlimit64> {
        let mut limit = libc::rlimit64 {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let arguments = [0, resource, 0, pointer_mut(&mut limit), 0, 0];
        // SAFETY: `limit` has the kernel's layout and outlives the call; no new limit is given.
        unsafe { self.call(libc::SYS_prlimit64, arguments) }?;
        Ok(limit)
    }

    fn change_limit(&self, resource: usize, new: libc::rlimit64) -> io::Result<()> {
        let arguments = [0, resource, pointer(&new), 0, 0, 0];
        // SAFETY: `new` has the kernel's layout and outlives the call.
        unsafe { self.call(libc::SYS_prlimit64, arguments) }.map(drop)
    }

    /// Lowers a limit of this process for good, unless it is lower already. `resource`: `RLIMIT_*`.
    pub fn set_limit(&self, resource: c_uint, most: u64) -> io::Result<()> {
        let old = self.limit(resource as usize)?;
        let new = libc::rlimit64 {
            rlim_cur: old.rlim_cur.min(most),
            rlim_max: old.rlim_max.min(most),
        };
        self.change_limit(resource as usize, new)
    }

    /// Sets the soft limit of this process, at most to the hard one. `resource`: `RLIMIT_*`.
    pub fn set_soft_limit(&self, resource: c_uint, soft: u64) -> io::Result<()> {
        let mut limit = self.limit(resource as usize)?;
        limit.rlim_cur = soft.min(limit.rlim_max);
        self.change_limit(resource as usize, limit)
    }

    /// Raises a limit of this process as far towards `wanted` as its hard limit allows. Returns the
    /// new limit.
    pub fn raise_limit(&self, resource: c_uint, wanted: u64) -> io::Result<u64> {
        let mut limit = self.limit(resource as usize)?;
        if limit.rlim_cur >= wanted {
            return Ok(limit.rlim_cur);
        }
        limit.rlim_cur = wanted.min(limit.rlim_max);
        self.change_limit(resource as usize, limit)?;
        Ok(limit.rlim_cur)
    }

    /// Raises this process's limit of open files: to the hard limit, or where rights allow it to
    /// `wanted`.
    pub fn raise_file_limit(&self, wanted: u64) -> io::Result<()> {
        let mut old = libc::rlimit64 {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let limit = libc::RLIMIT_NOFILE as usize;
        // SAFETY: `old` has the kernel's layout and outlives the call; no new limit is given.
        unsafe {
            self.call(
                libc::SYS_prlimit64,
                [0, limit, 0, pointer_mut(&mut old), 0, 0],
            )?;
        }
        if old.rlim_cur >= wanted {
            return Ok(());
        }
        let hard = old.rlim_max.max(wanted);
        for maximum in [hard, old.rlim_max] {
            let new = libc::rlimit64 {
                rlim_cur: maximum.min(wanted),
                rlim_max: maximum,
            };
            // SAFETY: `new` has the kernel's layout and outlives the call.
            let result =
                unsafe { self.call(libc::SYS_prlimit64, [0, limit, pointer(&new), 0, 0, 0]) };
            if result.is_ok() {
                return Ok(());
            }
        }
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}
