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

/// Linux: include/uapi/linux/loop.h.
const LOOP_CLR_FD: usize = 0x4c01;

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

    /// The calling thread of a kernel of this process, which ends soon, leaves the root that the
    /// process may have chosen by chroot(2): its root is that of the mount namespace.
    pub fn enter_first_root(&self) -> io::Result<()> {
        let process = self.process_file(self.process()?)?;
        self.unshare(libc::CLONE_FS)?;
        self.enter_mounts(&process)
    }

    /// Makes the directory at this path the working directory.
    pub fn change_directory(&self, path: &CStr) -> io::Result<()> {
        // SAFETY: the path is a NUL-terminated string that outlives the call.
        unsafe { self.call(libc::SYS_chdir, [string(path), 0, 0, 0, 0, 0]) }.map(drop)
    }

    /// Makes the working directory the root.
    pub fn change_root(&self) -> io::Result<()> {
        // SAFETY: the path is NUL-terminated.
        unsafe { self.call(libc::SYS_chroot, [string(c"."), 0, 0, 0, 0, 0]) }.map(drop)
    }

    /// The calling thread, which was set apart, enters a mount namespace, at its root. `mounts`: a
    /// file of /proc/PID/ns.
    pub fn enter_mounts(&self, mounts: &Fd) -> io::Result<()> {
        let arguments = [
            mounts.raw() as usize,
            libc::CLONE_NEWNS as usize,
            0,
            0,
            0,
            0,
        ];
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_setns, arguments) }.map(drop)
    }

    /// From now on the calling thread of a kernel, which was set apart and ends soon, has these
    /// credentials, and no capabilities unless the user is root.
    pub fn become_user(&self, user: u32, group: u32, groups: &[u32]) -> io::Result<()> {
        if self.is_host() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let [user, group] = [user, group].map(|number| number as usize);
        let list = groups.as_ptr() as usize;
        // SAFETY: the kernel reads so many numbers, which outlive the call.
        unsafe { self.call(libc::SYS_setgroups, [groups.len(), list, 0, 0, 0, 0]) }?;
        // SAFETY: has only numbers as its arguments, as the next one.
        unsafe { self.call(libc::SYS_setresgid, [group, group, group, 0, 0, 0]) }?;
        // SAFETY: as above.
        unsafe { self.call(libc::SYS_setresuid, [user, user, user, 0, 0, 0]) }.map(drop)
    }

    /// Ends swapping to a file or device of a kernel.
    pub fn end_swap(&self, path: &CStr) -> io::Result<()> {
        if self.is_host() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        // SAFETY: the path is a NUL-terminated string that outlives the call.
        unsafe { self.call(libc::SYS_swapoff, [string(path), 0, 0, 0, 0, 0]) }.map(drop)
    }

    /// Gives a kernel another host name. EINVAL: it has more than 64 bytes.
    pub fn set_host_name(&self, name: &[u8]) -> io::Result<()> {
        if self.is_host() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let arguments = [name.as_ptr() as usize, name.len(), 0, 0, 0, 0];
        // SAFETY: the kernel reads so many bytes, which outlive the call.
        unsafe { self.call(libc::SYS_sethostname, arguments) }.map(drop)
    }

    /// From now on, programs whose parent has ended become children of the process that calls.
    pub fn adopt_orphans(&self) -> io::Result<()> {
        let arguments = [libc::PR_SET_CHILD_SUBREAPER as usize, 1, 0, 0, 0, 0];
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_prctl, arguments) }.map(drop)
    }

    /// Waits for the end of any child. Returns its number, and its status, as wait(2) has it.
    /// ECHILD: there is none.
    pub fn wait_for_any_child(&self) -> io::Result<(i32, c_int)> {
        self.wait(-1)
    }

    /// Waits for the end of a child. Returns its status, as wait(2) has it.
    pub fn wait_for_child(&self, number: i32) -> io::Result<c_int> {
        self.wait(number).map(|(_, status)| status)
    }

    fn wait(&self, number: i32) -> io::Result<(i32, c_int)> {
        let mut status: c_int = 0;
        loop {
            let arguments = [number as usize, pointer_mut(&mut status), 0, 0, 0, 0];
            // SAFETY: the kernel writes the status, which outlives the call.
            match unsafe { self.call(libc::SYS_wait4, arguments) } {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(|child| (child as i32, status)),
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
    /// Takes the file from this loop device; if it is in use, at the end of its last user.
    pub fn detach_loop(&self) -> io::Result<()> {
        // SAFETY: this request takes no argument.
        unsafe { self.ioctl(LOOP_CLR_FD, 0) }.map(drop)
    }

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
