// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's table of mounts.

use crate::kernel_files::read_text;
use crate::System;
use outboard_sys::libc;
use std::io;

/// The file in which the kernel shows it.
const MOUNTS: &std::ffi::CStr = c"/proc/self/mountinfo";

/// The type of the file system that is mounted from a device, as the kernel names it; `None`: its
/// files have other device numbers than their mount (subvolumes of btrfs).
pub fn file_system_type(system: &System, device: u64) -> io::Result<Option<String>> {
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let text = read_text(system, MOUNTS)?;
    Ok(type_of(&text, &number).map(str::to_owned))
}

/// The device number of the mount at a directory, as "0:40".
pub(crate) fn device_at(system: &System, directory: &str) -> io::Result<Option<String>> {
    let text = read_text(system, MOUNTS)?;
    Ok(device_of(&text, directory).map(str::to_owned))
}

/// The type of the mount from a device, in the text of mountinfo.
fn type_of<'a>(text: &'a str, device: &str) -> Option<&'a str> {
    let mut mounts = text.lines().filter_map(|line| line.split_once(" - "));
    let (_, of_source) = mounts.find(|(head, _)| head.split(' ').nth(2) == Some(device))?;
    of_source.split(' ').next()
}

/// The device number of the mount at a directory, in the text of mountinfo.
fn device_of<'a>(text: &'a str, directory: &str) -> Option<&'a str> {
    let mut mounts = text.lines().map(|line| line.split(' ').skip(2));
    // The newest mount is the last one.
    mounts
        .rfind(|words| words.clone().nth(2) == Some(directory))?
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_a_mount_is_found() {
        let text = "21 1 0:2 / / rw - rootfs rootfs rw\n\
            36 21 0:40 / /mnt/1 rw,noatime - nfs4 10.0.2.2:/e rw,vers=4.2\n\
            37 21 0:41 / /mnt/12 rw,noatime - nfs4 10.0.2.2:/mnt/1 rw,vers=4.2\n";
        assert_eq!(device_of(text, "/mnt/1"), Some("0:40"));
        assert_eq!(device_of(text, "/mnt/12"), Some("0:41"));
        assert_eq!(device_of(text, "/mnt"), None);
        assert_eq!(device_of("21 1", "/mnt"), None);
        assert_eq!(type_of(text, "0:40"), Some("nfs4"));
        assert_eq!(type_of(text, "0:4"), None);
    }
}
