// SPDX-License-Identifier: GPL-2.0-only
//! A disk for programs: an image that is opened once, with all that is in it.

use crate::address::ImageName;
use crate::disk_contents::{list, VolumeEntry};
use crate::opened_disk::{OpenedDisk, Result};
use crate::session::Session;
use crate::volume::Volume;
use crate::volume_options::Options;
use outboard::Limits;
use outboard_error::{Error, ErrorKind, Failure, Notes};
use outboard_image::partition::Table;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A disk image, opened once: its format, its partitions, and the volumes in it.
///
/// [`Disk::volume`] and [`Disk::volume_writable`] mount volumes of it, several at a time, in one
/// kernel. A further volume of an open disk takes about a millisecond, where [`Volume::open`] boots
/// a kernel.
///
/// ```no_run
/// use outboard_volume::{Disk, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk = Disk::open_writable("server.qcow2", Options::new().key_file("key"))?;
/// for entry in disk.volumes()? {
///     println!("{} {}", entry.name().to_string_lossy(), entry.kind().unwrap_or("-"));
/// }
/// let boot = disk.volume("2")?;
/// let root = disk.volume_writable("vg0/root")?;
/// root.write("/etc/issue", boot.read("/issue")?)?;
/// root.close()?;
/// boot.close()?;
/// disk.close()?;
/// # Ok(())
/// # }
/// ```
///
/// # Writers
///
/// A volume that is written excludes all others with bytes of it: the same volume by another name,
/// and a partition or volume above or below it. The error is of kind
/// [`ErrorKind::Locked`](crate::ErrorKind::Locked) and names both volumes. Two partitions or two
/// logical volumes can be written at the same time, and so can two subvolumes of one btrfs. A
/// volume that is only read can be opened any number of times.
///
/// # Lifetime
///
/// Volumes stay open when their disk is dropped. The kernel, and the lock of the image, end with
/// the last of them.
///
/// Any thread may call. Volumes are opened and closed one at a time; meanwhile other threads go on
/// with the volumes that are open. In a child of fork(2), calls fail with
/// [`ErrorKind::Closed`](crate::ErrorKind::Closed) and the parent is not affected.
pub struct Disk {
    name: OsString,
    notes: Notes,
    /// `None` once it is closed.
    open: Option<Arc<OpenedDisk>>,
}

impl Disk {
    /// Opens a disk for reading. No byte of the image changes, now or later.
    ///
    /// `name` is the image's file, or `nbd://server/disk`. Keys come from `options` alone, and are
    /// those of all of its volumes. [`Options::kind`] is for each volume.
    pub fn open(name: impl AsRef<OsStr>, options: Options) -> Result<Self> {
        Self::open_as(name.as_ref(), options, false)
    }

    /// Opens a disk for reading and writing. No other program, volume or disk can use the image
    /// meanwhile: [`ErrorKind::Locked`](crate::ErrorKind::Locked) if one does so now.
    pub fn open_writable(name: impl AsRef<OsStr>, options: Options) -> Result<Self> {
        Self::open_as(name.as_ref(), options, true)
    }

    fn open_as(name: &OsStr, options: Options, write: bool) -> Result<Self> {
        let image = ImageName::find(name);
        if image.partition.is_some() || image.volume.is_some() {
            let text = format!(
                "{} is a volume: open the disk {}, and then this volume of it",
                image.shown(),
                ImageName::new(&image.file, None).shown()
            );
            return Err(Error::Usage(text).about(image.operand()).into());
        }
        let notes = Notes::default();
        let (open, ()) = notes.collect(|| {
            OpenedDisk::open(&image, options.into(), write, |session| {
                session.add_image(&image, write)
            })
        })?;
        Ok(Self {
            name: name.to_owned(),
            notes,
            open: Some(open),
        })
    }

    /// Its name, as it was opened by.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Whether it was opened for reading.
    pub fn is_read_only(&self) -> bool {
        !self.opened().is_writable()
    }

    /// The format of the image, as in "qcow2" or "raw".
    pub fn format(&self) -> Result<&'static str> {
        let image = self.call(|session, image| session.image(&image.file))?;
        Ok(image.format.unwrap_or("raw"))
    }

    /// The size of the disk in the image, in bytes.
    pub fn size(&self) -> Result<u64> {
        Ok(self
            .call(|session, image| session.image(&image.file))?
            .size())
    }

    /// Bytes of a logical sector: 512 or 4096 on most disks. A partition table of a disk with
    /// sectors of 4096 bytes counts these, also in an image file.
    pub fn sector_size(&self) -> Result<u64> {
        let image = self.call(|session, image| session.image(&image.file))?;
        Ok(image.sector_size())
    }

    /// The files that a qcow2 image is based on: the one that the image names, the one that this
    /// one names, and so on. None for other formats.
    pub fn backing(&self) -> Result<Vec<PathBuf>> {
        self.call(|session, image| Ok(session.backing_of(image)))
    }

    /// The partition table. `None`: there is none, or what is on the whole disk counts.
    pub fn table(&self) -> Result<Option<Table>> {
        let image = self.call(|session, image| session.image(&image.file))?;
        Ok(image.partitions().cloned())
    }

    /// Lists partitions and volumes: what can be opened, and what cannot, with the reason. Opens
    /// all layers that need no key, or whose key the options have.
    pub fn volumes(&self) -> Result<Vec<VolumeEntry>> {
        self.call(list)
    }

    /// Opens a volume of it for reading. `name` is what follows `IMAGE@` in a name for
    /// [`Volume::open`]: `"2"`, `"vg0/root"`, `"3@@home"`. `""` is the whole disk, or the only file
    /// system in it.
    ///
    /// The journal of a file system that was not left well is replayed if the disk is open for
    /// writing, as `mount -o ro` does it.
    pub fn volume(&self, name: impl AsRef<OsStr>) -> Result<Volume> {
        Volume::of_disk(self.opened(), self.named(name.as_ref()), false)
    }

    /// Opens a volume of it for reading and writing. [`ErrorKind::ReadOnly`]: the disk was opened
    /// for reading.
    ///
    /// [`ErrorKind::ReadOnly`]: crate::ErrorKind::ReadOnly
    pub fn volume_writable(&self, name: impl AsRef<OsStr>) -> Result<Volume> {
        Volume::of_disk(self.opened(), self.named(name.as_ref()), true)
    }

    /// Notes of events that are no errors, of the disk alone: each volume has its own.
    pub fn warnings(&self) -> Vec<String> {
        self.notes.lines()
    }

    /// The last lines of the kernel's log, warnings and worse, about all volumes.
    pub fn kernel_messages(&self) -> Vec<String> {
        self.opened().kernel_messages()
    }

    /// Whether its kernel takes calls, as [`Volume::check`].
    pub fn check(&self) -> Result<()> {
        self.opened().check().map_err(|error| {
            let what = self.name.to_string_lossy().into_owned();
            Failure::of(&error.into()).after(what)
        })
    }

    /// Writes everything to the host's stable storage, and closes the disk. Returns every error
    /// that means that something may be missing in the image.
    ///
    /// [`ErrorKind::InUse`](crate::ErrorKind::InUse): volumes are still open, and the message names
    /// them. Everything that they have written so far is on stable storage. They go on, and the
    /// last of them that is closed ends the kernel.
    ///
    /// Dropping a disk ends it without a word: its volumes go on, too.
    pub fn close(mut self) -> Result<()> {
        let _unlimited = Limits::none().enter();
        let users = self.call(|session, _| {
            session.sync()?;
            Ok(session.mounted_names())
        });
        let left = self.end();
        let (users, left) = (users?, left?);
        if left == 0 {
            return Ok(());
        }
        let text = format!(
            "{}: volumes of it are still open, and all is written: {}",
            self.name.to_string_lossy(),
            users.join(", ")
        );
        Err(Failure::new(ErrorKind::InUse, text).with_path(self.name.as_bytes().to_vec()))
    }

    /// Returns how many handles are left.
    fn end(&mut self) -> Result<usize> {
        let open = self.open.take();
        open.map_or(Ok(0), |open| open.end(None, &self.notes))
    }

    fn call<T>(
        &self,
        work: impl FnOnce(&mut Session, &ImageName) -> outboard_error::Result<T>,
    ) -> Result<T> {
        let open = self.opened();
        open.call(&self.notes, |session| work(session, open.name()))
    }

    fn named(&self, volume: &OsStr) -> ImageName {
        let file = &self.opened().name().file;
        if volume.is_empty() {
            ImageName::new(file, None)
        } else {
            ImageName::with_selectors(file, volume.as_bytes())
        }
    }

    fn opened(&self) -> &Arc<OpenedDisk> {
        self.open.as_ref().expect("close() consumes the disk")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "Disk({:?})", self.name)
    }
}

/// These bounds must hold for every program that has threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Disk>();
};
