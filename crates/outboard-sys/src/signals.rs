// SPDX-License-Identifier: GPL-2.0-only
//! The signals that ask this process to end. A handler counts them; it ends the process only
//! where nothing can be lost:
//!
//! | the program | first signal | again within a second | again later |
//! |---|---|---|---|
//! | polls [`asked`], and a [`Guard`] lives | noted | noted | noted |
//! | polls [`asked`], no guard | noted | noted | ends the process |
//! | does not poll, and a guard lives | noted | noted | noted |
//! | does not poll, no guard | ends the process | | |
//!
//! [`end_if_late`] ends a program that polls, without a guard, some time after its first signal: it
//! is stuck in a call.
//!
//! timeout(1) signals its child and then the child's group; a terminal that hangs up does so too.
//! Hence the second column. SIGUSR1 is only ever noted. The state is the process's: a copy
//! made by fork(2) inherits it.

use crate::{is_ignored, restore_terminal};
use libc::{c_int, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// How another process of this program asks to stop, however often.
const REQUEST: c_int = SIGUSR1;
const CAUGHT: [c_int; 4] = [SIGINT, SIGTERM, SIGHUP, REQUEST];
/// Nanoseconds in which a second signal is the first one again.
const SAME: u64 = 1_000_000_000;

static ASKED: AtomicBool = AtomicBool::new(false);
/// The first signal other than SIGINT; 0: none. More than the current command is to end.
static ENDING: AtomicI32 = AtomicI32::new(0);
/// The first signal, and when it came; 0: none.
static FIRST: AtomicI32 = AtomicI32::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
static POLLED: AtomicBool = AtomicBool::new(false);
/// The current work must not stop half-way.
static DEAF: AtomicBool = AtomicBool::new(false);
static IDLE: AtomicBool = AtomicBool::new(false);
/// SIGINT is meant for another program at the same terminal.
static SPARED: AtomicBool = AtomicBool::new(false);
static GUARDS: AtomicUsize = AtomicUsize::new(0);

/// While one lives, only SIGKILL ends the process before it ends by itself.
#[derive(Debug)]
pub struct Guard(());

impl Guard {
    /// Begins to note signals.
    #[must_use]
    pub fn new() -> Self {
        GUARDS.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        GUARDS.fetch_sub(1, SeqCst);
    }
}

fn now() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the call only fills in `time`, for which zeroes are valid too.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    // Never 0, which stands for "no signal".
    (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64).max(1)
}

/// Sets what a signal does.
fn set_action(signal: c_int, handler: usize) -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeroes are valid for the structure.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is complete; the only handler that is installed is `handle`, which calls
    // nothing that is not async-signal-safe.
    match unsafe { libc::sigaction(signal, action, null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process as the signal does by itself. Called in a handler, where the signal is blocked.
fn end(signal: c_int) {
    restore_terminal();
    let _ = set_action(signal, libc::SIG_DFL);
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: all of these are async-signal-safe, and `set` outlives them.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::raise(signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), null_mut());
    }
}

extern "C" fn handle(signal: c_int) {
    if signal == SIGINT && SPARED.load(SeqCst) {
        return;
    }
    if signal == REQUEST {
        ASKED.store(true, SeqCst);
        return;
    }
    if signal != SIGINT {
        let _ = ENDING.compare_exchange(0, signal, SeqCst, SeqCst);
    }
    let now = now();
    let ends = match SINCE.compare_exchange(0, now, SeqCst, SeqCst) {
        Ok(_) => {
            FIRST.store(signal, SeqCst);
            !POLLED.load(SeqCst)
        }
        Err(first) => now.saturating_sub(first) >= SAME,
    } || IDLE.load(SeqCst) && signal != SIGINT;
    ASKED.store(true, SeqCst);
    let safe = GUARDS.load(SeqCst) == 0 || IDLE.load(SeqCst);
    if ends && safe {
        end(signal);
    }
}

/// Begins to count signals, but for those that the process was started to ignore.
pub fn catch() -> io::Result<()> {
    let handler = handle as extern "C" fn(c_int) as usize;
    let wanted = CAUGHT.into_iter().filter(|&signal| !is_ignored(signal));
    wanted
        .into_iter()
        .try_for_each(|signal| set_action(signal, handler))
}

/// Gives the signals back their usual effect, for programs that handle them in another way.
pub fn release() -> io::Result<()> {
    let wanted = CAUGHT.into_iter().filter(|&signal| !is_ignored(signal));
    wanted
        .into_iter()
        .try_for_each(|signal| set_action(signal, libc::SIG_DFL))
}

/// From now on nothing asks the process to end: another one decides that.
pub fn ignore() -> io::Result<()> {
    CAUGHT
        .into_iter()
        .try_for_each(|signal| set_action(signal, libc::SIG_IGN))
}

/// Ends the process as its first signal does by itself, if that came at least `grace` ago and
/// nothing can be lost. For a program that has promised to poll [`asked`] and may be stuck.
pub fn end_if_late(grace: Duration) {
    let since = SINCE.load(SeqCst);
    let is_late = since != 0 && u128::from(now().saturating_sub(since)) >= grace.as_nanos();
    let signal = FIRST.load(SeqCst);
    if is_late && may_end() && signal != 0 {
        end(signal);
    }
}

/// Whether a program that polls [`asked`] is at work, and nothing is lost if it ends.
pub fn may_end() -> bool {
    let is_free = GUARDS.load(SeqCst) == 0 && !IDLE.load(SeqCst) && !DEAF.load(SeqCst);
    is_free && POLLED.load(SeqCst)
}

/// The program promises to poll [`asked`].
pub fn poll() {
    POLLED.store(true, SeqCst);
}

/// Whether the program has promised to poll [`asked`].
pub fn is_polled() -> bool {
    POLLED.load(SeqCst)
}

/// Whether the program is to stop.
pub fn asked() -> bool {
    (ASKED.load(SeqCst) || ending()) && !DEAF.load(SeqCst)
}

/// The first signal that came, if any.
pub fn first() -> Option<c_int> {
    let noted = [FIRST.load(SeqCst), ENDING.load(SeqCst)];
    noted.into_iter().find(|&signal| signal != 0)
}

/// Whether more than the current command is to end.
pub fn ending() -> bool {
    ENDING.load(SeqCst) != 0
}

/// A new command begins. Signals that end more than a command stay noted.
pub fn forget() {
    ASKED.store(false, SeqCst);
    FIRST.store(0, SeqCst);
    SINCE.store(0, SeqCst);
}

/// Whether nothing is at work: signals other than SIGINT then end the process at once.
pub fn set_idle(idle: bool) {
    IDLE.store(idle, SeqCst);
}

/// Whether nothing is at work.
pub fn is_idle() -> bool {
    IDLE.load(SeqCst)
}

/// While true, nothing is [`asked`].
pub fn set_deaf(deaf: bool) {
    DEAF.store(deaf, SeqCst);
}

/// Whether SIGINT has no effect.
pub fn spare_interrupt(spared: bool) {
    SPARED.store(spared, SeqCst);
}
