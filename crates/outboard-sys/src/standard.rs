// SPDX-License-Identifier: GPL-2.0-only
//! The numbers of standard input, output and error in a program that has closed some of them.
//!
//! A new descriptor gets the lowest free number. If that is 1, printf() of the program writes into
//! an image. Rust's runtime opens /dev/null in programs, but not in a library.

use std::process;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

const STANDARD: [libc::c_int; 3] = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO];

/// The process whose thread has the lock, or 0. A fork()ed child takes it over from a thread that
/// it does not have.
static LOCK: AtomicU32 = AtomicU32::new(0);
/// Under the lock, as is the next.
static HOLDERS: AtomicUsize = AtomicUsize::new(0);
/// A bit for each number that is occupied here.
static OCCUPIED: AtomicU32 = AtomicU32::new(0);

/// As long as one exists, descriptors that this process makes get no standard number. Those that
/// were free are occupied by descriptors that can be neither read nor written.
#[derive(Debug)]
pub struct StandardNumbers(());

impl StandardNumbers {
    /// Occupies the numbers that are free.
    pub fn occupy() -> Self {
        locked(|| {
            HOLDERS.fetch_add(1, Ordering::Relaxed);
            STANDARD
                .into_iter()
                .filter(|&fd| flags(fd).is_none())
                .for_each(occupy);
        });
        Self(())
    }
}

impl Drop for StandardNumbers {
    fn drop(&mut self) {
        locked(|| {
            if HOLDERS.fetch_sub(1, Ordering::Relaxed) == 1 {
                let occupied = OCCUPIED.swap(0, Ordering::Relaxed);
                STANDARD
                    .into_iter()
                    .filter(|&fd| occupied & 1 << fd != 0)
                    // The program may have put a file of its own there.
                    .filter(|&fd| flags(fd).is_some_and(|flags| flags & libc::O_PATH != 0))
                    .for_each(close);
            }
        });
    }
}

/// `None`: the number is free.
fn flags(fd: libc::c_int) -> Option<libc::c_int> {
    // SAFETY: has only numbers as its arguments.
    match unsafe { libc::fcntl(fd, libc::F_GETFL) } {
        -1 => None,
        flags => Some(flags),
    }
}

/// Occupies the lowest free number, which is `wanted` unless another thread is quicker.
fn occupy(wanted: libc::c_int) {
    // SAFETY: the path is a string. Without a descriptor the number stays free.
    match unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) } {
        fd if fd == wanted => {
            OCCUPIED.fetch_or(1 << fd, Ordering::Relaxed);
        }
        -1 => {}
        fd => close(fd),
    }
}

/// Closes a descriptor that `occupy` made.
fn close(fd: libc::c_int) {
    // SAFETY: nobody else uses the descriptor.
    unsafe { libc::close(fd) };
}

fn locked(work: impl FnOnce()) {
    let own = process::id();
    loop {
        let owner = LOCK.load(Ordering::Relaxed);
        if owner != own
            && LOCK
                .compare_exchange(owner, own, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            break;
        }
        thread::yield_now();
    }
    work();
    LOCK.store(0, Ordering::Release);
}
