// SPDX-License-Identifier: GPL-2.0-only
//! The signals that a thread handles.

use libc::c_int;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Faults, and the signal by which liboutboard interrupts a vCPU: threads that call a kernel handle
/// them.
const OF_KERNELS: [c_int; 8] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGURG,
];

/// Sets the calling thread's mask again.
struct Restore(libc::sigset_t);

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: the set is one that the host returned.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, null_mut()) };
    }
}

/// Threads that the work starts, and those that these start, handle no signal of the process but
/// those that calls of kernels need: no SIGPIPE of a connection that has ended, nor a signal that
/// the program's own threads wait for.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let mut blocked = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the functions initialise the sets that they get, and the numbers are good.
    let _restore = unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for number in OF_KERNELS {
            libc::sigdelset(blocked.as_mut_ptr(), number);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr());
        Restore(before.assume_init())
    };
    work()
}
