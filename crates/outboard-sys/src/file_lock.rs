// SPDX-License-Identifier: GPL-2.0-only
//! Locks on the files of disks.

use crate::{ffi, Fd};
use libc::c_int;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process;

/// A lock on a file of the host against a second user. Dropping this unlocks the file, whatever
/// copies of its descriptor other processes have: a program that another thread starts has them
/// until its exec.
#[derive(Debug)]
#[must_use]
pub struct FileLock {
    file: Fd,
    /// The process that has taken it.
    process: u32,
}

impl FileLock {
    /// Locks an image file as the library locks the file of a disk. `EBUSY`: another program has
    /// locked it. A file system without such locks is no error.
    pub fn new(file: File, exclusive: bool) -> io::Result<Self> {
        Self::take(OwnedFd::from(file).into(), exclusive)
    }

    fn take(file: Fd, exclusive: bool) -> io::Result<Self> {
        // SAFETY: has only numbers as its arguments.
        match unsafe { ffi::ob_file_lock(file.raw(), c_int::from(exclusive)) } {
            0 => Ok(Self {
                file,
                process: process::id(),
            }),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }

    /// The locked file.
    pub fn file(&self) -> &Fd {
        &self.file
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // A forked child shares the open file, and with it the lock, with its parent.
        if process::id() != self.process {
            return;
        }
        // SAFETY: has only a number as its argument.
        unsafe { ffi::ob_file_unlock(self.file.raw()) };
    }
}

impl Fd {
    /// Locks this file of the host: see [`FileLock`]. `InvalidInput`: it is a kernel's.
    pub fn lock(self, exclusive: bool) -> io::Result<FileLock> {
        if !self.system().is_host() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        FileLock::take(self, exclusive)
    }
}
