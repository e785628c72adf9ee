// SPDX-License-Identifier: GPL-2.0-only
//! The state in which the host started this process: descriptors, a closed standard output, ignored
//! signals.

use crate::{ffi, restore_terminal};
use libc::c_int;
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

/// The last of the standard streams.
const LAST_STANDARD: RawFd = 2;

/// Descriptors that this process got from the one that started it, besides the standard streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    numbers: Vec<RawFd>,
}

fn number(name: &OsStr) -> Option<RawFd> {
    name.to_str()?.parse().ok()
}

impl Inherited {
    /// Finds them. Programs that this one starts do not get them. To be called before anything is
    /// opened.
    pub fn find() -> Self {
        let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
            return Self::default();
        };
        let found = entries
            .flatten()
            .filter_map(|entry| number(&entry.file_name()));
        let mut numbers: Vec<RawFd> = found.filter(|&number| number > LAST_STANDARD).collect();
        // The descriptor of the listed directory is closed now, and so has no flags.
        numbers.retain(|&number| close_on_exec(number));
        Self { numbers }
    }

    /// Takes one of them, which is nobody else's then. `None`: it is none, or was taken.
    pub(crate) fn take(&mut self, number: RawFd) -> Option<OwnedFd> {
        let at = self.numbers.iter().position(|&found| found == number)?;
        self.numbers.swap_remove(at);
        // SAFETY: the descriptor is older than this program's own, so none of its values owns it,
        // and it is taken only once.
        Some(unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// One of them, for a look. `None`: it is none, or was taken.
    pub(crate) fn at(&self, number: RawFd) -> Option<BorrowedFd<'_>> {
        let found = self.numbers.contains(&number);
        // SAFETY: nobody closes the descriptor while it is one of these: that takes `self`.
        found.then(|| unsafe { BorrowedFd::borrow_raw(number) })
    }

    /// Closes them. Nobody may use them any more, also not as files of `/dev/fd`.
    pub fn close(self) {
        for number in self.numbers {
            // SAFETY: has only a number as its argument. The descriptor is older than this
            // program's own, so none of its values owns it.
            unsafe { libc::close(number) };
        }
    }
}

/// Returns whether there is such a descriptor.
fn close_on_exec(number: RawFd) -> bool {
    // SAFETY: has only numbers as its arguments, and changes no more than what a later exec does.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) == 0 }
}

static NO_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Before main, and before the language's run-time library opens /dev/null in the place of standard
/// streams that are closed.
extern "C" fn look_at_output() {
    // SAFETY: has only numbers as its arguments.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    NO_OUTPUT.store(closed, Ordering::Relaxed);
}

#[used]
#[link_section = ".init_array"]
static LOOK: extern "C" fn() = look_at_output;

/// Whether standard output was closed when the program was started.
pub fn has_no_output() -> bool {
    NO_OUTPUT.load(Ordering::Relaxed)
}

/// Whether a signal is ignored, as SIGHUP under nohup(1).
pub fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: sets nothing, and `action` has room for what it fills in.
    let known = unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) == 0 };
    // SAFETY: all-zero is valid for the structure, and the call filled it in.
    known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Bytes of memory that a kernel may use by default: a quarter of the host's, or half of what the
/// limits of cgroups leave.
pub fn default_memory() -> u64 {
    // SAFETY: has no arguments.
    unsafe { ffi::ob_memory_default() }
}

/// Writes a line of a kernel's log, without a newline, to standard error. Does not block: lines
/// that nobody reads are lost and counted.
pub fn log_to_stderr(line: &[u8]) {
    // SAFETY: the function reads `line` only, and uses neither context nor level.
    unsafe { ffi::ob_log_to_stderr(null_mut(), 0, line.as_ptr().cast(), line.len()) };
}

/// Names this process, as ps(1) shows it. To be called by the main thread.
pub fn set_name(name: &CStr) {
    // SAFETY: the name is a string that outlives the call, which copies at most 16 bytes of it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Ignores a signal from now on.
pub fn ignore(signal: c_int) {
    // SAFETY: no handler is installed, so no code runs that could be unsafe.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Loads libslirp for the rest of the process, if the host has it: when the network needs it, no
/// file is read. devices/net/slirp_api.h has the same name.
pub fn load_libslirp() {
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
    // SAFETY: the name is a string. The network would run the library's initializers, too.
    unsafe { libc::dlopen(c"libslirp.so.0".as_ptr(), flags) };
}

/// Ends the process: no destructor runs, nothing buffered is written. Async-signal-safe.
pub fn end_at_once(code: c_int) -> ! {
    restore_terminal();
    // SAFETY: has only a number as its argument; every other thread ends with the process.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals() {
        assert!(!is_ignored(libc::SIGTERM));
        // The language's run-time library ignores it.
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(-1));
    }

    #[test]
    fn output_is_open() {
        assert!(!has_no_output());
    }
}
