// SPDX-License-Identifier: GPL-2.0-only
//! Programs that a kernel of this process runs, and the calls that prepare and await them.

use crate::ffi;
use crate::system::{pointer_mut, string};
use crate::{Fd, Instance, System};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::io;
use std::ptr::null;

/// Lowest number of a descriptor that replaces no standard one.
const ABOVE_STANDARD: usize = 3;

/// As execve(2) takes strings: pointers, and NULL.
fn list(strings: &[CString]) -> Vec<*const c_char> {
    let pointers = strings.iter().map(|string| string.as_ptr());
    pointers.chain([null()]).collect()
}

impl Instance {
    /// Starts a program (`ob_spawn`). It gets the calling thread's root, working directory,
    /// descriptors 0 to 2 and credentials. Returns the number of its process. `ENOSYS`: this host
    /// cannot run programs.
    pub fn spawn(
        &self,
        path: &CStr,
        arguments: &[CString],
        environment: &[CString],
    ) -> io::Result<i32> {
        let (arguments, environment) = (list(arguments), list(environment));
        // SAFETY: the handle is good; the path and all strings are NUL-terminated, both lists end
        // with NULL, and all outlive the call.
        let number = unsafe {
            ffi::ob_spawn_on(
                self.raw(),
                path.as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
            )
        };
        match number {
            number if number > 0 => Ok(number),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}

impl System {
    /// A new pipe: the end to read from, and the end to write to. Programs do not get them by
    /// themselves.
    pub fn pipe(&self) -> io::Result<(Fd, Fd)> {
        let mut ends = [0 as c_int; 2];
        let arguments = [pointer_mut(&mut ends), libc::O_CLOEXEC as usize, 0, 0, 0, 0];
        // SAFETY: the kernel writes two numbers, which belong to nobody else.
        unsafe { self.call(libc::SYS_pipe2, arguments) }?;
        let [read, write] = ends.map(|end| Fd::own(self, end as usize));
        Ok((read, write))
    }

    /// The calling thread of a kernel of this process gets a table of descriptors, a root and a
    /// working directory of its own. No other thread sees the changes that it makes there.
    pub fn set_thread_apart(&self) -> io::Result<()> {
        self.unshare(libc::CLONE_FILES | libc::CLONE_FS)
    }

    /// Makes the directory the root and the working directory.
    pub fn enter_root(&self, root: &Fd) -> io::Result<()> {
        // SAFETY: has only a number as its argument.
        unsafe { self.call(libc::SYS_fchdir, [root.raw() as usize, 0, 0, 0, 0, 0]) }?;
        // SAFETY: the path is NUL-terminated.
        unsafe { self.call(libc::SYS_chroot, [string(c"."), 0, 0, 0, 0, 0]) }.map(drop)
    }

    /// Makes the directory at this path the working directory.
    pub fn change_directory(&self, path: &CStr) -> io::Result<()> {
        // SAFETY: the path is a NUL-terminated string that outlives the call.
        unsafe { self.call(libc::SYS_chdir, [string(path), 0, 0, 0, 0, 0]) }.map(drop)
    }

    /// Waits for the end of a child. Returns its status, as wait(2) has it.
    pub fn wait_for_child(&self, number: i32) -> io::Result<c_int> {
        let mut status: c_int = 0;
        loop {
            let arguments = [number as usize, pointer_mut(&mut status), 0, 0, 0, 0];
            // SAFETY: the kernel writes the status, which outlives the call.
            match unsafe { self.call(libc::SYS_wait4, arguments) } {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(|_| status),
            }
        }
    }

    /// Sends a signal to a process of a kernel of this process, or, with a negative number, to a
    /// group of them. -1: to all programs.
    pub fn send_signal(&self, number: i32, signal: c_int) -> io::Result<()> {
        if self.is_host() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let arguments = [number as usize, signal as usize, 0, 0, 0, 0];
        // SAFETY: has only numbers as its arguments. A process of the kernel has no thread that
        // runs Rust code, but this one's own, which kill(2) leaves out with -1.
        unsafe { self.call(libc::SYS_kill, arguments) }.map(drop)
    }
}

impl Fd {
    /// Makes these files the standard input, output and error of the calling thread of a kernel,
    /// which was set apart. EXDEV: they are of different kernels.
    pub fn make_standard(files: [&Fd; 3]) -> io::Result<()> {
        for file in files {
            files[0].check_same_system(file)?;
        }
        let mut copies = Vec::new();
        for file in files {
            let arguments = [libc::F_DUPFD_CLOEXEC as usize, ABOVE_STANDARD, 0, 0, 0];
            // SAFETY: has only numbers as its arguments; the new number belongs to nobody else.
            let copy = unsafe { file.call(libc::SYS_fcntl, arguments) }?;
            copies.push(Fd::own(file.system(), copy));
        }
        for (number, copy) in copies.iter().enumerate() {
            // SAFETY: has only numbers as its arguments. The thread has a table of its own, which
            // goes with it: nobody uses what the number meant there.
            unsafe { copy.call(libc::SYS_dup3, [number, 0, 0, 0, 0]) }?;
        }
        Ok(())
    }
}
