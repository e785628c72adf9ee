// SPDX-License-Identifier: GPL-2.0-only
//! Mounts of a kernel of this process at further places, also of other mount namespaces.

use crate::system::string;
use crate::{Fd, System};
use std::ffi::CStr;
use std::io;

/// Linux: include/uapi/linux/mount.h.
const OPEN_TREE_CLONE: usize = 1;
const MOVE_MOUNT_F_EMPTY_PATH: usize = 4;

/// A copy of a mount, which has no place yet. It goes when this is dropped before.
pub struct MountCopy(Fd);

impl System {
    /// Copies the mount at this path of the calling thread's namespace.
    pub fn copy_mount(&self, path: &CStr) -> io::Result<MountCopy> {
        if self.is_host() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as usize;
        let here = libc::AT_FDCWD as usize;
        // SAFETY: the path is a NUL-terminated string that outlives the call, and the new number
        // belongs to nobody else.
        let raw = unsafe { self.call(libc::SYS_open_tree, [here, string(path), flags, 0, 0, 0]) }?;
        Ok(MountCopy(Fd::own(self, raw)))
    }
}

impl MountCopy {
    /// Mounts the copy at this path of the calling thread's namespace.
    pub fn attach(&self, path: &CStr) -> io::Result<()> {
        let here = libc::AT_FDCWD as usize;
        let arguments = [string(c""), here, string(path), MOVE_MOUNT_F_EMPTY_PATH, 0];
        // SAFETY: both paths are NUL-terminated strings that outlive the call.
        unsafe { self.0.call(libc::SYS_move_mount, arguments) }.map(drop)
    }
}
