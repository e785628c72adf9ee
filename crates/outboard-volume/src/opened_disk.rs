// SPDX-License-Identifier: GPL-2.0-only
//! The state that a disk of a library and its open volumes share: one session, and so one kernel.
//!
//! | call | uses |
//! |---|---|
//! | of a file | the volume's mount: no lock, no session |
//! | `sync`, `check`, `kernel_messages` | the mount, the kernel, its log: no session |
//! | opens a volume, lists, closes | the session, which one thread has at a time |
//!
//! A thread that waits for the session looks from time to time whether the kernel lives. After a
//! contained panic another thread may stay in a call, and keep the session, for ever.
//!
//! A child of fork(2) has what its parent had, down to what waits to be written to the image. It
//! leaves all of it alone, and also the locks: another thread may have held them.

use crate::address::{check_reserved, ImageName};
use crate::options::Options;
use crate::session::{unsynced, Session};
use outboard::{stopped, Kernel, KernelError, Limits, LogRing, Mount};
use outboard_error::{ErrorKind, Failure, Notes};
use std::mem::forget;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Failure>;

/// How long a thread waits for the session before it looks whether the kernel lives.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The session, while no thread has it, and who will still use it.
struct Lending {
    session: Option<Session>,
    /// Handles of the disk, and of its volumes.
    handles: usize,
}

/// An open disk, as its handles and those of its volumes share it.
pub(crate) struct OpenedDisk {
    name: ImageName,
    write: bool,
    kernel: Kernel,
    log: Arc<LogRing>,
    /// The position of the log when the kernel had booted.
    booted: usize,
    /// The process that has opened it.
    process: u32,
    lending: Mutex<Lending>,
    returned: Condvar,
}

/// The session, for one thread.
struct LentSession<'a> {
    disk: &'a OpenedDisk,
    /// `None`: the session has ended.
    session: Option<Session>,
}

impl LentSession<'_> {
    fn get(&mut self) -> &mut Session {
        self.session.as_mut().expect("it ends with the last handle")
    }

    /// See [`OpenedDisk::end`].
    fn end(mut self, mount: Option<Arc<Mount>>) -> outboard_error::Result<usize> {
        let left = {
            let mut lending = self.disk.lock();
            lending.handles -= 1;
            lending.handles
        };
        match mount {
            Some(mount) if left > 0 => self.get().unmount_volume(mount)?,
            None if left > 0 => {}
            mount => {
                drop(mount);
                self.session.take().map_or(Ok(()), Session::finish)?;
            }
        }
        Ok(left)
    }
}

impl Drop for LentSession<'_> {
    fn drop(&mut self) {
        self.disk.lock().session = self.session.take();
        self.disk.returned.notify_one();
    }
}

impl OpenedDisk {
    /// Opens a disk with `first`, which uses its session. The result has one handle.
    pub(crate) fn open<T>(
        name: &ImageName,
        options: Options,
        write: bool,
        first: impl FnOnce(&mut Session) -> outboard_error::Result<T>,
    ) -> Result<(Arc<Self>, T)> {
        check_reserved(&name.file)?;
        let mut session = Session::in_library(options, &name.file, write);
        let started = first(&mut session).and_then(|done| Ok((session.started_kernel()?, done)));
        match started {
            Ok((kernel, done)) => Ok((Arc::new(Self::new(name, write, kernel, session)), done)),
            Err(error) => {
                // Nothing was written: the first error says what is wrong.
                let _ = Limits::none().run(|| session.finish());
                Err(limited(error.into(), "open", name))
            }
        }
    }

    fn new(name: &ImageName, write: bool, kernel: Kernel, session: Session) -> Self {
        let (log, booted) = session.log();
        Self {
            name: ImageName::new(&name.file, None),
            write,
            kernel,
            log,
            booted,
            process: process::id(),
            lending: Mutex::new(Lending {
                session: Some(session),
                handles: 1,
            }),
            returned: Condvar::new(),
        }
    }

    /// The image.
    pub(crate) fn name(&self) -> &ImageName {
        &self.name
    }

    /// Whether its volumes can be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.write
    }

    fn is_of_parent(&self) -> bool {
        self.process != process::id()
    }

    /// Whether its kernel takes calls.
    pub(crate) fn check(&self) -> std::result::Result<(), KernelError> {
        self.kernel.check()
    }

    /// Lines of the kernel's log about it.
    pub(crate) fn kernel_messages(&self) -> Vec<String> {
        crate::session::messages_since(&self.log, self.booted)
    }

    fn lock(&self) -> MutexGuard<'_, Lending> {
        self.lending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the session. An error: the kernel takes no calls, and a thread has the session; or
    /// a limit of the caller has ended the wait.
    fn borrow(&self) -> Result<LentSession<'_>> {
        if self.is_of_parent() {
            return Err(self.gone(KernelError::InParent));
        }
        let mut lending = self.lock();
        loop {
            if let Some(session) = lending.session.take() {
                return Ok(LentSession {
                    disk: self,
                    session: Some(session),
                });
            }
            self.check().map_err(|error| self.gone(error))?;
            if let Some(stopped) = stopped() {
                return Err(Failure::of(&stopped.into()));
            }
            let waited = self.returned.wait_timeout(lending, LOOK_AGAIN);
            lending = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Runs `work` with the session. Its notes go to the list.
    pub(crate) fn call<T>(
        &self,
        notes: &Notes,
        work: impl FnOnce(&mut Session) -> outboard_error::Result<T>,
    ) -> Result<T> {
        self.check().map_err(|error| self.gone(error))?;
        let done = self
            .borrow()
            .and_then(|mut lent| Ok(notes.collect(|| work(lent.get()))?));
        done.map_err(|error| limited(error, "use", &self.name))
    }

    /// Mounts a volume. The mount is a further handle.
    pub(crate) fn mount(&self, name: &ImageName, write: bool, notes: &Notes) -> Result<Arc<Mount>> {
        if write && !self.write {
            let text = format!(
                "cannot write to {}: its disk was opened for reading",
                name.shown()
            );
            let failure = Failure::new(ErrorKind::ReadOnly, text);
            return Err(failure.with_path(name.operand()));
        }
        let mounted = self.call(notes, |session| {
            let mount = session.mount_volume(name, write)?;
            self.lock().handles += 1;
            Ok(mount)
        });
        mounted.map_err(|error| limited(error, "open", name))
    }

    /// Writes what a volume has to stable storage.
    pub(crate) fn sync(&self, name: &ImageName, mount: &Mount, notes: &Notes) -> Result<()> {
        let position = self.log.position();
        match unsynced(&name.shown(), mount) {
            None => Ok(()),
            Some(problem) => {
                let told = self.call(notes, |session| session.told(vec![problem], position));
                told.map_err(|error| limited(error, "sync", name))
            }
        }
    }

    /// Ends a handle: with `mount` that of a volume, else one of the disk. The last one ends the
    /// session. Returns how many are left, or the errors by which something may be missing in the
    /// image. No limit of the caller ends it: what was written must reach the disk.
    pub(crate) fn end(self: Arc<Self>, mount: Option<Arc<Mount>>, notes: &Notes) -> Result<usize> {
        let _unlimited = Limits::none().enter();
        let state = self.check();
        if self.is_of_parent() {
            let error = self.gone(KernelError::InParent);
            forget((mount, self));
            return Err(error);
        }
        let lent = self.borrow()?;
        let ended = notes.collect(|| lent.end(mount));
        state.map_err(|error| self.gone(error))?;
        Ok(ended?)
    }

    fn gone(&self, error: KernelError) -> Failure {
        Failure::of(&error.into()).after(self.name.shown())
    }
}

/// The same error; or that of the caller's limit, which has ended a call about a volume.
fn limited(error: Failure, what: &str, name: &ImageName) -> Failure {
    error.or_limit(format!("cannot {what} {}", name.shown()), name.operand())
}
