// SPDX-License-Identifier: GPL-2.0-only
//! Limits of calls: another thread, or a deadline, ends the calls that a thread makes.
//!
//! A thread enters each call in the list of its cancellers, makes the call, and takes the entry out
//! again. A canceller that stops sets its state and aborts every call in the list, again and again
//! until the list is empty: one abort may come before its call, and the client of 9p needs two. An
//! abort that comes too late for its call would end a later one, so the thread waits for that abort
//! before it goes on.
//!
//! | the call | before the stop | after it |
//! |---|---|---|
//! | releases something: close(2), umount2(2) | is aborted | is made, and aborted if it waits |
//! | another one of a kernel | is aborted | fails |
//! | of the host | ends by itself | is made |

use crate::explained::errno;
use crate::stopped::Stopped;
use crate::Instance;
use libc::c_long;
use std::cell::{Cell, RefCell};
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for an abort that was sent. It arrives within microseconds.
const ABORT_LIMIT: Duration = Duration::from_secs(1);
/// Wait for a further abort, which has mostly merged with the first one.
const MERGED_LIMIT: Duration = Duration::from_millis(5);
/// Pause between two aborts of the same call.
const REPEAT: Duration = Duration::from_millis(50);
/// How long the removal of half-done work may take after a stop.
const GRACE: Duration = Duration::from_secs(2);

/// Values of `Shared::state`.
const RUNS: u8 = 0;
const CANCELLED: u8 = 1;
const TIMED_OUT: u8 = 2;

/// Ends calls of other threads that wait.
///
/// [`Cancel::run`] runs a function. After [`Cancel::cancel`], from any thread, the calls of that
/// function into kernels of this process fail: the call that waits now, and every later one. The
/// error is [`Stopped::Cancelled`], with the errno `ECANCELED`. std's helper functions such as
/// `read_exact` return that error, too; they would repeat a call that fails with `Interrupted`.
/// Bytes that a call has moved are not lost: such a call succeeds, and the next one fails. Files
/// that a function has open can still be closed.
///
/// A clone is the same canceller. It works for files and sockets of all kernels, for as many
/// threads as run functions by it.
///
/// ```no_run
/// # fn work() -> std::io::Result<()> { Ok(()) }
/// # use outboard_sys::{Cancel, Stopped};
/// let cancel = Cancel::new();
/// let stop = cancel.clone();
/// std::thread::spawn(move || stop.cancel());
/// let error = cancel.run(|| work()).unwrap_err();
/// assert_eq!(Stopped::of(&error), Some(Stopped::Cancelled));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    shared: Arc<CancelState>,
}

#[derive(Debug, Default)]
struct CancelState {
    state: AtomicU8,
    deadline: Option<Instant>,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    under_way: Vec<CallUnderWay>,
    /// A thread repeats the aborts.
    is_repeated: bool,
}

/// A thread in a call that may wait.
#[derive(Debug)]
struct CallUnderWay {
    instance: Instance,
    thread: i32,
    aborts: u32,
}

thread_local! {
    /// Cancellers whose functions the thread runs, the innermost one last.
    static ACTIVE: RefCell<Vec<Cancel>> = const { RefCell::new(Vec::new()) };
    /// Whether there are any, and the thread is not at work here.
    static IS_LIMITED: Cell<bool> = const { Cell::new(false) };
}

impl CallUnderWay {
    fn abort(&mut self) {
        // EAGAIN: 64 aborts are on their way. Other errors: the call ends by itself.
        while let Err(error) = self.instance.abort(self.thread) {
            if errno(&error) != Some(libc::EAGAIN) {
                break;
            }
            thread::yield_now();
        }
        self.aborts += 1;
    }
}

impl CancelState {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Aborts calls until none is under way.
    fn repeat(&self) {
        loop {
            thread::sleep(REPEAT);
            let mut calls = self.calls();
            if calls.under_way.is_empty() {
                calls.is_repeated = false;
                return;
            }
            calls.under_way.iter_mut().for_each(CallUnderWay::abort);
        }
    }
}

impl Cancel {
    /// One that was not used yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that also stops by itself.
    pub(crate) fn at(deadline: Instant) -> Self {
        Self {
            shared: Arc::new(CancelState {
                deadline: Some(deadline),
                ..CancelState::default()
            }),
        }
    }

    /// Ends all calls that the functions of [`Cancel::run`] make, now and later.
    pub fn cancel(&self) {
        self.stop(CANCELLED);
    }

    /// The deadline has passed.
    pub(crate) fn time_out(&self) {
        self.stop(TIMED_OUT);
    }

    fn stop(&self, state: u8) {
        let mut calls = self.shared.calls();
        // The first reason stays.
        let _ = self
            .shared
            .state
            .compare_exchange(RUNS, state, SeqCst, SeqCst);
        self.abort(&mut calls);
    }

    fn abort(&self, calls: &mut Calls) {
        calls.under_way.iter_mut().for_each(CallUnderWay::abort);
        if calls.under_way.is_empty() || calls.is_repeated {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let repeating = thread::Builder::new().spawn(move || shared.repeat());
        calls.is_repeated = repeating.is_ok();
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.shared.state.load(SeqCst) == CANCELLED
    }

    /// Whether an error is that of a cancelled call.
    pub fn has_caused(error: &io::Error) -> bool {
        Stopped::of(error) == Some(Stopped::Cancelled)
    }

    /// Runs a function. Its calls can be cancelled, as far as this thread makes them.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut limits = Limits::current();
        limits.0.push(self.clone());
        limits.run(work)
    }

    fn stopped(&self) -> Option<Stopped> {
        match self.shared.state.load(SeqCst) {
            CANCELLED => Some(Stopped::Cancelled),
            TIMED_OUT => Some(Stopped::TimedOut),
            _ => {
                let deadline = self.shared.deadline?;
                (Instant::now() >= deadline).then_some(Stopped::TimedOut)
            }
        }
    }

    /// `releases`: the call is made also after a stop.
    fn enter(&self, instance: &Instance, thread: i32, releases: bool) -> Result<(), Stopped> {
        let mut calls = self.shared.calls();
        let stopped = self.stopped();
        match stopped {
            Some(stopped) if !releases => return Err(stopped),
            _ => {}
        }
        calls.under_way.push(CallUnderWay {
            instance: instance.clone(),
            thread,
            aborts: 0,
        });
        if stopped.is_some() {
            self.abort(&mut calls);
        }
        Ok(())
    }

    /// Returns how many aborts the thread gets or got.
    fn leave(&self, instance: &Instance, thread: i32) -> u32 {
        let mut calls = self.shared.calls();
        let same = |call: &CallUnderWay| call.thread == thread && call.instance == *instance;
        let place = calls.under_way.iter().position(same);
        place.map_or(0, |place| calls.under_way.swap_remove(place).aborts)
    }
}

/// The limits of a thread's calls: for threads that work for another one.
#[derive(Clone, Debug, Default)]
pub struct Limits(Vec<Cancel>);

/// The limits of a thread until this is dropped. Then those before hold again.
#[derive(Debug)]
pub struct LimitScope {
    before: Limits,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Limits {
    /// None at all: for work that must be done.
    pub fn none() -> Self {
        Self::default()
    }

    /// Those of the calling thread.
    pub fn current() -> Self {
        Self(ACTIVE.with_borrow(Vec::clone))
    }

    /// Those of the calling thread; once they have stopped it, two seconds more. For the removal
    /// of half-done work.
    pub fn for_cleanup() -> Self {
        match stopped() {
            Some(_) => Self(vec![Cancel::at(Instant::now() + GRACE)]),
            None => Self::current(),
        }
    }

    /// Adds a canceller.
    pub fn with(mut self, cancel: Cancel) -> Self {
        self.0.push(cancel);
        self
    }

    /// Makes these the limits of the calling thread.
    pub fn enter(self) -> LimitScope {
        LimitScope {
            before: self.replace(),
            thread: PhantomData,
        }
    }

    /// Runs a function within these limits, and no others.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let _scope = self.enter();
        work()
    }

    fn replace(self) -> Self {
        // A thread that ends has no limits any more.
        let _ = IS_LIMITED.try_with(|is_limited| is_limited.set(!self.0.is_empty()));
        let before = ACTIVE.try_with(|active| active.replace(self.0));
        Self(before.unwrap_or_default())
    }

    fn stopped(&self) -> Option<Stopped> {
        self.0.iter().find_map(Cancel::stopped)
    }

    fn leave(&self, instance: &Instance, thread: i32) -> u32 {
        let leave = |cancel: &Cancel| cancel.leave(instance, thread);
        self.0.iter().map(leave).sum()
    }

    fn enter_call(
        &self,
        instance: &Instance,
        thread: i32,
        releases: bool,
    ) -> Result<(), (Stopped, u32)> {
        for (index, cancel) in self.0.iter().enumerate() {
            if let Err(stopped) = cancel.enter(instance, thread, releases) {
                let entered = Self(self.0[..index].to_vec());
                return Err((stopped, entered.leave(instance, thread)));
            }
        }
        Ok(())
    }
}

impl Drop for LimitScope {
    fn drop(&mut self) {
        std::mem::take(&mut self.before).replace();
    }
}

/// Whether the limits of the calling thread have stopped it, and why. For work that makes no calls.
pub fn stopped() -> Option<Stopped> {
    if is_limited() {
        ACTIVE.with_borrow(|active| active.iter().find_map(Cancel::stopped))
    } else {
        None
    }
}

/// Whether calls of this thread have limits.
#[inline]
pub(crate) fn is_limited() -> bool {
    IS_LIMITED.get()
}

/// Whether a call gives something back. One that is not made would leak that.
pub(crate) fn is_release(number: c_long) -> bool {
    matches!(number, libc::SYS_close | libc::SYS_umount2)
}

/// The calling thread's number in a kernel. An error: no kernel runs.
fn thread_in(instance: &Instance) -> io::Result<i32> {
    // SAFETY: has no arguments.
    unsafe { instance.call(libc::SYS_gettid, [0; 6]) }.map(|number| number as i32)
}

/// Sleeps until an abort ends that.
fn wait_for_abort(instance: &Instance, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    let arguments = [0, 0, (&raw const limit) as usize, 0, 0, 0];
    // SAFETY: the kernel reads `limit`, which outlives the call. Its result does not matter.
    let _ = unsafe { instance.call(libc::SYS_ppoll, arguments) };
}

/// Waits for the aborts that were sent to a call and have not ended it.
fn settle(instance: &Instance, aborts: u32, is_interrupted: bool) {
    match (aborts, is_interrupted) {
        (0, _) | (1, true) => {}
        (_, true) => wait_for_abort(instance, MERGED_LIMIT),
        (_, false) => wait_for_abort(instance, ABORT_LIMIT),
    }
}

/// Makes a call into a kernel within the limits of the thread. `releases`: also after a stop.
pub fn limited<T>(
    instance: &Instance,
    releases: bool,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    if !is_limited() {
        return call();
    }
    let limits = Limits::current();
    // The calls that are made here have no limits of their own.
    let _unlimited = Limits::none().enter();
    let Ok(thread) = thread_in(instance) else {
        return call();
    };
    if let Err((stopped, aborts)) = limits.enter_call(instance, thread, releases) {
        settle(instance, aborts, false);
        return Err(stopped.into());
    }
    let result = call();
    let aborts = limits.leave(instance, thread);
    let is_interrupted =
        matches!(&result, Err(error) if error.kind() == io::ErrorKind::Interrupted);
    settle(instance, aborts, is_interrupted);
    match (result, limits.stopped()) {
        (Err(_), Some(stopped)) if aborts > 0 => Err(stopped.into()),
        (result, _) => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_thread_end_with_the_function() {
        let (outer, inner) = (Cancel::new(), Cancel::new());
        let count = || ACTIVE.with_borrow(Vec::len);
        assert_eq!(outer.run(|| inner.run(count)), 2);
        let panicked = std::panic::catch_unwind(|| outer.run(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!((count(), is_limited()), (0, false));
        assert_eq!(outer.run(|| Limits::none().run(count)), 0);
    }

    #[test]
    fn clones_are_one_canceller() {
        let cancel = Cancel::new();
        let clone = cancel.clone();
        assert!(!clone.is_cancelled());
        cancel.cancel();
        assert!(clone.is_cancelled());
        assert_eq!(clone.run(stopped), Some(Stopped::Cancelled));
        assert_eq!(stopped(), None);
    }

    #[test]
    fn the_first_reason_stays() {
        let cancel = Cancel::at(Instant::now());
        assert_eq!(cancel.run(stopped), Some(Stopped::TimedOut));
        cancel.time_out();
        cancel.cancel();
        assert_eq!(cancel.run(stopped), Some(Stopped::TimedOut));
        assert!(!cancel.is_cancelled());
    }

    #[test]
    fn cleanup_has_its_own_time() {
        let cancel = Cancel::new();
        let cleanup = || Limits::for_cleanup().run(|| ACTIVE.with_borrow(Vec::len));
        assert_eq!(cleanup(), 0);
        cancel.cancel();
        let during = || Limits::for_cleanup().run(|| (is_limited(), stopped()));
        assert_eq!(cancel.run(during), (true, None));
    }
}
