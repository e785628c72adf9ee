// SPDX-License-Identifier: MIT
//! A word of shared memory by which one side waits for the other.

use std::io;
use std::ptr::null;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The word has another value, somebody has woken this thread, or the time is over: look again.
    Look,
    /// A signal handler of this thread has run.
    Signal,
}

/// Sleeps while `word` has `value`, at most `time`. Another process may share the word.
pub(crate) fn wait(word: &AtomicU32, value: u32, time: Duration) -> Woken {
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: the word and the time outlive the call, which changes neither.
    let waited = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const time,
            null::<u32>(),
            0,
        )
    };
    let error = io::Error::last_os_error();
    if waited != 0 && error.kind() == io::ErrorKind::Interrupted {
        return Woken::Signal;
    }
    Woken::Look
}

/// Wakes who sleeps at `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call, which does not change it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
