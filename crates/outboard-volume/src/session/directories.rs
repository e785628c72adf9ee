// SPDX-License-Identifier: GPL-2.0-only
//! The mounts of a session that show a directory of the host.

use super::mounted::{MountSource, MountedDevice};
use super::whole::Session;
use outboard::{HostDirectoryOptions, Kernel, Mount};
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Failure, Result};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The driver by which the kernel sees such a directory.
const DRIVER: &str = "virtiofs";

impl Session {
    /// Mounts a directory of the host. Without `write` nothing of it changes.
    pub(crate) fn mount_directory(&mut self, path: &Path, write: bool) -> Result<usize> {
        let shown = escaped(path.as_os_str().as_bytes());
        if write {
            self.may_write(&shown)?;
        }
        check_directory(path, &shown)?;
        let kernel = self.kernel(Some(DRIVER))?;
        let mount = mount(&kernel, path, write).map_err(|error| failed(&shown, &error))?;
        let mounted = MountedDevice::new(shown, MountSource::Directory, mount);
        Ok(self.slots.add_mount(mounted))
    }
}

fn mount(kernel: &Kernel, path: &Path, write: bool) -> io::Result<Mount> {
    let options = if write {
        HostDirectoryOptions::read_write()
    } else {
        HostDirectoryOptions::read_only()
    };
    kernel.add_directory(path, options)?.mount()
}

/// A file would be shown as a directory with one name.
fn check_directory(path: &Path, shown: &str) -> Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Error::known(
            ErrorKind::Usage,
            format!(
                "cannot use {shown} as the root of programs: it is no directory; if it is an \
                 image, name it as one"
            ),
        )),
        Err(error) => Err(failed(shown, &error)),
    }
}

fn failed(shown: &str, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "; name a directory that has the programs' files",
        io::ErrorKind::PermissionDenied => "; it must be yours to read",
        _ => "",
    };
    let failure = Failure::of(error);
    let reason = failure.message();
    Error::known(
        failure.kind(),
        format!("cannot use {shown} as the root of programs: {reason}{hint}"),
    )
}
