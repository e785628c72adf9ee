// SPDX-License-Identifier: GPL-2.0-only
//! The directory of kernel snapshots, in the user's cache directory.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The XDG Base Directory Specification says: ignore relative paths.
fn cache() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}

/// Whether the existing part of a path belongs to the user: nothing is created in the home
/// directory of another user, which sudo may leave in HOME.
fn is_own(path: &Path) -> bool {
    let user = |path: &Path| std::fs::metadata(path).map(|found| found.uid());
    let Ok(own) = user(Path::new("/proc/self")) else {
        return false;
    };
    path.ancestors()
        .find_map(|directory| user(directory).ok())
        .is_some_and(|owner| owner == own)
}

/// The directory; creates it if it is missing. `None`: not possible, so the kernel boots each time.
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
