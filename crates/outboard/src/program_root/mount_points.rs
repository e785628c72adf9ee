// SPDX-License-Identifier: GPL-2.0-only
//! Files and directories that a root makes in the volume as places for mounts. They are removed
//! with the root, unless programs have put something else there.

use outboard_sys::{libc, Fd, System};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::sync::{Mutex, PoisonError};

/// The places, in the order in which they were made.
#[derive(Default)]
pub(super) struct MountPoints(Mutex<Vec<MountPoint>>);

struct MountPoint {
    /// From the root.
    path: CString,
    /// Number of the file system and of the inode.
    device: u64,
    inode: u64,
}

impl MountPoint {
    fn of(path: &CStr, found: &libc::stat) -> Self {
        Self {
            path: path.to_owned(),
            device: found.st_dev,
            inode: found.st_ino,
        }
    }

    /// Removes it, unless it is another file by now, or not empty. By a thread in the programs'
    /// namespace.
    fn remove(&self, system: &System) -> io::Result<()> {
        let here = Fd::working_directory(system);
        let find = || here.stat_at(&self.path, libc::AT_SYMLINK_NOFOLLOW);
        let is_same =
            |found: &libc::stat| (found.st_dev, found.st_ino) == (self.device, self.inode);
        // Several mounts may lie on each other.
        while !is_same(&find()?) {
            system.unmount(&self.path, libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW)?;
        }
        let found = find()?;
        match found.st_mode & libc::S_IFMT {
            libc::S_IFREG if found.st_size == 0 => here.unlink_at(&self.path, 0),
            libc::S_IFDIR => here.unlink_at(&self.path, libc::AT_REMOVEDIR),
            _ => Ok(()),
        }
    }
}

impl MountPoints {
    /// Makes an empty file, unless there is one. By a thread in the programs' namespace.
    pub(super) fn make_file(&self, system: &System, path: &CStr) -> io::Result<()> {
        let here = Fd::working_directory(system);
        let was_there = here.stat_at(path, libc::AT_SYMLINK_NOFOLLOW).is_ok();
        let flags = libc::O_CREAT | libc::O_RDONLY | libc::O_NONBLOCK;
        let file = here.open_at(path, flags, 0o644)?;
        if !was_there {
            self.add(MountPoint::of(path, &file.stat()?));
        }
        Ok(())
    }

    /// Makes a directory and those above it, unless they are there. By a thread in the programs'
    /// namespace.
    pub(super) fn make_directories(&self, system: &System, path: &Path) -> io::Result<()> {
        let here = Fd::working_directory(system);
        let mut above = path.ancestors().collect::<Vec<_>>();
        above.retain(|path| path.components().any(|part| part != Component::RootDir));
        for path in above.into_iter().rev() {
            let path = CString::new(path.as_os_str().as_bytes())?;
            match here.make_directory_at(&path, 0o755) {
                Ok(()) => {
                    let found = here.stat_at(&path, libc::AT_SYMLINK_NOFOLLOW)?;
                    self.add(MountPoint::of(&path, &found));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn add(&self, made: MountPoint) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(made);
    }

    /// Removes all places, the last one first. By a thread in the programs' namespace, when the
    /// programs have ended.
    pub(super) fn remove(&self, system: &System) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(made) = all.pop() {
            // Not worth an error: a program may have made other use of it.
            let _ = made.remove(system);
        }
    }
}
