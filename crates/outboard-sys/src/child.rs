// SPDX-License-Identifier: GPL-2.0-only
//! Copies of this process.

use crate::{end_at_once, Fd};
use libc::{c_int, c_ulong, pid_t};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// How often, and how long each time, a caller waits for ending threads: the host counts a joined
/// thread for a moment longer.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// A process that [`fork`] or a command has made, and that was not waited for.
#[derive(Debug)]
pub struct Child {
    id: pid_t,
}

fn threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Copies the process, which must have one thread: EBUSY. Returns the child to the parent, and
/// `None` to the child. The child is killed when the parent ends before it.
pub fn fork() -> io::Result<Option<Child>> {
    let parent = process_id();
    for look in 0.. {
        match threads()? {
            1 => break,
            _ if look == LOOKS => return Err(io::Error::from_raw_os_error(libc::EBUSY)),
            _ => std::thread::sleep(PAUSE),
        }
    }
    // SAFETY: has no arguments; with one thread no lock is held by another one, so the child can go
    // on as the parent does.
    let id = unsafe { libc::fork() };
    match id {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: has only numbers as its arguments, and concerns the child alone.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong) };
            if parent_id() != parent {
                std::process::exit(1);
            }
            Ok(None)
        }
        id => Ok(Some(Child { id })),
    }
}

/// As [`fork`], for a child that runs a function and has nothing else of this process: of the
/// descriptors only the standard ones and `kept`, which this process has no more. The function must
/// not use files of the caller. The child ends with it, and cleans up nothing.
pub fn fork_apart(kept: OwnedFd, run: impl FnOnce(OwnedFd)) -> io::Result<Child> {
    match fork()? {
        Some(child) => Ok(child),
        None => {
            close_others(kept.as_raw_fd());
            run(kept);
            end_at_once(0)
        }
    }
}

/// Closes all descriptors but the standard ones and one more. Their owners, on the stack of a
/// function that never goes on, do not learn of it.
fn close_others(kept: c_int) {
    let first = libc::STDERR_FILENO + 1;
    let ranges = [(first, kept - 1), (first.max(kept + 1), c_int::MAX)];
    for (from, to) in ranges.into_iter().filter(|(from, to)| from <= to) {
        // SAFETY: has only numbers as its arguments. A host without the call leaves the
        // descriptors open, which does no harm.
        unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
    }
}

/// In a copy of this process: closes a descriptor of the caller's. Its owner, on the stack of a
/// function that never goes on in the copy, does not learn of it.
pub fn close_of_parent(number: RawFd) {
    // SAFETY: has only a number as its argument; nothing in the copy uses the descriptor.
    unsafe { libc::close(number) };
}

fn process_id() -> pid_t {
    // SAFETY: has no arguments, and cannot fail.
    unsafe { libc::getpid() }
}

fn parent_id() -> pid_t {
    // SAFETY: has no arguments, and cannot fail.
    unsafe { libc::getppid() }
}

/// The program that the command starts is asked to end (SIGTERM) when the thread that has started
/// it ends.
pub fn end_with_parent(command: &mut Command) {
    let parent = process_id();
    let ask = move || {
        // SAFETY: has only numbers as its arguments, concerns the child alone, and may be called
        // between fork and exec.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as c_ulong) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have ended before the call.
        if parent_id() == parent {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

/// The program that the command starts makes files that only their owner may use.
pub fn make_files_private(command: &mut Command) {
    let set = || {
        // SAFETY: has only a number as its argument, concerns the child alone, and may be called
        // between fork and exec.
        unsafe { libc::umask(0o077) };
        Ok(())
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(set) };
}

/// The number must be that of a child that was not waited for, which nobody else can have.
fn kill(id: pid_t, signal: c_int) -> io::Result<()> {
    // SAFETY: has only numbers as its arguments.
    match unsafe { libc::kill(id, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A descriptor that becomes readable when the process ends. ESRCH: there is no such process.
pub fn process_end(id: u32) -> io::Result<Fd> {
    // SAFETY: has only numbers as its arguments.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, id as pid_t, 0) };
    match c_int::try_from(number) {
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(number) if number >= 0 => Ok(Fd::from(unsafe { OwnedFd::from_raw_fd(number) })),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A program. Its pipes, as far as they are wanted, were taken before.
impl From<std::process::Child> for Child {
    fn from(child: std::process::Child) -> Self {
        Self {
            id: child.id() as pid_t,
        }
    }
}

impl Child {
    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.id as u32
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: c_int) -> io::Result<()> {
        kill(self.id, signal)
    }

    /// Signals a process that leads a process group of its own, and what it has started.
    pub fn signal_group(&self, signal: c_int) -> io::Result<()> {
        kill(-self.id, signal)
    }

    /// Waits until it ends.
    pub fn wait(self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.status(0)? {
                return Ok(status);
            }
        }
    }

    /// How it ended. The child comes back if it still runs.
    pub fn try_wait(self) -> io::Result<Result<ExitStatus, Self>> {
        Ok(self.status(libc::WNOHANG)?.ok_or(self))
    }

    /// `None`: it runs, or a signal came.
    fn status(&self, flags: c_int) -> io::Result<Option<ExitStatus>> {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        match unsafe { libc::waitpid(self.id, &mut status, flags) } {
            0 => Ok(None),
            id if id == self.id => Ok(Some(ExitStatus::from_raw(status))),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                error => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_wakes_a_waiter() {
        let mut child = Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let end = process_end(child.id()).unwrap();
        assert!(!end.wait_to_read(1).unwrap());
        drop(child.stdin.take());
        assert!(end.wait_to_read(60_000).unwrap());
        assert!(child.wait().unwrap().success());
        let gone = process_end(child.id()).map(drop).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }
}
