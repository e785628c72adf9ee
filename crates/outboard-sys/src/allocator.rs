// SPDX-License-Identifier: GPL-2.0-only
//! The program's memory: where the host gives no more, the program ends with a message.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

const MESSAGE: &[u8] = b"outboard: out of memory: the process has reached its limit (4 GiB, \
or less by ulimit -d or -v, or what the host has); a damaged image may claim endless names\n";

/// Whether a caller takes "no memory" for an answer.
static TOLERANT: AtomicBool = AtomicBool::new(false);

/// The system's allocator, for a program's `#[global_allocator]`.
pub struct Allocator;

/// Runs something that takes "no memory" for an answer, as `Vec::try_reserve` does.
pub fn tolerating_no_memory<T>(work: impl FnOnce() -> T) -> T {
    TOLERANT.store(true, Ordering::Relaxed);
    let result = work();
    TOLERANT.store(false, Ordering::Relaxed);
    result
}

fn checked(memory: *mut u8) -> *mut u8 {
    if memory.is_null() && !TOLERANT.load(Ordering::Relaxed) {
        // SAFETY: the message lives for ever; there is nobody left to report an error to.
        unsafe {
            libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
            libc::_exit(1);
        }
    }
    memory
}

// SAFETY: every call goes to the system's allocator as it came, and its result comes back as it is.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        checked(unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        checked(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        checked(unsafe { System.realloc(memory, layout, size) })
    }
}
