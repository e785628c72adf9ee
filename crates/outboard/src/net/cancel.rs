// SPDX-License-Identifier: GPL-2.0-only
//! Cancellation: one thread ends the blocking calls of another.
//!
//! A thread enters each blocking call in the list of its cancellers, makes the call, and takes the
//! entry out again. `cancel` sets the flag and interrupts every thread in the list. An interrupt
//! that comes too late for its call would end a later one, so the thread waits for that interrupt
//! before it goes on.

use outboard_sys::{errno, libc, Instance, System};
use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest wait for an interrupt that was sent. An interrupt arrives within microseconds.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(1);
/// Wait for a second interrupt, which has mostly merged with the first one.
const MERGED_LIMIT: Duration = Duration::from_millis(5);

/// Ends blocking socket calls of other threads.
///
/// [`Canceller::run`] runs a function. After [`Canceller::cancel`], from any thread, blocking calls
/// of [`crate::net`] in that function fail with `ECANCELED`: the call that blocks now, and every
/// later one. std's helper functions such as `read_exact` return that error, too; they would repeat
/// a call that fails with `EINTR`. Bytes that a call has moved are not lost: such a call succeeds,
/// and the next one fails.
///
/// A clone is the same canceller. It works for sockets of all kernels.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// use outboard::net::Canceller;
/// # let net = outboard::Kernel::builder().boot()?.net();
/// let listener = net.tcp_listen("127.0.0.1:80")?;
/// let canceller = Canceller::new();
/// let stop = canceller.clone();
/// std::thread::spawn(move || stop.cancel());
/// let error = canceller.run(|| listener.accept()).unwrap_err();
/// assert!(Canceller::has_caused(&error));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    shared: Arc<Mutex<Calls>>,
}

#[derive(Debug, Default)]
struct Calls {
    cancelled: bool,
    blocked: Vec<Blocked>,
}

/// A thread in a call that may block.
#[derive(Debug, PartialEq)]
struct Blocked {
    instance: Instance,
    thread: i32,
    interrupted: bool,
}

thread_local! {
    /// Cancellers whose functions the thread runs, the innermost one last.
    static ACTIVE: RefCell<Vec<Canceller>> = const { RefCell::new(Vec::new()) };
}

/// Takes a canceller off the list of its thread, also after a panic.
struct Active;

impl Drop for Active {
    fn drop(&mut self) {
        ACTIVE.with_borrow_mut(|active| drop(active.pop()));
    }
}

fn cancelled() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}

impl Canceller {
    /// One that was not used yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all calls that the functions of [`Canceller::run`] make, now and later.
    pub fn cancel(&self) {
        let mut calls = self.calls();
        calls.cancelled = true;
        for call in calls.blocked.iter_mut().filter(|call| !call.interrupted) {
            // EAGAIN: 64 interrupts are on their way. Other errors: the call ends by itself.
            while let Err(error) = call.instance.interrupt(call.thread) {
                if errno(&error) != Some(libc::EAGAIN) {
                    break;
                }
                std::thread::yield_now();
            }
            call.interrupted = true;
        }
    }

    /// Whether [`Canceller::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.calls().cancelled
    }

    /// Whether an error is that of a cancelled call.
    pub fn has_caused(error: &io::Error) -> bool {
        errno(error) == Some(libc::ECANCELED)
    }

    /// Runs a function. Its blocking calls can be cancelled, as far as this thread makes them.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        ACTIVE.with_borrow_mut(|active| active.push(self.clone()));
        let _active = Active;
        work()
    }

    /// ECANCELED: this was cancelled.
    fn enter(&self, instance: &Instance, thread: i32) -> io::Result<()> {
        let mut calls = self.calls();
        if calls.cancelled {
            return Err(cancelled());
        }
        calls.blocked.push(Blocked {
            instance: instance.clone(),
            thread,
            interrupted: false,
        });
        Ok(())
    }

    /// Returns whether the thread gets or got an interrupt.
    fn leave(&self, instance: &Instance, thread: i32) -> bool {
        let mut calls = self.calls();
        let same = |call: &Blocked| call.thread == thread && call.instance == *instance;
        let place = calls.blocked.iter().position(same);
        place.is_some_and(|place| calls.blocked.swap_remove(place).interrupted)
    }
}

/// Makes a call that may block, so that the thread's cancellers can end it.
pub(crate) fn blocking<T>(system: &System, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let active = ACTIVE.with_borrow(|active| {
        if active.is_empty() {
            None
        } else {
            Some(active.clone())
        }
    });
    match (active, system) {
        (Some(active), System::Kernel(instance)) => cancellable(&active, system, instance, call),
        _ => call(),
    }
}

fn cancellable<T>(
    active: &[Canceller],
    system: &System,
    instance: &Instance,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let thread = system.thread()?;
    let entered = active
        .iter()
        .take_while(|canceller| canceller.enter(instance, thread).is_ok())
        .count();
    let result = if entered == active.len() {
        call()
    } else {
        Err(cancelled())
    };
    let left = active[..entered].iter();
    let interrupts = left
        .filter(|canceller| canceller.leave(instance, thread))
        .count();
    let is_interrupted =
        matches!(&result, Err(error) if error.kind() == io::ErrorKind::Interrupted);
    match (interrupts, is_interrupted) {
        (0, _) | (1, true) => {}
        (_, true) => drop(system.sleep(MERGED_LIMIT)),
        (_, false) => drop(system.sleep(INTERRUPT_LIMIT)),
    }
    if interrupts > 0 && is_interrupted {
        Err(cancelled())
    } else {
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_a_thread_ends_with_the_function() {
        let (outer, inner) = (Canceller::new(), Canceller::new());
        let count = || ACTIVE.with_borrow(Vec::len);
        assert_eq!(outer.run(|| inner.run(count)), 2);
        let panicked = std::panic::catch_unwind(|| outer.run(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(count(), 0);
    }

    #[test]
    fn clones_are_one_canceller() {
        let canceller = Canceller::new();
        let clone = canceller.clone();
        assert!(!clone.is_cancelled());
        canceller.cancel();
        assert!(clone.is_cancelled());
        assert!(Canceller::has_caused(&cancelled()));
        assert!(!Canceller::has_caused(&io::ErrorKind::Interrupted.into()));
    }
}
