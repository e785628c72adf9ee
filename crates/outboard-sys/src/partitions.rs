// SPDX-License-Identifier: GPL-2.0-only
//! The partitions of a disk as the kernel knows them, by the ioctl BLKPG (linux/blkpg.h).

use crate::system::pointer;
use crate::Fd;
use std::ffi::{c_int, c_longlong};
use std::io;
use std::mem::size_of;

/// `_IO(0x12, 105)`.
const BLKPG: usize = 0x1269;
const ADD: c_int = 1;
const DELETE: c_int = 2;
const RESIZE: c_int = 3;

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct Request {
    operation: c_int,
    flags: c_int,
    length: c_int,
    partition: *const KernelPartition,
}

/// `struct blkpg_partition`. The kernel ignores the names.
#[repr(C)]
struct KernelPartition {
    start: c_longlong,
    length: c_longlong,
    number: c_int,
    names: [u8; 128],
}

impl Fd {
    /// Adds a partition to this disk. EBUSY: it would overlap another one.
    pub fn add_partition(&self, number: u32, start: u64, size: u64) -> io::Result<()> {
        self.change_partition(ADD, number, start, size)
    }

    /// Removes a partition from this disk. ENXIO: there is none; EBUSY: it is in use.
    pub fn delete_partition(&self, number: u32) -> io::Result<()> {
        self.change_partition(DELETE, number, 0, 0)
    }

    /// Gives a partition of this disk another size. ENXIO: there is none; EINVAL: it begins
    /// elsewhere; EBUSY: it would overlap another one.
    pub fn resize_partition(&self, number: u32, start: u64, size: u64) -> io::Result<()> {
        self.change_partition(RESIZE, number, start, size)
    }

    fn change_partition(
        &self,
        operation: c_int,
        number: u32,
        start: u64,
        size: u64,
    ) -> io::Result<()> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let signed = |value: u64| c_longlong::try_from(value).map_err(|_| invalid());
        let partition = KernelPartition {
            start: signed(start)?,
            length: signed(size)?,
            number: c_int::try_from(number).map_err(|_| invalid())?,
            names: [0; 128],
        };
        let request = Request {
            operation,
            flags: 0,
            length: size_of::<KernelPartition>() as c_int,
            partition: &partition,
        };
        // SAFETY: both structures have the kernel's layout and outlive the call.
        unsafe { self.ioctl(BLKPG, pointer(&request)) }.map(drop)
    }
}
