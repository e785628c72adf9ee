// SPDX-License-Identifier: GPL-2.0-only
//! The ioctls that put several block devices together: arrays of md (linux/raid/md_u.h) and file
//! systems of btrfs (linux/btrfs.h).

use crate::system::{pointer, pointer_mut};
use crate::Fd;
use std::ffi::CStr;
use std::io;

/// `_IOW(9, 0x21, mdu_disk_info_t)`.
const ADD_NEW_DISK: usize = 0x4014_0921;
/// `_IOW(9, 0x23, mdu_array_info_t)`.
const SET_ARRAY_INFO: usize = 0x4048_0923;
/// `_IOW(9, 0x30, mdu_param_t)`.
const RUN_ARRAY: usize = 0x400c_0930;
/// `_IO(9, 0x32)`.
const STOP_ARRAY: usize = 0x932;
/// `_IOW(0x94, 4, struct btrfs_ioctl_vol_args)`.
const BTRFS_IOC_SCAN_DEV: usize = 0x5000_9404;

/// `mdu_array_info_t`; all but the version of the superblocks is zero.
#[repr(C)]
struct ArrayInfo {
    major_version: i32,
    minor_version: i32,
    rest: [i32; 16],
}

/// `mdu_disk_info_t`. Number, role and state are in the superblock.
#[repr(C)]
struct DiskInfo {
    number: i32,
    major: u32,
    minor: u32,
    role: i32,
    state: i32,
}

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
pub(crate) struct BtrfsVolume {
    fd: i64,
    /// Ends in a NUL.
    name: [u8; 4088],
}

impl BtrfsVolume {
    /// InvalidInput: the name is too long.
    pub(crate) fn new(name: &[u8]) -> io::Result<Self> {
        let mut volume = Self {
            fd: 0,
            name: [0; 4088],
        };
        let end = volume.name.len() - 1;
        let room = volume.name[..end].get_mut(..name.len());
        room.ok_or(io::ErrorKind::InvalidInput)?
            .copy_from_slice(name);
        Ok(volume)
    }
}

impl Fd {
    /// # Safety
    /// The argument is right for the request: a number, or a pointer to what the request reads and
    /// writes.
    pub(crate) unsafe fn ioctl(&self, request: usize, argument: usize) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        unsafe { self.call(libc::SYS_ioctl, [request, argument, 0, 0, 0]) }
    }

    /// Begins an array, whose device this is, of members that have superblocks of this version.
    pub fn begin_array(&self, (major_version, minor_version): (i32, i32)) -> io::Result<()> {
        let info = ArrayInfo {
            major_version,
            minor_version,
            rest: [0; 16],
        };
        // SAFETY: `info` has the kernel's layout and outlives the call.
        unsafe { self.ioctl(SET_ARRAY_INFO, pointer(&info)) }.map(drop)
    }

    /// Adds a member to an array that does not run yet. `number`: of the member's device.
    pub fn add_array_member(&self, number: u64) -> io::Result<()> {
        let info = DiskInfo {
            number: 0,
            major: libc::major(number),
            minor: libc::minor(number),
            role: 0,
            state: 0,
        };
        // SAFETY: `info` has the kernel's layout and outlives the call.
        unsafe { self.ioctl(ADD_NEW_DISK, pointer(&info)) }.map(drop)
    }

    /// Lets an array run with the members that were added.
    pub fn run_array(&self) -> io::Result<()> {
        // SAFETY: without a structure there is nothing to read.
        unsafe { self.ioctl(RUN_ARRAY, 0) }.map(drop)
    }

    /// Stops an array. EBUSY: it is in use.
    pub fn stop_array(&self) -> io::Result<()> {
        // SAFETY: takes no argument.
        unsafe { self.ioctl(STOP_ARRAY, 0) }.map(drop)
    }

    /// Tells btrfs, whose control device this is, of a device that is part of a file system.
    pub fn register_btrfs(&self, device: &CStr) -> io::Result<()> {
        let mut volume = BtrfsVolume::new(device.to_bytes())?;
        // SAFETY: `volume` has the kernel's layout, its name ends in NUL, and it outlives the call.
        unsafe { self.ioctl(BTRFS_IOC_SCAN_DEV, pointer_mut(&mut volume)) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn structures_have_the_sizes_that_the_requests_say() {
        let size = |request: usize| request >> 16 & 0x3fff;
        assert_eq!(size_of::<DiskInfo>(), size(ADD_NEW_DISK));
        assert_eq!(size_of::<ArrayInfo>(), size(SET_ARRAY_INFO));
        assert_eq!(size_of::<BtrfsVolume>(), size(BTRFS_IOC_SCAN_DEV));
    }
}
