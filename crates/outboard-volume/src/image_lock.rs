// SPDX-License-Identifier: GPL-2.0-only
//! The lock that a command holds on an image from its first look to its last write.
//!
//! It excludes other programs: QEMU and other runs of this one. The command itself works on the
//! image in several steps, some of them in copies of the process. Each step would find the image
//! locked; hence the list of images that the command's thread has locked, which a copy inherits.
//! Other threads of a library do other work: to them the image is locked.

use crate::image_file::{cannot_open, in_use};
use crate::loop_devices::check_detached;
use crate::servers;
use crate::undo;
use outboard::{Fd, FileLock, HostTree};
use outboard_error::Result;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Device and inode.
type Identity = (u64, u64);

thread_local! {
    static OURS: RefCell<Vec<Identity>> = const { RefCell::new(Vec::new()) };
}

/// Whether this command has the image for itself: nothing in it locks it again.
pub fn is_ours(identity: Identity) -> bool {
    OURS.with_borrow(|ours| ours.contains(&identity))
}

/// One descriptor: a process that is to be without the image closes one.
enum ImageFile {
    Locked(FileLock),
    /// The thread has locked it before.
    Again(Fd),
}

/// An image's file, open and locked.
pub struct ImageLock {
    file: ImageFile,
    /// In the list of the thread, where it stays.
    listed: Option<Identity>,
    _of_thread: PhantomData<*const ()>,
}

/// Refuses to write a file that the host uses. For a block device, an exclusive open that succeeds
/// is enough: programs that use a device hold it exclusively.
fn check_unused(path: &Path) -> io::Result<()> {
    if !std::fs::metadata(path)?.file_type().is_block_device() {
        return check_detached(&File::open(path)?);
    }
    let flags = libc::O_RDONLY | libc::O_EXCL;
    HostTree.open_fd(path, flags, 0).map(drop)
}

impl ImageLock {
    /// Opens and locks an image: for this command alone if it will be written. Then an interrupted
    /// change is undone.
    pub fn take(path: &Path, write: bool) -> Result<Self> {
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(libc::EBUSY) => in_use(path, write, servers::of_image(path).as_ref()),
            _ => cannot_open(path, &error),
        };
        let lock = Self::lock(path, write).map_err(failed)?;
        if write {
            undo::roll_back(path, lock.file())?;
        } else {
            undo::check_locked(path).map_err(failed)?;
        }
        Ok(lock)
    }

    /// Undoes an interrupted change of an image. The lock ends with that, and never counts as one
    /// of the command: other threads may open the same image.
    pub fn undo(path: &Path) -> Result<()> {
        let locked = || {
            check_unused(path)?;
            HostTree.open_fd(path, libc::O_RDWR, 0)?.lock(true)
        };
        let lock = locked().map_err(|error: io::Error| match error.raw_os_error() {
            Some(libc::EBUSY) => in_use(path, true, servers::of_image(path).as_ref()),
            _ => cannot_open(path, &error),
        })?;
        undo::roll_back(path, lock.file())
    }

    fn lock(path: &Path, write: bool) -> io::Result<Self> {
        let flags = if write { libc::O_RDWR } else { libc::O_RDONLY };
        let open = || HostTree.open_fd(path, flags, 0);
        let found = std::fs::metadata(path)?;
        if is_ours(identity_of(&found)) {
            return Ok(Self {
                file: ImageFile::Again(open()?),
                listed: None,
                _of_thread: PhantomData,
            });
        }
        if write {
            check_unused(path)?;
        }
        let file = ImageFile::Locked(open()?.lock(write)?);
        let listed = write.then(|| identity_of(&found));
        OURS.with_borrow_mut(|ours| ours.extend(listed));
        Ok(Self {
            file,
            listed,
            _of_thread: PhantomData,
        })
    }

    /// The image's file.
    pub fn file(&self) -> &Fd {
        match &self.file {
            ImageFile::Locked(lock) => lock.file(),
            ImageFile::Again(file) => file,
        }
    }
}

impl Drop for ImageLock {
    fn drop(&mut self) {
        if let Some(listed) = self.listed {
            OURS.with_borrow_mut(|ours| ours.retain(|&identity| identity != listed));
        }
    }
}

fn identity_of(found: &std::fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (found.dev(), found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard_error::ErrorKind;

    #[test]
    fn a_command_locks_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        std::fs::write(&path, b"x").unwrap();
        let identity = identity_of(&std::fs::metadata(&path).unwrap());
        let lock = ImageLock::take(&path, true).unwrap();
        assert!(is_ours(identity));
        let other = File::options().read(true).write(true).open(&path).unwrap();
        assert!(outboard::FileLock::new(other.try_clone().unwrap(), false).is_err());
        drop(ImageLock::take(&path, true).unwrap());
        assert!(is_ours(identity), "the first lock is held still");
        drop(lock);
        assert!(!is_ours(identity));
        assert!(outboard::FileLock::new(other, true).is_ok());
    }

    #[test]
    fn to_other_threads_it_is_locked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        std::fs::write(&path, b"x").unwrap();
        let lock = ImageLock::take(&path, true).unwrap();
        let take = || ImageLock::take(&path, false).map(drop);
        let other = std::thread::scope(|scope| scope.spawn(take).join().unwrap());
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Locked);
        assert_eq!(take(), Ok(()));
        drop(lock);
    }
}
