// SPDX-License-Identifier: GPL-2.0-only
//! Where snapshots of booted kernels are kept: the user's cache directory.

use std::ffi::CString;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// As the XDG Base Directory Specification has it: what is no absolute path is ignored.
fn cache() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}

/// The directory, made if it was not there. `None`: there cannot be one, and the kernel boots each time.
pub fn directory() -> Option<CString> {
    let directory = cache()?.join("outboard");
    if !directory.is_dir() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .ok()?;
    }
    CString::new(directory.as_os_str().as_bytes()).ok()
}
