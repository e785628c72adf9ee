// SPDX-License-Identifier: GPL-2.0-only
//! The thread that starts a program. Restrictions of a thread do not restrict its process, and a
//! program can end with the thread that has started it.

use std::io;
use std::process::Child;
use std::sync::mpsc::{channel, Sender};
use std::thread::{Builder, JoinHandle};

/// A thread that stays until this is dropped, which joins it. It may have system call filters of
/// its own: while it exists, the host refuses a filter for all threads.
#[derive(Debug)]
pub struct Starter {
    stays: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    /// Runs `start` on a thread, which stays.
    pub fn start(
        start: impl FnOnce() -> io::Result<Child> + Send + 'static,
    ) -> io::Result<(Child, Self)> {
        let (stays, child_ended) = channel::<()>();
        let (tell, started) = channel();
        let thread = Builder::new().spawn(move || {
            if tell.send(start()).is_ok() {
                let _ = child_ended.recv();
            }
        })?;
        let starter = Self {
            stays: Some(stays),
            thread: Some(thread),
        };
        let child = started
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the sandbox could not be set up")))?;
        Ok((child, starter))
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        drop(self.stays.take());
        // If the thread panicked, its missing result has reported that.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
