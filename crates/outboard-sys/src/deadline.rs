// SPDX-License-Identifier: GPL-2.0-only
//! A moment by which calls end.

use crate::cancel::{stopped, Cancel};
use crate::stopped::Stopped;
use std::io;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Further away than any program runs.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A moment by which calls end.
///
/// [`Deadline::run`] runs a function. Once the deadline has passed, the calls of that function into
/// kernels of this process fail as after [`Cancel::cancel`]. The error is
/// [`Stopped::TimedOut`](crate::Stopped::TimedOut), which std has as
/// [`TimedOut`](std::io::ErrorKind::TimedOut).
///
/// ```
/// # use outboard_sys::Deadline;
/// # use std::time::Duration;
/// let deadline = Deadline::after(Duration::from_secs(5));
/// let sum = deadline.run(|| 1 + 1);
/// # assert_eq!(sum, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(Instant);

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Self {
        Self(instant)
    }
}

impl Deadline {
    /// The moment that comes after this time.
    pub fn after(limit: Duration) -> Self {
        let now = Instant::now();
        Self(now.checked_add(limit).unwrap_or(now + NEVER))
    }

    /// The moment.
    pub fn instant(self) -> Instant {
        self.0
    }

    /// The rest of the time: zero once it has passed.
    pub fn rest(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    pub fn has_passed(self) -> bool {
        self.rest().is_zero()
    }

    /// Runs a function. Its calls end at the deadline, as far as this thread makes them. A thread
    /// waits for the deadline meanwhile.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let (_timer, cancel) = Timer::start(self);
        cancel.run(work)
    }
}

impl Deadline {
    /// Runs a request to a server. Its calls end at the deadline. Then the server is late: the
    /// error is ETIMEDOUT, and not that of a limit of the caller.
    pub fn run_request<T>(self, request: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.run(request) {
            Err(error) if Stopped::of(&error) == Some(Stopped::TimedOut) => {
                let outer = stopped().map_or_else(late, io::Error::from);
                Err(outer)
            }
            result => result,
        }
    }
}

fn late() -> io::Error {
    io::Error::from_raw_os_error(libc::ETIMEDOUT)
}

/// Stops a canceller at its deadline, unless this is dropped before.
#[derive(Debug)]
pub struct Timer {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    /// A canceller that the deadline stops. If no thread can be made, calls are only refused
    /// once the deadline has passed.
    pub fn start(deadline: Deadline) -> (Self, Cancel) {
        let (end, ended) = channel();
        let cancel = Cancel::at(deadline.0);
        let stopping = cancel.clone();
        let wait = move || {
            if ended.recv_timeout(deadline.rest()) == Err(RecvTimeoutError::Timeout) {
                stopping.time_out();
            }
        };
        let timer = Self {
            end: Some(end),
            thread: Builder::new().spawn(wait).ok(),
        };
        (timer, cancel)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has ended, too.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_passes() {
        let passed = Deadline::from(Instant::now());
        assert!(passed.has_passed());
        assert_eq!(passed.run(stopped), Some(Stopped::TimedOut));
        let never = Deadline::after(Duration::MAX);
        assert!(!never.has_passed());
        assert_eq!(never.run(stopped), None);
        assert_eq!(never.run(|| passed.run(stopped)), Some(Stopped::TimedOut));
    }

    #[test]
    fn a_late_server_is_no_limit_of_the_caller() {
        let (passed, never) = (
            Deadline::from(Instant::now()),
            Deadline::after(Duration::MAX),
        );
        let request = || -> io::Result<()> { Err(Stopped::TimedOut.into()) };
        let inner = passed.run_request(request).unwrap_err();
        assert_eq!(inner.raw_os_error(), Some(libc::ETIMEDOUT));
        let outer = passed.run(|| never.run_request(request)).unwrap_err();
        assert_eq!(Stopped::of(&outer), Some(Stopped::TimedOut));
    }
}
