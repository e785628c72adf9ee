// SPDX-License-Identifier: GPL-2.0-only
//! Locks on the files of disks.

use crate::{ffi, Fd};
use libc::c_int;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process;

/// Locks a file as the library locks the file of a disk. `EBUSY`: another program has locked it. A
/// file system without such locks is no error.
fn lock(descriptor: c_int, exclusive: bool) -> io::Result<()> {
    // SAFETY: has only numbers as its arguments.
    match unsafe { ffi::ob_file_lock(descriptor, c_int::from(exclusive)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// A file's lock against a second user, given back when it is dropped.
pub struct FileLock {
    file: File,
    /// The process that has taken it.
    process: u32,
}

impl FileLock {
    /// Locks an image file. Fails at once if another program has locked it.
    pub fn new(file: File, exclusive: bool) -> io::Result<Self> {
        lock(file.as_raw_fd(), exclusive)?;
        Ok(Self {
            file,
            process: process::id(),
        })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // A forked child shares the open file, and with it the lock, with its parent.
        if process::id() != self.process {
            return;
        }
        // Other descriptors of the same open file would keep it.
        // SAFETY: has only a number as its argument.
        unsafe { ffi::ob_file_unlock(self.file.as_raw_fd()) };
    }
}

impl Fd {
    /// Locks this file of the host, until its last descriptor is closed. `InvalidInput`: it is a
    /// kernel's.
    pub fn lock(&self, exclusive: bool) -> io::Result<()> {
        if !self.system().is_host() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        lock(self.raw(), exclusive)
    }
}
