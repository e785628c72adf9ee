// SPDX-License-Identifier: GPL-2.0-only
//! How much a file system can hold, whatever its damaged metadata claim.

use crate::kernel_files::read_text;
use crate::{Fd, System};
use outboard_sys::libc;
use std::ffi::CString;
use std::io;

/// Bytes of a sector in sysfs.
const SECTOR: u64 = 512;

/// Most bytes that the file system of a file stores: the superblock's claim, limited by the disk.
/// `u64::MAX`: neither is known.
pub fn capacity(file: &Fd) -> io::Result<u64> {
    let claimed = match file.statfs()?.size() {
        0 => u64::MAX,
        size => size,
    };
    // File systems on several devices have a number that is no disk's.
    let disk = match file.system() {
        System::Host => None,
        system => disk_size(system, file.stat()?.st_dev),
    };
    Ok(disk.map_or(claimed, |size| size.min(claimed)))
}

fn disk_size(system: &System, number: u64) -> Option<u64> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    let path = CString::new(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    let sectors: u64 = read_text(system, &path).ok()?.trim().parse().ok()?;
    sectors.checked_mul(SECTOR)
}
