// SPDX-License-Identifier: GPL-2.0-only
//! A mounted volume for programs: the engine behind one type.
//!
//! A [`Session`] does the work. This module adds three rules: no setting of the process changes,
//! notes are kept instead of printed, and a forked child leaves its parent's volume alone.

use crate::address::{check_reserved, ImageName};
use crate::options::Options;
use crate::session::Session;
use outboard::{KernelError, Mount, Space, Tree};
use outboard_error::{Failure, Notes};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::mem::forget;
use std::ops::Deref;
use std::process;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Failure>;

/// A mounted volume of a disk image.
///
/// It is used through [`Tree`], to which it dereferences: `volume.read("/etc/fstab")`. Any thread
/// may call. A process can have 16 volumes open at a time; each has a kernel of its own.
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
    /// `None` once it is closed.
    session: Option<Session>,
    /// The session's number of the mount.
    mount: usize,
    notes: Notes,
    /// The process that has opened it.
    process: u32,
}

impl Volume {
    /// Opens a volume for reading. No byte of an image changes, now or later.
    ///
    /// `name` is `IMAGE`, `IMAGE@PARTITION` or `IMAGE@VOLUME`, and `@VOLUME` may follow several
    /// times, as for the program `outboard`: `disk.img`, `disk.img@2`, `disk.qcow2@vg0/root`,
    /// `disk.img@3@@home`. Where an image has one file system only, its own name is enough.
    pub fn open(name: impl AsRef<OsStr>, options: Options) -> Result<Self> {
        Self::open_as(name.as_ref(), options, false)
    }

    /// Opens a volume for reading and writing. No other program or volume can use the image
    /// meanwhile: [`ErrorKind::Locked`](crate::ErrorKind::Locked) if one does so now.
    pub fn open_writable(name: impl AsRef<OsStr>, options: Options) -> Result<Self> {
        Self::open_as(name.as_ref(), options, true)
    }

    fn open_as(name: &OsStr, options: Options, write: bool) -> Result<Self> {
        let notes = Notes::default();
        let (session, mount) = notes.collect(|| mounted(name, options, write))?;
        Ok(Self {
            name: name.to_owned(),
            session: Some(session),
            mount,
            notes,
            process: process::id(),
        })
    }

    /// Its name, as it was opened by.
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
        Ok(self.session().sync()?)
    }

    /// Notes of events that are no errors, as "its journal was not replayed" or a degraded array.
    pub fn warnings(&self) -> Vec<String> {
        self.notes.lines()
    }

    /// The last lines of its kernel's log, warnings and worse. They explain errors of files.
    pub fn kernel_messages(&self) -> Vec<String> {
        self.session().kernel_messages()
    }

    /// Whether its kernel takes calls. Else the error is of kind
    /// [`ErrorKind::Crashed`](crate::ErrorKind::Crashed) after a panic that was contained, or
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) in a forked child. Errors of files do not
    /// say which.
    pub fn check(&self) -> Result<()> {
        match self.session().check_kernel() {
            Ok(()) => Ok(()),
            Err(error) => Err(self.gone(error)),
        }
    }

    /// Writes everything to the host's stable storage, and closes the volume. Returns every error
    /// since the volume was opened that means that something may be missing.
    ///
    /// [`ErrorKind::InUse`](crate::ErrorKind::InUse): files of a volume that can be written are
    /// still open. Everything is written then. Calls of these files fail from now on.
    ///
    /// Dropping a volume does the same, but cannot report errors.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        if self.process != process::id() {
            // All of it is the parent's, down to what waits to be written to the image.
            forget(session);
            return Err(self.gone(KernelError::InParent));
        }
        let state = session.check_kernel();
        let finished = self.notes.collect(|| session.finish());
        state.map_err(|error| self.gone(error))?;
        Ok(finished?)
    }

    fn gone(&self, error: KernelError) -> Failure {
        let what = self.name.to_string_lossy().into_owned();
        Failure::of(&error.into()).after(what)
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("close() consumes the volume")
    }

    fn mounted(&self) -> &Mount {
        self.session().mounted(self.mount)
    }
}

/// A session that has mounted this, and its number for that.
fn mounted(
    name: &OsStr,
    options: Options,
    write: bool,
) -> outboard_error::Result<(Session, usize)> {
    let image = ImageName::find(name);
    check_reserved(&image.file)?;
    let mut session = Session::in_library(options, &image.file, write);
    match session.mount(&image, write) {
        Ok(mount) => Ok((session, mount)),
        Err(error) => {
            // Nothing was written: the first error says what is wrong.
            let _ = session.finish();
            Err(error)
        }
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
