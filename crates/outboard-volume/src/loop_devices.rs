// SPDX-License-Identifier: GPL-2.0-only
//! Loop devices of the host. A file system mounted from a loop device caches blocks of its file, so
//! `outboard` must not write that file. Loop devices lock nothing; sysfs names their files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const DEVICES: &str = "/sys/block";
/// Links to the directories of block devices, named by their numbers.
const NUMBERS: &str = "/sys/dev/block";

/// Fails if a writable loop device has this file. Missing information of the host is no error.
pub fn check_detached(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    match device_of((metadata.dev(), metadata.ino()), Path::new(DEVICES)) {
        Some(name) => Err(io::Error::other(format!(
            "it is in use as /dev/{name} (unmount what is on that, and detach it with losetup -d \
             /dev/{name})"
        ))),
        None => Ok(()),
    }
}

/// The file of a loop device, or of a partition of one.
pub fn file_of_device(device: u64) -> Option<fs::Metadata> {
    let whole = whole_of(&directory_of(device)?);
    fs::metadata(backing_file(&whole)?).ok()
}

/// The numbers of the loop devices with this file, given by device and inode.
pub fn devices_of_file(identity: (u64, u64)) -> Vec<u64> {
    let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_bytes().starts_with(b"loop"))
        .map(|entry| entry.path())
        .filter(|device| backing_file(device).is_some_and(|path| has_identity(&path, identity)))
        .filter_map(|device| number_of(&device))
        .collect()
}

/// The numbers of block devices that share bytes with this one: a disk's partitions, a partition's
/// disk.
pub fn whole_and_partitions(device: u64) -> Vec<u64> {
    let mut numbers = vec![device];
    let Some(directory) = directory_of(device) else {
        return numbers;
    };
    let whole = whole_of(&directory);
    if whole != directory {
        numbers.extend(number_of(&whole));
        return numbers;
    }
    let inside = fs::read_dir(&directory).into_iter().flatten().flatten();
    let partitions = inside.filter(|entry| is_partition(&entry.path()));
    numbers.extend(partitions.filter_map(|entry| number_of(&entry.path())));
    numbers
}

/// The directory of a block device in sysfs.
fn directory_of(device: u64) -> Option<PathBuf> {
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    Path::new(NUMBERS).join(number).canonicalize().ok()
}

fn is_partition(directory: &Path) -> bool {
    directory.join("partition").exists()
}

/// The directory of the disk that a block device is, or is a partition of.
fn whole_of(directory: &Path) -> PathBuf {
    match directory.parent() {
        Some(parent) if is_partition(directory) => parent.to_owned(),
        _ => directory.to_owned(),
    }
}

fn number_of(directory: &Path) -> Option<u64> {
    let text = fs::read_to_string(directory.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The path of a loop device's file. It may belong to another namespace, or not exist any more.
fn backing_file(device: &Path) -> Option<PathBuf> {
    let named = fs::read(device.join("loop/backing_file")).ok()?;
    let path = named.strip_suffix(b"\n").unwrap_or(&named);
    Some(OsStr::from_bytes(path).into())
}

fn has_identity(path: &Path, identity: (u64, u64)) -> bool {
    fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == identity)
}

fn device_of(identity: (u64, u64), devices: &Path) -> Option<String> {
    fs::read_dir(devices)
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("loop"))
        .find(|name| is_of(&devices.join(name), identity))
}

fn is_of(device: &Path, identity: (u64, u64)) -> bool {
    let is_read_only = || fs::read(device.join("ro")).is_ok_and(|text| text == b"1\n");
    backing_file(device).is_some_and(|path| has_identity(&path, identity)) && !is_read_only()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_devices() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str, backing: &str, read_only: &str| {
            let device = directory.path().join(name);
            fs::create_dir_all(device.join("loop")).unwrap();
            fs::write(device.join("loop/backing_file"), format!("{backing}\n")).unwrap();
            fs::write(device.join("ro"), read_only).unwrap();
        };
        let image = directory.path().join("image");
        fs::write(&image, b"x").unwrap();
        let link = directory.path().join("link");
        fs::hard_link(&image, &link).unwrap();
        let found = fs::metadata(&image).unwrap();
        let user = || device_of((found.dev(), found.ino()), directory.path());
        fs::create_dir(directory.path().join("loop0")).unwrap();
        make("loop1", "/image (deleted)", "0\n");
        make("loop2", link.to_str().unwrap(), "1\n");
        make("sda", link.to_str().unwrap(), "0\n");
        assert_eq!(user(), None);
        make("loop3", link.to_str().unwrap(), "0\n");
        assert_eq!(user().as_deref(), Some("loop3"));
    }
}
