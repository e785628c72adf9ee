// SPDX-License-Identifier: GPL-2.0-only
//! Loop devices of the host. What a file system that is mounted from one has in memory must not change in its file beneath: such
//! a file is not written. They lock nothing; sysfs names their files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const DEVICES: &str = "/sys/block";

/// Fails if a file is that of a loop device which can be written. What the host does not tell is no error.
pub fn check_detached(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    match device_of((metadata.dev(), metadata.ino()), Path::new(DEVICES)) {
        Some(name) => Err(io::Error::other(format!(
            "it is in use as /dev/{name} (unmount what is on that, and detach it with losetup -d /dev/{name})"
        ))),
        None => Ok(()),
    }
}

fn device_of(identity: (u64, u64), devices: &Path) -> Option<String> {
    fs::read_dir(devices)
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("loop"))
        .find(|name| is_of(&devices.join(name), identity))
}

/// The file's path may be that of another name space, or be gone: then it is another file, as far as can be told.
fn is_of(device: &Path, identity: (u64, u64)) -> bool {
    let Ok(named) = fs::read(device.join("loop/backing_file")) else {
        return false;
    };
    let path = named.strip_suffix(b"\n").unwrap_or(&named);
    let same = |found: fs::Metadata| (found.dev(), found.ino()) == identity;
    let is_read_only = || fs::read(device.join("ro")).is_ok_and(|text| text == b"1\n");
    fs::metadata(OsStr::from_bytes(path)).is_ok_and(same) && !is_read_only()
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
