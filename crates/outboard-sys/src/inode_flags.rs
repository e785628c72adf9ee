// SPDX-License-Identifier: GPL-2.0-only
//! Flags of inodes, as `lsattr` and `chattr` have them.

use crate::system::{pointer, pointer_mut};
use crate::Fd;
use libc::SYS_ioctl;
use std::io;

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS` where a long has 64 bits.
const GET_FLAGS: usize = 0x8008_6601;
const SET_FLAGS: usize = 0x4008_6602;

impl Fd {
    /// The flags (`FS_*_FL`) of this file. ENOTTY: its file system has none.
    pub fn inode_flags(&self) -> io::Result<u32> {
        // The kernel writes an int, but file servers of the host may write the long of the number's
        // name.
        let mut flags = 0u64;
        // SAFETY: the kernel writes at most 8 bytes.
        unsafe { self.call(SYS_ioctl, [GET_FLAGS, pointer_mut(&mut flags), 0, 0, 0]) }?;
        Ok(flags as u32)
    }

    /// Sets the flags of this file.
    pub fn set_inode_flags(&self, flags: u32) -> io::Result<()> {
        let flags = u64::from(flags);
        // SAFETY: the kernel reads at most 8 bytes.
        unsafe { self.call(SYS_ioctl, [SET_FLAGS, pointer(&flags), 0, 0, 0]) }.map(drop)
    }
}
