// SPDX-License-Identifier: GPL-2.0-only
//! Copies of this process.

use libc::{c_int, c_ulong, pid_t};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// How often and how long it is waited for threads that are just ending: those that were joined are counted for a
/// moment longer.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// A process that [`fork`] has made.
#[derive(Debug)]
pub struct Child {
    id: pid_t,
}

fn threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Copies the process, which must have one thread: EBUSY. Returns the child to the parent, and `None` to the child. The
/// child is killed when the parent ends before it.
pub fn fork() -> io::Result<Option<Child>> {
    for look in 0.. {
        match threads()? {
            1 => break,
            _ if look == LOOKS => return Err(io::Error::from_raw_os_error(libc::EBUSY)),
            _ => std::thread::sleep(PAUSE),
        }
    }
    // SAFETY: has no arguments; with one thread no lock is held by another one, so the child can go on as the parent does.
    let id = unsafe { libc::fork() };
    match id {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: has only numbers as its arguments, and concerns the child alone.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong) };
            Ok(None)
        }
        id => Ok(Some(Child { id })),
    }
}

/// The program that the command starts is asked to end (SIGTERM) when the thread that has started it ends.
pub fn end_with_parent(command: &mut Command) {
    let ask = || {
        // SAFETY: has only numbers as its arguments, concerns the child alone, and may be called between fork and exec.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as c_ulong) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

impl Child {
    pub fn signal(&self, signal: c_int) -> io::Result<()> {
        // SAFETY: has only numbers as its arguments; the child was not waited for, so the number is still its own.
        match unsafe { libc::kill(self.id, signal) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits until it ends.
    pub fn wait(self) -> io::Result<ExitStatus> {
        let mut status = 0;
        loop {
            // SAFETY: `status` outlives the call.
            if unsafe { libc::waitpid(self.id, &mut status, 0) } == self.id {
                return Ok(ExitStatus::from_raw(status));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}
