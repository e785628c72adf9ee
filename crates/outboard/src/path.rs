// SPDX-License-Identifier: GPL-2.0-only
//! Paths as the kernel takes them.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path as the kernel takes it. A path with a NUL in it is `InvalidInput`.
pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// The name of an extended attribute as the kernel takes it. A NUL in it is `InvalidInput`.
pub(crate) fn c_name(name: &OsStr) -> io::Result<CString> {
    Ok(CString::new(name.as_bytes())?)
}
