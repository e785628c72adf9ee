// SPDX-License-Identifier: GPL-2.0-only
//! Processes of their own, for threads that act for somebody else: `ob_process_*` of the library.
//! A thread that has claimed a task is that task in all its calls, until the task ends or the
//! thread leaves it.

use crate::kernel::check;
use crate::{ffi, Fd, Instance, System};
use std::ffi::CStr;
use std::io;

/// A task that waits for a thread that claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// Its number, as the process sees it that has made it.
    pub seen: i32,
    /// Its number for [`Instance::claim_task`].
    pub number: i32,
}

impl Instance {
    /// Makes a process with one task: no descriptors, the first root, all capabilities. Its parent
    /// is process 1, which reaps it. Returns the task's number. `ENOSYS`: a kernel without an MMU.
    pub fn new_process(&self) -> io::Result<i32> {
        // SAFETY: the handle is good.
        self.named(unsafe { ffi::ob_process_new_on(self.raw()) })
    }

    /// Copies the calling thread's task, as clone(2) does with these flags. `EOPNOTSUPP`: the
    /// thread has claimed none; `ESRCH`: its task has ended.
    pub fn copy_task(&self, flags: u64) -> io::Result<NewTask> {
        let mut number = 0;
        // SAFETY: the handle is good, and the number outlives the call.
        let seen = unsafe { ffi::ob_process_clone_on(self.raw(), flags, &mut number) };
        match (self.named(seen), number) {
            // It was killed and reaped already.
            (Ok(_), 0) => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            (Ok(seen), number) => Ok(NewTask { seen, number }),
            (Err(error), 0) => Err(error),
            // The calling thread's task was killed on its way out: the new one is there.
            (Err(_), number) => Ok(NewTask {
                seen: number,
                number,
            }),
        }
    }

    /// The calling thread becomes this task's. `EBUSY`: it has one; `ESRCH`: no such task waits for
    /// a thread.
    pub fn claim_task(&self, number: i32) -> io::Result<()> {
        // SAFETY: the handle is good.
        self.named(unsafe { ffi::ob_process_claim_on(self.raw(), number) })
            .map(drop)
    }

    /// The calling thread's process does what execve(2) does, without a program: descriptors with
    /// `FD_CLOEXEC` close, its other threads end, and it gets this name.
    pub fn exec_process(&self, name: &CStr) -> io::Result<()> {
        // SAFETY: the handle is good, and the string outlives the call.
        self.named(unsafe { ffi::ob_process_exec_on(self.raw(), name.as_ptr()) })
            .map(drop)
    }

    /// Ends the calling thread's process, as exit_group(2) does.
    pub fn exit_process(&self, status: i32) -> io::Result<()> {
        // SAFETY: has only a number as its argument, and ends a process of the kernel.
        unsafe { self.call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) }.map(drop)
    }

    /// Ends the calling thread's task.
    pub fn leave_task(&self) -> io::Result<()> {
        // SAFETY: the handle is good.
        check(unsafe { ffi::ob_process_leave_on(self.raw()) }).map(drop)
    }

    /// Names the calling thread's task. Only the first 15 bytes count.
    pub fn name_task(&self, name: &CStr) -> io::Result<()> {
        let arguments = [
            libc::PR_SET_NAME as usize,
            name.as_ptr() as usize,
            0,
            0,
            0,
            0,
        ];
        // SAFETY: the kernel reads the string, which outlives the call.
        unsafe { self.call(libc::SYS_prctl, arguments) }.map(drop)
    }

    /// The number of the calling thread's task; `ESRCH`: it has ended.
    pub fn task(&self) -> io::Result<i32> {
        // SAFETY: has no arguments.
        let number = unsafe { self.call(libc::SYS_gettid, [0; 6]) }?;
        Ok(number as i32)
    }
}

impl System {
    /// The number of the calling thread's process.
    pub fn process(&self) -> io::Result<i32> {
        // SAFETY: has no arguments.
        unsafe { self.call(libc::SYS_getpid, [0; 6]) }.map(|number| number as i32)
    }

    /// A file that stands for a process, and can be read when that has ended. `ESRCH`: there is
    /// none.
    pub fn process_file(&self, number: i32) -> io::Result<Fd> {
        let arguments = [number as usize, 0, 0, 0, 0, 0];
        // SAFETY: has only numbers as its arguments.
        let raw = unsafe { self.call(libc::SYS_pidfd_open, arguments) }?;
        Ok(Fd::own(self, raw))
    }
}

impl Fd {
    /// A copy of another process's descriptor, for the calling thread's process. This file stands
    /// for the other one. `EPERM`: the caller may not trace it; `EBADF`: it has no such descriptor.
    pub fn copy_from_process(&self, number: libc::c_int) -> io::Result<Self> {
        let arguments = [number as usize, 0, 0, 0, 0];
        // SAFETY: has only numbers as its arguments.
        let raw = unsafe { self.call(libc::SYS_pidfd_getfd, arguments) }?;
        Ok(Self::own(self.system(), raw))
    }

    /// Sends a signal to the process of a kernel of this process that the file stands for.
    pub fn signal_process(&self, signal: libc::c_int) -> io::Result<()> {
        if self.system().is_host() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let arguments = [signal as usize, 0, 0, 0, 0];
        // SAFETY: has only numbers as its arguments, and NULL. A process of the kernel has no
        // thread that runs Rust code, but this one's own.
        unsafe { self.call(libc::SYS_pidfd_send_signal, arguments) }.map(drop)
    }
}
