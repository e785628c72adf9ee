// SPDX-License-Identifier: GPL-2.0-only
//! Where snapshots of booted kernels are kept: the user's cache directory.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// As the XDG Base Directory Specification has it: what is no absolute path is ignored.
fn cache() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}

/// Whether what is there of a path belongs to the user: nothing is made in the home directory of another
/// one, as sudo may leave it in HOME.
fn is_own(path: &Path) -> bool {
    let user = |path: &Path| std::fs::metadata(path).map(|found| found.uid());
    let Ok(own) = user(Path::new("/proc/self")) else {
        return false;
    };
    path.ancestors()
        .find_map(|directory| user(directory).ok())
        .is_some_and(|owner| owner == own)
}

/// The directory, made if it was not there. `None`: there cannot be one, and the kernel boots each time.
pub fn directory() -> Option<PathBuf> {
    let directory = cache()?.join("outboard");
    if !directory.is_dir() {
        if !is_own(&directory) {
            return None;
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .ok()?;
    }
    Some(directory)
}
