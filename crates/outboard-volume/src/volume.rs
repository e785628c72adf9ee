// SPDX-License-Identifier: GPL-2.0-only
//! A mounted volume for programs.
//!
//! The session of its disk does the work ([`OpenedDisk`]). This module adds two rules: no setting
//! of the process changes, and notes are kept instead of printed.

use crate::address::ImageName;
use crate::opened_disk::{OpenedDisk, Result};
use crate::volume_options::Options;
use outboard::{KernelError, Mount, Space, Tree};
use outboard_error::{Failure, Notes};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

/// A mounted volume of a disk image.
///
/// It is used through [`Tree`], to which it dereferences: `volume.read("/etc/fstab")`. Any thread
/// may call. A volume that [`Volume::open`] returns has a disk and a kernel of its own; a process
/// can have 16 kernels at a time. Volumes of one [`Disk`](crate::Disk) share its kernel.
///
/// Opening a volume changes no setting of the process: no umask, no signal handler but those of
/// liboutboard, no sandbox. It prints nothing and asks nobody: see [`Volume::warnings`] and
/// [`Options::key_file`].
///
/// ```no_run
/// use outboard_volume::{Options, Volume};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk = Volume::open("laptop.qcow2@3@@home", Options::new().key_file("key"))?;
/// for entry in disk.walk("/ann")? {
///     println!("{}", entry?.path().display());
/// }
/// # Ok(())
/// # }
/// ```
///
/// A panic of the volume's kernel ends the process, unless [`Options::contain_panic`] says
/// otherwise.
pub struct Volume {
    name: OsString,
    image: ImageName,
    notes: Notes,
    /// `None` once it is closed.
    open: Option<OpenVolume>,
}

struct OpenVolume {
    /// Calls of files need nothing else.
    mount: Arc<Mount>,
    disk: Arc<OpenedDisk>,
}

impl Volume {
    /// Opens a volume for reading. No byte of an image changes, now or later.
    ///
    /// `name` is `IMAGE`, `IMAGE@PARTITION` or `IMAGE@VOLUME`, and `@VOLUME` may follow several
    /// times, as for the program `outboard`: `disk.img`, `disk.img@2`, `disk.qcow2@vg0/root`,
    /// `disk.img@3@@home`. If an image has one file system only, its own name is enough.
    ///
    /// Trees and disks of servers are named like `nfs://server/export`, `smb://user@server/share`,
    /// `9p://server/tree` or `nbd://server/disk@2`, with the feature `remote`. A server that cannot
    /// be reached, or does not answer within [`Options::server_timeout`], is
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable). One that was silent for long is
    /// given up: all calls fail until the volume is opened again.
    ///
    /// For several volumes of one image, open a [`Disk`](crate::Disk).
    pub fn open(name: impl AsRef<OsStr>, options: Options) -> Result<Self> {
        Self::open_as(name.as_ref(), options, false)
    }

    /// Opens a volume for reading and writing. No other program, volume or disk can use the image
    /// meanwhile: [`ErrorKind::Locked`](crate::ErrorKind::Locked) if one does so now.
    pub fn open_writable(name: impl AsRef<OsStr>, options: Options) -> Result<Self> {
        Self::open_as(name.as_ref(), options, true)
    }

    fn open_as(name: &OsStr, options: Options, write: bool) -> Result<Self> {
        let notes = Notes::default();
        let image = ImageName::find(name);
        let (disk, mount) = notes.collect(|| {
            OpenedDisk::open(&image, options.into(), write, |session| {
                session.mount_volume(&image, write)
            })
        })?;
        let open = OpenVolume { mount, disk };
        Ok(Self::new(name.to_owned(), image, notes, open))
    }

    fn new(name: OsString, image: ImageName, notes: Notes, open: OpenVolume) -> Self {
        Self {
            name,
            image,
            notes,
            open: Some(open),
        }
    }

    /// A volume of a disk that is open.
    pub(crate) fn of_disk(disk: &Arc<OpenedDisk>, image: ImageName, write: bool) -> Result<Self> {
        let notes = Notes::default();
        let open = OpenVolume {
            mount: disk.mount(&image, write, &notes)?,
            disk: Arc::clone(disk),
        };
        let name = OsString::from_vec(image.operand());
        Ok(Self::new(name, image, notes, open))
    }

    /// Its name, as it was opened by; of a volume of a disk, with the disk's image before it.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The type of its file system, as in "ext4".
    pub fn kind(&self) -> &str {
        self.mounted().kind()
    }

    /// Whether it was opened for reading.
    pub fn is_read_only(&self) -> bool {
        self.mounted().is_read_only()
    }

    /// How much room its file system has.
    pub fn space(&self) -> io::Result<Space> {
        self.mounted().space()
    }

    /// Writes everything that was written so far to the host's stable storage.
    pub fn sync(&self) -> Result<()> {
        let open = self.opened();
        open.disk.sync(&self.image, &open.mount, &self.notes)
    }

    /// Notes of events that are no errors, as "its journal was not replayed" or a degraded array.
    pub fn warnings(&self) -> Vec<String> {
        self.notes.lines()
    }

    /// The last lines of its kernel's log, warnings and worse. They explain errors of files.
    pub fn kernel_messages(&self) -> Vec<String> {
        self.opened().disk.kernel_messages()
    }

    /// Whether its kernel takes calls. Else the error is of kind
    /// [`ErrorKind::Crashed`](crate::ErrorKind::Crashed) after a panic that was contained, or
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) in a forked child. Errors of files do not
    /// say which.
    pub fn check(&self) -> Result<()> {
        match self.opened().disk.check() {
            Ok(()) => Ok(()),
            Err(error) => Err(self.gone(error)),
        }
    }

    /// Writes everything to the host's stable storage, and closes the volume. Returns every error
    /// since the volume was opened that means that something may be missing.
    ///
    /// [`ErrorKind::InUse`](crate::ErrorKind::InUse): files of a volume that can be written are
    /// still open. Everything is written then. Calls of these files fail from now on; those of a
    /// volume of a [`Disk`](crate::Disk) that is still in use go on until the disk's last volume is
    /// closed.
    ///
    /// Dropping a volume does the same, but cannot report errors.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => open.disk.end(Some(open.mount), &self.notes).map(drop),
            None => Ok(()),
        }
    }

    fn gone(&self, error: KernelError) -> Failure {
        let what = self.name.to_string_lossy().into_owned();
        Failure::of(&error.into()).after(what)
    }

    fn opened(&self) -> &OpenVolume {
        self.open.as_ref().expect("close() consumes the volume")
    }

    fn mounted(&self) -> &Mount {
        &self.opened().mount
    }
}

impl Deref for Volume {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        self.mounted()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "Volume({:?})", self.name)
    }
}

/// These bounds must hold for every program that has threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Volume>();
    is_shared::<Failure>();
};
