// SPDX-License-Identifier: GPL-2.0-only
//! Files, directories and device nodes in the kernel's own file systems (/, /proc, /sys).

use crate::{Fd, System};
use outboard_sys::libc;
use std::ffi::{CStr, CString};
use std::io;

/// The directory of this crate in the kernel's root. Linux makes no such directory.
pub(crate) const HOME: &str = "/outboard";

/// Makes a directory of the kernel's own, unless it exists.
pub(crate) fn make_directory(root: &Fd, path: &CStr) -> io::Result<()> {
    make_directory_of(root, path, 0o700)
}

/// Makes a directory with this mode, unless it exists.
pub(crate) fn make_directory_of(root: &Fd, path: &CStr, mode: u32) -> io::Result<()> {
    match root.make_directory_at(path, mode) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Makes [`HOME`] and its directory of device nodes, unless they exist. Called by all that make
/// names there: kernels that mount nothing do without.
pub(crate) fn make_home(system: &System) -> io::Result<()> {
    let root = Fd::working_directory(system);
    for directory in [c"/outboard", c"/outboard/dev"] {
        make_directory(&root, directory)?;
    }
    Ok(())
}

/// A small text file of the kernel's own file systems, as in /proc.
pub(crate) fn read_text(system: &System, path: &CStr) -> io::Result<String> {
    let file = Fd::working_directory(system).open_at(path, libc::O_RDONLY, 0)?;
    let mut text = Vec::new();
    let mut buffer = [0u8; 4096];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            length => text.extend_from_slice(&buffer[..length]),
        }
    }
}

/// Writes to an attribute of the kernel's own file systems, as in /sys.
pub(crate) fn write_text(system: &System, path: &str, text: &str) -> io::Result<()> {
    let path = CString::new(path)?;
    let file = Fd::working_directory(system).open_at(&path, libc::O_WRONLY, 0)?;
    file.write_all(text.as_bytes())
}

/// Makes a device node of a type (`S_IF*`). One of a device that is gone may have the same name,
/// but another number.
pub(crate) fn make_node(system: &System, path: &CStr, kind: u32, number: u64) -> io::Result<()> {
    let root = Fd::working_directory(system);
    let make = || root.make_node_at(path, kind | 0o600, number);
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
