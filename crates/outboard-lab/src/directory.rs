// SPDX-License-Identifier: GPL-2.0-only
//! The directory of a lab's links. It is locked while its lab lives, so that the next lab can
//! remove what one that was killed has left.

use outboard::{Fd, HostTree, System};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const PREFIX: &str = "outboard-lab-";
/// A younger directory may not be locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A directory that is removed with the lab.
pub(crate) struct LabDirectory {
    directory: TempDir,
    _lock: Fd,
}

impl LabDirectory {
    pub(crate) fn new() -> io::Result<Self> {
        let place = std::env::temp_dir();
        sweep(&place);
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        let lock = open(directory.path())?;
        lock.try_lock_shared()?;
        Ok(Self {
            directory,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn open(path: &Path) -> io::Result<Fd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    HostTree.open_fd(path, flags, 0)
}

/// Removes the directories of labs that were killed. Others stay, and so do those that cannot be
/// removed.
fn sweep(place: &Path) {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let of_labs = entries.filter(|entry| {
        let name = entry.file_name();
        name.as_bytes().starts_with(PREFIX.as_bytes())
    });
    for entry in of_labs {
        if let Ok(Some(_lock)) = lock_left(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a directory that a lab of this user has left. `None`: its lab lives, or is another user's.
fn lock_left(path: &Path) -> io::Result<Option<Fd>> {
    let directory = open(path)?;
    let found = directory.stat()?;
    let changed = UNIX_EPOCH + Duration::from_secs(found.st_mtime.max(0) as u64);
    let age = SystemTime::now()
        .duration_since(changed)
        .unwrap_or_default();
    let may_be_left = found.st_uid == System::Host.effective_user() && age > YOUNG;
    Ok(if may_be_left && directory.try_lock()? {
        Some(directory)
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_killed_labs_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, age: u64| {
            let path = place.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("hub"), "").unwrap();
            let directory = std::fs::File::open(&path).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            directory.set_modified(time).unwrap();
            path
        };
        let left = make("outboard-lab-left", 100);
        let young = make("outboard-lab-young", 0);
        let other = make("other", 100);
        let used = make("outboard-lab-used", 100);
        let lock = open(&used).unwrap();
        assert!(lock.try_lock_shared().unwrap());
        sweep(place.path());
        assert!(!left.exists());
        assert!(young.exists() && other.exists() && used.exists());
        drop(lock);
        sweep(place.path());
        assert!(!used.exists());
    }
}
