// SPDX-License-Identifier: GPL-2.0-only
//! Files that are open with `O_PATH`: neither read nor written, but certainly this file, whatever
//! happens to its name meanwhile.
//!
//! Calls that take no such descriptor go through the system's /proc/self/fd. It leads to the file
//! itself, even to a symbolic link.

use crate::{Fd, System};
use std::ffi::{CStr, CString};
use std::io;

/// Refuses paths with symbolic links.
const RESOLVE_NO_SYMLINKS: u64 = 0x04;
/// Refuses paths that leave the directory.
const RESOLVE_BENEATH: u64 = 0x08;
/// A file that is open with `O_PATH`. A symbolic link is this file itself, not what it leads to.
#[derive(Debug)]
pub struct PathFd {
    fd: Fd,
    /// The way to it through /proc.
    path: CString,
}

impl PathFd {
    /// `fd` is open with `O_PATH`.
    pub fn new(fd: Fd) -> io::Result<Self> {
        let path = CString::new(format!("/proc/self/fd/{}", fd.raw()))?;
        Ok(Self { fd, path })
    }

    fn anywhere(&self) -> Fd {
        Fd::working_directory(self.system())
    }

    /// The descriptor itself.
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// The system that has the file.
    pub fn system(&self) -> &System {
        self.fd.system()
    }

    /// Attributes of the file.
    pub fn stat(&self) -> io::Result<libc::stat> {
        self.fd.stat()
    }

    /// Changes owner and group.
    pub fn set_owner(&self, user: u32, group: u32) -> io::Result<()> {
        self.fd.set_owner_at(c"", user, group, libc::AT_EMPTY_PATH)
    }

    /// Changes the permissions. EOPNOTSUPP for a symbolic link.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.anywhere().set_mode_at(&self.path, mode)
    }

    /// Changes the times of last access and modification.
    pub fn set_times(&self, times: &[libc::timespec; 2]) -> io::Result<()> {
        self.anywhere().set_times_at(&self.path, times, 0)
    }

    /// Opens the file itself with `O_*` flags. ELOOP for a symbolic link.
    pub fn open(&self, flags: i32) -> io::Result<Fd> {
        self.anywhere().open_at(&self.path, flags, 0)
    }

    /// The target of a symbolic link.
    pub fn read_link(&self) -> io::Result<CString> {
        self.fd.read_link_at(c"")
    }

    /// Names of the extended attributes.
    pub fn xattrs(&self) -> io::Result<Vec<CString>> {
        self.anywhere().xattrs_of(&self.path)
    }

    /// Value of an extended attribute.
    pub fn xattr(&self, attribute: &CStr) -> io::Result<Vec<u8>> {
        self.anywhere().xattr_of(&self.path, attribute)
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, attribute: &CStr) -> io::Result<()> {
        self.anywhere().remove_xattr_of(&self.path, attribute)
    }

    /// Sets an extended attribute.
    pub fn set_xattr(&self, attribute: &CStr, value: &[u8]) -> io::Result<()> {
        self.anywhere()
            .set_xattr_of(&self.path, attribute, value, 0)
    }

    /// Makes `name` in `directory` another name of this file.
    pub fn link_at(&self, directory: &Fd, name: &CStr) -> io::Result<()> {
        self.anywhere()
            .link_at(&self.path, directory, name, libc::AT_SYMLINK_FOLLOW)
    }
}

impl Fd {
    /// A file in this directory, itself also if it is a symbolic link.
    pub fn open_path_at(&self, name: &CStr) -> io::Result<PathFd> {
        PathFd::new(self.open_at(name, libc::O_PATH | libc::O_NOFOLLOW, 0)?)
    }

    /// A file below this directory by a path without symbolic links; the last name may be one, and
    /// is the link itself. ELOOP: there is another. ENOSYS: a kernel older than Linux 5.6.
    pub fn open_path_beneath(&self, path: &CStr) -> io::Result<PathFd> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        PathFd::new(self.open_resolved(path, flags, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)?)
    }
}
