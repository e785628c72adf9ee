// SPDX-License-Identifier: MIT
//! The processor on which a thread runs.

use std::mem::{size_of, MaybeUninit};

/// Its number. Without a host call, where the host has a vDSO.
pub(crate) fn current() -> u32 {
    // SAFETY: has no arguments.
    let number = unsafe { libc::sched_getcpu() };
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Moves the calling thread to another processor, where it is allowed to run; the host may move it
/// again at any time. Without another one, nothing happens.
pub(crate) fn leave(current: u32) {
    let mut all = MaybeUninit::<libc::cpu_set_t>::zeroed();
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the set has the size that is told; all-zero is valid for it.
    let all = unsafe {
        if libc::sched_getaffinity(0, size, all.as_mut_ptr()) != 0 {
            return;
        }
        all.assume_init()
    };
    let mut others = all;
    // SAFETY: the index is below the size of the set. Both sets outlive the calls.
    unsafe {
        if current as usize >= 8 * size {
            return;
        }
        libc::CPU_CLR(current as usize, &mut others);
        if libc::CPU_COUNT(&others) > 0 && libc::sched_setaffinity(0, size, &others) == 0 {
            libc::sched_setaffinity(0, size, &all);
        }
    }
}
