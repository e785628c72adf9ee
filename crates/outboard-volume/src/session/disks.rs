// SPDX-License-Identifier: GPL-2.0-only
//! The disks of a session: adds images to the kernel, and removes them.

use super::layered::OpenStack;
use super::Session;
use crate::address::ImageName;
use crate::containers::Content;
use crate::held::{HeldImage, HeldImages};
use crate::image::Image;
use crate::image_file::{cannot_open, cannot_write};
use crate::image_lock;
use crate::layers::open_partition;
use crate::remote::{is_remote, Remote};
use outboard::{BlockDevice, DiskOptions, FileLock, KernelDisk};
use outboard_error::format::size as size_text;
use outboard_error::{Error, ErrorKind, Failure, Result};
use outboard_sandbox::interrupt::Guard;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

pub(super) struct OpenDisk {
    pub(super) image: Image,
    pub(super) writable: bool,
    pub(super) disk: KernelDisk,
    /// Released after the disk.
    pub(super) _locks: Vec<FileLock>,
    /// A written file system has to be unmounted.
    pub(super) _guard: Option<Guard>,
}

impl OpenDisk {
    /// Returns an error if the file was written and has no name any more: then it ends with the
    /// session.
    pub(super) fn removed(&self, held: &HeldImages) -> Option<Failure> {
        let is_removed = self.writable && held.has_lost_name(self.image.identity);
        is_removed.then(|| {
            let text = format!(
                "{}: the file was removed while it was open: what was written to it is lost",
                self.image.shown()
            );
            Failure::new(ErrorKind::NotFound, text)
        })
    }

    /// Returns what was lost of what the kernel did not flush itself.
    pub(super) fn flush(&self) -> Option<Failure> {
        if !self.writable {
            return None;
        }
        let error = self.image.content.flush().err()?;
        let what = format!("{}: not everything was written", self.image.shown());
        Some(Failure::of(&error).after(what))
    }
}

impl Session {
    /// Boots the kernel and adds the disk of a name. After that, mounting opens no host file by its
    /// name.
    pub fn prepare(&mut self, name: &ImageName, write: bool) -> Result<()> {
        if write {
            self.may_write(&name.shown())?;
        }
        match Remote::of(&name.file).transpose()? {
            Some(remote) if !remote.is_disk() => self.kernel(None).map(drop),
            _ => self.disk(name, write).map(drop),
        }
    }

    pub(super) fn open_disk(&self, index: usize) -> &OpenDisk {
        let slot = self.disks[index].as_ref();
        slot.expect("a disk that was not released")
    }

    /// Unmounts all file systems of an image and removes its disk, so that it can be opened in
    /// another way. Results of [`Session::open`] for it become invalid.
    pub fn release(&mut self, image: &Image) -> Result<()> {
        let same = |slot: &Option<OpenDisk>| {
            slot.as_ref()
                .is_some_and(|open| open.image.identity == image.identity)
        };
        match self.disks.iter().position(same) {
            Some(disk) => self.release_disk(disk),
            None => Ok(()),
        }
    }

    pub(super) fn release_disk(&mut self, disk: usize) -> Result<()> {
        let position = self.log.position();
        let mut problems = self.unmount_all_of(disk, |_| true);
        if let Some(stack) = self.stack_with(disk) {
            let closed = self.stacks[stack].take();
            problems.extend(closed.iter().flat_map(OpenStack::lost_snapshots));
        }
        let open = self.disks[disk].take();
        problems.extend(open.as_ref().and_then(OpenDisk::flush));
        self.told(problems, position)
    }

    /// Reads the partition table and superblock of an image.
    pub fn image(&self, path: &Path) -> Result<Image> {
        if is_remote(path) {
            return self.remote_image(path);
        }
        self.with_held(path, false, |held| {
            let failed = |error: io::Error| cannot_open(path, &error);
            let identity = held.identity().map_err(failed)?;
            // Reads see the writes of a disk only through the same object.
            let same = |open: &&OpenDisk| open.image.identity == identity;
            let content = match self.disks.iter().flatten().find(same) {
                Some(open) => Arc::clone(&open.image.content),
                None => Arc::new(held.content(false).map_err(failed)?),
            };
            Image::new(path, identity, held.format(), content, held.split())
        })
        .map_err(|error| error.about(path.as_os_str().as_bytes().to_vec()))
    }

    /// Calls `work` with an image; opens the image unless it is held open.
    pub(super) fn with_held<T>(
        &self,
        path: &Path,
        write: bool,
        work: impl FnOnce(&HeldImage) -> T,
    ) -> T {
        match self.held.find(path) {
            Some(held) => work(held),
            None => work(&HeldImage::open(path, write, &self.options.image_options())),
        }
    }

    /// The disk in an image for the kernel, and locks on the files of the image.
    pub(super) fn content(
        &self,
        image: &Image,
        path: &Path,
        write: bool,
    ) -> Result<(Arc<Content>, Vec<FileLock>)> {
        self.with_held(path, write, |held| {
            let failed = |error: io::Error| match error.raw_os_error() {
                Some(libc::EBUSY) => held.in_use(write),
                _ => cannot_write(path, &error),
            };
            if !write {
                let locks = held.lock(false).map_err(failed)?;
                return Ok((Arc::clone(&image.content), locks));
            }
            held.writable().map_err(failed)?;
            let locks = held.lock(true).map_err(failed)?;
            Ok((Arc::new(held.content(true).map_err(failed)?), locks))
        })
    }

    /// Resizes the disk in an image. No kernel may have it open.
    pub fn set_image_size(&self, path: &Path, size: u64) -> Result<()> {
        self.with_held(path, true, |held| {
            held.writable()
                .map_err(|error| cannot_write(path, &error))?;
            let set = || -> io::Result<()> {
                let _locks = held.lock(true)?;
                held.check_locked(true)?;
                held.set_size(size)
            };
            set().map_err(|error| match error.raw_os_error() {
                Some(libc::EBUSY) => held.in_use(true),
                _ => {
                    let text = format!("cannot make {} {}", path.display(), size_text(size));
                    Error::failed(text, &error)
                }
            })
        })
        .map_err(|error| error.about(path.as_os_str().as_bytes().to_vec()))
    }

    /// Adds a disk to the kernel, unless it was added.
    pub(super) fn disk(&mut self, name: &ImageName, write: bool) -> Result<usize> {
        if let Some(remote) = Remote::of(&name.file) {
            return self.remote_disk(&name.file, &remote?, write);
        }
        let image = self.image(&name.file)?;
        if let Some(index) = self.find_disk(&image, write) {
            return Ok(index);
        }
        self.note_use(&name.file, &image);
        // An earlier command may have opened it for reading.
        self.release(&image)?;
        // Reports an image that cannot be mounted before a kernel boots for it.
        let kind = if self.is_layered(&image, name) {
            None
        } else {
            let found = image.find(name, self.options.kind.is_some())?;
            found.probe.map(|probe| probe.kind)
        };
        self.add_disk(image, &name.file, write, kind)
    }

    pub(super) fn find_disk(&self, image: &Image, write: bool) -> Option<usize> {
        let good = |slot: &Option<OpenDisk>| {
            slot.as_ref().is_some_and(|open| {
                open.image.identity == image.identity && (open.writable || !write)
            })
        };
        self.disks.iter().position(good)
    }

    /// `kind`: the type of its file system, if it has only one.
    pub(super) fn add_disk(
        &mut self,
        mut image: Image,
        file: &Path,
        write: bool,
        kind: Option<&str>,
    ) -> Result<usize> {
        let (content, locks) = self.content(&image, file, write)?;
        image.content = Arc::clone(&content);
        let mut options = if write {
            DiskOptions::read_write()
        } else {
            DiskOptions::read_only()
        };
        if image_lock::is_ours(image.identity) {
            options = options.without_lock();
        }
        let kernel = self.kernel(kind)?;
        let guard = write.then(Guard::new);
        let added = match &*content {
            Content::File(file) => kernel.add_disk(&file.path(), options),
            Content::Served(disk) => kernel.add_served_disk(Arc::clone(disk), options),
            Content::Device(_) => unreachable!("a disk of a server is not added again"),
        };
        let disk = added.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => self.with_held(file, write, |held| held.in_use(write)),
            _ => Error::failed(format!("cannot open image {}", file.display()), &error),
        })?;
        // Another process may have had the lock when the image was opened.
        self.with_held(file, write, |held| held.check_locked(write))
            .map_err(|error| cannot_open(file, &error))?;
        self.disks.push(Some(OpenDisk {
            image,
            writable: write,
            disk,
            _locks: locks,
            _guard: guard,
        }));
        Ok(self.disks.len() - 1)
    }

    pub(super) fn device(
        &self,
        name: &ImageName,
        disk: usize,
        partition: Option<u32>,
    ) -> Result<BlockDevice> {
        let open = self.open_disk(disk);
        let opened = match partition {
            None => open.disk.device(None),
            Some(number) => open_partition(&open.disk, open.image.partition(number)?),
        };
        opened.map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO) => Error::known(
                ErrorKind::Damaged,
                format!("{} begins behind the end of the disk", name.shown()),
            ),
            Some(libc::EINVAL) => Error::known(
                ErrorKind::Unsupported,
                format!(
                    "{} does not begin and end between sectors of its disk, so that the kernel \
                     cannot use it",
                    name.shown()
                ),
            ),
            _ => Error::failed(format!("cannot use {}", name.shown()), &error),
        })
    }
}
