// SPDX-License-Identifier: GPL-2.0-only
//! Block devices of the kernel: whole disks and partitions.

use crate::disk::Disk;
use crate::kernel::{read_text, HOME};
use crate::mount::{Mount, MountOptions};
use crate::{Fd, System};
use outboard_image::{probe, Probe, Source};
use outboard_sys::libc;
use std::ffi::{CStr, CString};
use std::io;

/// A block device of the kernel.
#[derive(Clone)]
pub struct BlockDevice {
    pub(crate) disk: Disk,
    name: String,
    node: CString,
}

/// "253:1\n" as a device number.
fn parse_number(text: &str) -> Option<u64> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Makes the device node. One of a disk that is gone may have the same name, but another number.
fn make_node(path: &CStr, number: u64) -> io::Result<()> {
    let root = Fd::working_directory(System::Kernel);
    let make = || root.make_node_at(path, libc::S_IFBLK | 0o600, number);
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if root.stat_at(path, 0)?.st_rdev == number {
                return Ok(());
            }
            root.unlink_at(path, 0)?;
            make()
        }
        other => other,
    }
}

impl BlockDevice {
    pub(crate) fn new(disk: Disk, name: String) -> io::Result<Self> {
        let attribute = CString::new(format!("/sys/class/block/{name}/dev"))?;
        let text = read_text(&attribute).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::from_raw_os_error(libc::ENXIO),
            _ => error,
        })?;
        let number = parse_number(&text).ok_or(io::ErrorKind::InvalidData)?;
        let node = CString::new(format!("{HOME}/dev/{name}"))?;
        make_node(&node, number)?;
        Ok(Self { disk, name, node })
    }

    /// What the kernel calls it, as in "vda1".
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn node(&self) -> &CStr {
        &self.node
    }

    /// Opens the device itself, for reading.
    pub fn open(&self) -> io::Result<Fd> {
        Fd::working_directory(System::Kernel).open_at(&self.node, libc::O_RDONLY, 0)
    }

    /// What is on it, as far as its first blocks tell.
    pub fn probe(&self) -> io::Result<Option<Probe>> {
        let fd = self.open()?;
        let size = fd.seek(0, libc::SEEK_END)?;
        Ok(probe(&Bytes { fd, size }))
    }

    /// Waits until all that was written to it is on stable storage.
    pub fn sync(&self) -> io::Result<()> {
        self.open()?.sync()
    }

    /// Mounts the file system on it.
    pub fn mount(&self, options: &MountOptions) -> io::Result<Mount> {
        Mount::new(self, options)
    }
}

struct Bytes {
    fd: Fd,
    size: u64,
}

impl Source for Bytes {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fd.read_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers() {
        assert_eq!(parse_number("253:1\n"), Some(libc::makedev(253, 1)));
        for bad in ["", "253", "a:b", "1:-1"] {
            assert_eq!(parse_number(bad), None);
        }
    }
}
