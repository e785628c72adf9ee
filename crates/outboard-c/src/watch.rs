// SPDX-License-Identifier: GPL-2.0-only
//! Long calls that the caller may watch and cancel: a thread of its own does the work, while the
//! caller's thread calls back and polls the flag.

use crate::argument::CancelFlag;
use crate::result::{caught, in_callback, CallFailure, Result};
use outboard::{Cancel, Limits};
use outboard_transfer::Count;
use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// `struct ob_volume_progress`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ProgressOut {
    size: usize,
    files: u64,
    bytes: u64,
    total: u64,
}

pub type ProgressFunction = extern "C" fn(*mut c_void, *const ProgressOut) -> c_int;

/// How often the caller hears of the progress.
const PAUSE: Duration = Duration::from_millis(100);

/// How the caller watches a call.
#[derive(Clone, Copy)]
pub struct CallWatch<'a> {
    pub progress: Option<ProgressFunction>,
    pub context: *mut c_void,
    pub cancel: CancelFlag<'a>,
}

/// The link between the work and the caller's thread.
#[derive(Clone)]
pub struct WatchedWork {
    pub cancel: Cancel,
    latest: Arc<Mutex<ProgressOut>>,
}

impl WatchedWork {
    fn new() -> Self {
        let watched = Self {
            cancel: Cancel::new(),
            latest: Arc::default(),
        };
        watched.store(&Count::default());
        watched
    }

    fn store(&self, count: &Count) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = ProgressOut {
            size: size_of::<ProgressOut>(),
            files: count.files,
            bytes: count.bytes,
            total: count.total.unwrap_or(0),
        };
    }

    /// For the work: stores how far it is.
    pub fn on_progress(&self) -> impl Fn(&Count) -> ControlFlow<()> + Send + Sync + 'static {
        let watched = self.clone();
        move |count| {
            watched.store(count);
            ControlFlow::Continue(())
        }
    }
}

impl CallWatch<'_> {
    /// Does the work: on this thread, or beside it if the caller watches it. `what`: the work, for
    /// messages.
    pub fn run<T: Send>(
        &self,
        what: &str,
        work: impl FnOnce(Option<&WatchedWork>) -> Result<T> + Send,
    ) -> Result<T> {
        if self.progress.is_none() && self.cancel.get().is_none() {
            return work(None);
        }
        let watched = WatchedWork::new();
        // A caller that has cancelled it before gets nothing.
        if self.is_cancelled(&watched) {
            watched.cancel.cancel();
        }
        let (sender, receiver) = channel();
        let limits = Limits::current();
        thread::scope(|scope| {
            let watched = &watched;
            let worker = move || {
                // The receiver outlives this thread.
                let _ = sender.send(caught(|| limits.run(|| work(Some(watched)))));
            };
            let started = thread::Builder::new().spawn_scoped(scope, worker);
            started.map_err(|error| {
                CallFailure::of_io(format!("cannot start a thread for {what}"), error)
            })?;
            self.wait(&receiver, watched, what)
        })
    }

    /// Calls back, and looks whether to cancel, until the work is done. After a cancel nobody is
    /// called back.
    fn wait<T>(&self, work: &Receiver<Result<T>>, watched: &WatchedWork, what: &str) -> Result<T> {
        loop {
            match work.recv_timeout(PAUSE) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = format!("the thread of {what} has ended");
                    return Err(CallFailure::internal(text));
                }
                Err(RecvTimeoutError::Timeout) if watched.cancel.is_cancelled() => {}
                Err(RecvTimeoutError::Timeout) if self.is_cancelled(watched) => {
                    watched.cancel.cancel();
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn is_cancelled(&self, watched: &WatchedWork) -> bool {
        let flag = self.cancel.get();
        if flag.is_some_and(|flag| flag.load(Ordering::Relaxed) != 0) {
            return true;
        }
        let Some(function) = self.progress else {
            return false;
        };
        let progress = *watched
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        in_callback(|| function(self.context, &progress)) != 0
    }
}
