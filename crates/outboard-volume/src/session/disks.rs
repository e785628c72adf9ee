// SPDX-License-Identifier: GPL-2.0-only
//! The disks of a session: adds images to the kernel, and removes them.

use super::open_disk::OpenDisk;
use super::open_stack::OpenStack;
use super::whole::Session;
use crate::address::ImageName;
use crate::containers::Content;
use crate::image::Image;
use crate::image_file::{cannot_open, cannot_write};
use crate::image_lock;
use crate::layers::open_partition;
use crate::memory_disk::MemoryDisk;
use crate::remote::{is_remote, Remote};
use outboard::{BlockDevice, DiskOptions, FileLock};
use outboard_error::format::size as size_text;
use outboard_error::{Error, ErrorKind, Result};
use outboard_sandbox::interrupt::Guard;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

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

    /// Unmounts all file systems of an image and removes its disk, so that it can be opened in
    /// another way. Results of [`Session::open`] for it become invalid.
    pub fn release(&mut self, image: &Image) -> Result<()> {
        match self.slots.disk_of(image.identity) {
            Some(disk) => self.release_disk(disk),
            None => Ok(()),
        }
    }

    pub(super) fn release_disk(&mut self, disk: usize) -> Result<()> {
        let position = self.machine.position();
        let mut problems = self.unmount_all_of(disk, |_| true);
        if let Some(stack) = self.slots.stack_with(disk) {
            let closed = self.slots.take_stack(stack);
            problems.extend(closed.iter().flat_map(OpenStack::lost_snapshots));
        }
        let open = self.slots.take_disk(disk);
        problems.extend(open.as_ref().and_then(OpenDisk::flush));
        self.told(problems, position)
    }

    /// Reads the partition table and superblock of an image.
    pub fn image(&self, path: &Path) -> Result<Image> {
        if is_remote(path) {
            return self.remote_image(path);
        }
        self.host
            .with_held(path, false, |held| {
                let failed = |error: io::Error| cannot_open(path, &error);
                let identity = held.identity().map_err(failed)?;
                // Reads see the writes of a disk only through the same object.
                let same = |open: &&OpenDisk| open.image.identity == identity;
                let content = match self.slots.disks().find(same) {
                    Some(open) => Arc::clone(&open.image.content),
                    None => Arc::new(held.content(false).map_err(failed)?),
                };
                Image::new(path, identity, held.format(), content, held.split())
            })
            .map_err(|error| error.about(path.as_os_str().as_bytes().to_vec()))
    }

    /// The disk in an image for the kernel, and locks on the files of the image.
    pub(super) fn content(
        &self,
        image: &Image,
        path: &Path,
        write: bool,
    ) -> Result<(Arc<Content>, Vec<FileLock>)> {
        self.host.with_held(path, write, |held| {
            let failed = |error: io::Error| match error.raw_os_error() {
                Some(libc::EBUSY) => held.in_use(self.host.writes_images(write)),
                _ => cannot_write(path, &error),
            };
            if let (Some(most), true) = (self.host.changes_in_memory(), write) {
                let locks = held.lock_to_serve().map_err(failed)?;
                let disk = MemoryDisk::over(Arc::clone(&image.content), most);
                return Ok((Arc::new(Content::Served(Arc::new(disk))), locks));
            }
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
        self.host
            .with_held(path, true, |held| {
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
        if let Some(index) = self.slots.find_disk(&image, write) {
            return Ok(index);
        }
        self.host.note_use(&name.file, &image);
        // An earlier command may have opened it for reading.
        self.release(&image)?;
        // Reports an image that cannot be mounted before a kernel boots for it.
        let kind = if self.is_layered(&image, name) {
            None
        } else {
            let found = image.find(name, self.options().kind.is_some())?;
            found.probe.map(|probe| probe.kind)
        };
        self.add_disk(image, &name.file, write, kind)
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
        let writes_image = self.host.writes_images(write);
        let guard = writes_image.then(Guard::new);
        let added = match &*content {
            Content::File(file) => kernel.add_disk(&file.path(), options),
            Content::Served(disk) => kernel.add_served_disk(Arc::clone(disk), options),
            Content::Device(_) => unreachable!("a disk of a server is not added again"),
        };
        let disk = added.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => self
                .host
                .with_held(file, write, |held| held.in_use(writes_image)),
            _ => Error::failed(format!("cannot open image {}", file.display()), &error),
        })?;
        // Another process may have had the lock when the image was opened.
        self.host
            .with_held(file, write, |held| held.check_locked(writes_image))
            .map_err(|error| cannot_open(file, &error))?;
        Ok(self.slots.add_disk(OpenDisk {
            image,
            writable: write,
            writes_image,
            disk,
            _locks: locks,
            _guard: guard,
        }))
    }

    pub(super) fn device(
        &self,
        name: &ImageName,
        disk: usize,
        partition: Option<u32>,
    ) -> Result<BlockDevice> {
        let open = self.slots.disk(disk);
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
