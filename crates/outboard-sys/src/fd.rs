// SPDX-License-Identifier: GPL-2.0-only
//! An open file of a [`System`], and the system calls on it.
//!
//! Names given to the functions ending in `_at` are relative to this file, which
//! is then a directory. Sizes and offsets are in bytes. A call that a
//! signal interrupts is made again, except that reads and writes may be short.

use crate::control::{Control, CONTROL_SIZE};
use crate::end_of_file::{has_exact_sizes, not_nothing};
use crate::entries::Entries;
use crate::explained;
use crate::new_name;
use crate::system::{pointer, pointer_mut, string, StatFs, System};
use libc::{c_int, c_long, c_short, c_uint};
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::time::Duration;

/// Resolves absolute symbolic links and `..` as if the directory were the root.
const RESOLVE_IN_ROOT: u64 = 0x10;

/// The same number on every architecture; not in the `libc` crate for all.
const SYS_FCHMODAT2: c_long = 452;

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// The same time with nanoseconds from 0 to 999,999,999. Some drivers return others: ntfs3 negative
/// ones for times before 1970, btrfs those of a damaged image. The kernel keeps them in 32 bits,
/// without a sign.
fn whole_time(seconds: i64, nanoseconds: i64) -> (i64, i64) {
    const SECOND: i64 = 1_000_000_000;
    let nanoseconds = i64::from(nanoseconds as i32);
    let whole = seconds.saturating_add(nanoseconds.div_euclid(SECOND));
    (whole, nanoseconds.rem_euclid(SECOND))
}

/// An open file; dropping it closes it.
#[derive(Debug)]
pub struct Fd {
    system: System,
    raw: c_int,
}

/// A file of the host.
impl From<OwnedFd> for Fd {
    fn from(owned: OwnedFd) -> Self {
        Self {
            system: System::Host,
            raw: owned.into_raw_fd(),
        }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        if self.raw >= 0 {
            // SAFETY: this is the only owner of the descriptor.
            let _ = unsafe { self.call(libc::SYS_close, [0; 5]) };
        }
    }
}

impl Fd {
    /// Closes it, and tells of an error of writing that only shows now, as on NFS.
    pub fn close(mut self) -> io::Result<()> {
        // SAFETY: this is the only owner of the descriptor, and forgets it.
        let closed = unsafe { self.call(libc::SYS_close, [0; 5]) };
        self.raw = libc::AT_FDCWD;
        closed.map(drop)
    }

    /// Tells of an error of writing that else only a close shows, as on NFS. It stays open.
    pub fn flush(&self) -> io::Result<()> {
        self.duplicate()?.close()
    }

    /// The working directory, without opening it.
    pub fn working_directory(system: &System) -> Self {
        Self {
            system: system.clone(),
            raw: libc::AT_FDCWD,
        }
    }

    /// The kernel that this file belongs to.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// EXDEV: the other file's number means another file here.
    pub(crate) fn check_same_system(&self, other: &Fd) -> io::Result<()> {
        if self.system == other.system {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EXDEV))
        }
    }

    /// The number of the descriptor in its system.
    pub fn raw(&self) -> c_int {
        self.raw
    }

    /// A second descriptor of the same open file.
    pub fn duplicate(&self) -> io::Result<Self> {
        // SAFETY: has only numbers as its arguments.
        let raw = unsafe {
            self.call(
                libc::SYS_fcntl,
                [libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0],
            )
        }?;
        Ok(Self::own(&self.system, raw))
    }

    /// A second descriptor of the host's standard input, output or error (0, 1, 2).
    pub fn standard(number: c_int) -> io::Result<Self> {
        let borrowed = std::mem::ManuallyDrop::new(Self {
            system: System::Host,
            raw: number,
        });
        borrowed.duplicate()
    }

    pub(crate) fn own(system: &System, raw: usize) -> Self {
        Self {
            system: system.clone(),
            raw: raw as c_int,
        }
    }

    /// # Safety
    /// As for `System::call`; the descriptor is the first argument.
    pub(crate) unsafe fn call(&self, number: c_long, a: [usize; 5]) -> io::Result<usize> {
        loop {
            // SAFETY: the caller's promise.
            let result = unsafe {
                self.system
                    .call(number, [self.raw as usize, a[0], a[1], a[2], a[3], a[4]])
            };
            match result {
                Err(error)
                    if error.kind() == io::ErrorKind::Interrupted && number != libc::SYS_close => {}
                other => return other,
            }
        }
    }

    /// Opens a file. `flags`: `O_*` (`O_CLOEXEC` is added); `mode`: permissions of a new file.
    pub fn open_at(&self, name: &CStr, flags: c_int, mode: u32) -> io::Result<Self> {
        if flags & libc::O_CREAT != 0 {
            self.check_new_name(name)?;
        }
        let flags = (flags | libc::O_CLOEXEC | libc::O_LARGEFILE) as usize;
        // SAFETY: the name is a NUL-terminated string that outlives the call.
        let raw =
            unsafe { self.call(libc::SYS_openat, [string(name), flags, mode as usize, 0, 0]) }?;
        Ok(Self::own(&self.system, raw))
    }

    /// Opens a file below this directory, which absolute links and `..` do not leave.
    pub fn open_in_root(&self, path: &CStr, flags: c_int, mode: u32) -> io::Result<Self> {
        self.open_resolved(path, flags, mode, RESOLVE_IN_ROOT)
    }

    /// Opens a file by a path that is resolved as `RESOLVE_*` have it.
    pub(crate) fn open_resolved(
        &self,
        path: &CStr,
        flags: c_int,
        mode: u32,
        resolve: u64,
    ) -> io::Result<Self> {
        let creates = flags & (libc::O_CREAT | libc::O_TMPFILE) != 0;
        if flags & libc::O_CREAT != 0 {
            self.check_new_name(path)?;
        }
        let how = OpenHow {
            flags: (flags | libc::O_CLOEXEC) as u64,
            mode: if creates { u64::from(mode) } else { 0 },
            resolve,
        };
        let size = std::mem::size_of::<OpenHow>();
        // SAFETY: path and `how` outlive the call; `size` is that of `how`.
        let raw =
            unsafe { self.call(libc::SYS_openat2, [string(path), pointer(&how), size, 0, 0]) }?;
        Ok(Self::own(&self.system, raw))
    }

    /// Opens this file once more, which may be open with `O_PATH`; through /proc.
    pub fn reopen(&self, flags: c_int) -> io::Result<Self> {
        Self::working_directory(&self.system).open_at(&self.proc_path(), flags, 0)
    }

    /// The way to this file through /proc: to the file itself also if that is a symbolic link.
    pub(crate) fn proc_path(&self) -> CString {
        CString::new(format!("/proc/self/fd/{}", self.raw)).expect("no NUL in a number")
    }

    /// A lock of the whole file that others may share. `false`: another process has it alone.
    pub fn try_lock_shared(&self) -> io::Result<bool> {
        self.try_flock(libc::LOCK_SH)
    }

    /// A lock of the whole file that nobody else has. `false`: another process has one.
    pub fn try_lock(&self) -> io::Result<bool> {
        self.try_flock(libc::LOCK_EX)
    }

    fn try_flock(&self, operation: i32) -> io::Result<bool> {
        let operation = (operation | libc::LOCK_NB) as usize;
        // SAFETY: has only numbers as its arguments.
        match unsafe { self.call(libc::SYS_flock, [operation, 0, 0, 0, 0]) } {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// `read(2)`. An error if the kernel reads nothing before the end of the file, as for
    /// [`Fd::read_at`].
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.read_once(buffer)? {
            0 if !buffer.is_empty() && self.goes_on(None)? => not_nothing(self.read_once(buffer)?),
            length => Ok(length),
        }
    }

    fn read_once(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len();
        // SAFETY: the kernel writes at most `length` bytes into the buffer.
        unsafe { self.call(libc::SYS_read, [pointer_mut(buffer), length, 0, 0, 0]) }
    }

    /// `write(2)`.
    pub fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        // SAFETY: the kernel reads at most the buffer's length.
        unsafe { self.call(libc::SYS_write, [pointer(buffer), buffer.len(), 0, 0, 0]) }
    }

    /// `pread(2)`. An error, ENODATA, if the kernel reads nothing before the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.read_at_once(buffer, offset)? {
            // Another thread may just have made the file longer.
            0 if !buffer.is_empty() && self.goes_on(Some(offset))? => {
                not_nothing(self.read_at_once(buffer, offset)?)
            }
            length => Ok(length),
        }
    }

    /// Whether a file of the kernel is larger than this offset, or than its position.
    fn goes_on(&self, offset: Option<u64>) -> io::Result<bool> {
        if self.system.is_host() {
            return Ok(false);
        }
        let stat = self.stat()?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Ok(false);
        }
        let offset = match offset {
            Some(offset) => offset,
            None => self.seek(0, libc::SEEK_CUR)?,
        };
        Ok(stat.st_size.unsigned_abs() > offset && has_exact_sizes(self.statfs()?.kind))
    }

    fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = buffer.len();
        // SAFETY: the kernel writes at most `length` bytes into the buffer.
        unsafe {
            self.call(
                libc::SYS_pread64,
                [pointer_mut(buffer), length, offset as usize, 0, 0],
            )
        }
    }

    /// `pwrite(2)`.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        // SAFETY: the kernel reads at most the buffer's length.
        unsafe {
            self.call(
                libc::SYS_pwrite64,
                [pointer(buffer), buffer.len(), offset as usize, 0, 0],
            )
        }
    }

    /// Writes the whole buffer. A kernel that takes nothing is `WriteZero`.
    pub fn write_all(&self, mut buffer: &[u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.write(buffer)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => buffer = &buffer[written..],
            }
        }
        Ok(())
    }

    /// Writes the whole buffer at `offset`.
    pub fn write_all_at(&self, mut buffer: &[u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.write_at(buffer, offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => {
                    buffer = &buffer[written..];
                    offset += written as u64;
                }
            }
        }
        Ok(())
    }

    /// Moves the position. `whence`: `SEEK_*`. Returns the new position.
    pub fn seek(&self, offset: i64, whence: c_int) -> io::Result<u64> {
        // SAFETY: has only numbers as its arguments.
        let position =
            unsafe { self.call(libc::SYS_lseek, [offset as usize, whence as usize, 0, 0, 0]) }?;
        Ok(position as u64)
    }

    /// The offset of the next data, at or after `offset`; `None` if only a hole follows.
    pub fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        match self.seek(offset as i64, libc::SEEK_DATA) {
            Ok(position) => Ok(Some(position)),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The end of the data at `offset`: the next hole or the end of the file.
    pub fn next_hole(&self, offset: u64) -> io::Result<u64> {
        self.seek(offset as i64, libc::SEEK_HOLE)
    }

    /// Metadata of this file.
    pub fn stat(&self) -> io::Result<libc::stat> {
        self.stat_at(c"", libc::AT_EMPTY_PATH)
    }

    /// Metadata of a file. `flags`: `AT_*`.
    pub fn stat_at(&self, name: &CStr, flags: c_int) -> io::Result<libc::stat> {
        let mut result = MaybeUninit::<libc::stat>::zeroed();
        let arguments = [
            string(name),
            result.as_mut_ptr() as usize,
            flags as usize,
            0,
            0,
        ];
        // SAFETY: the name outlives the call, the result has the kernel's layout and all-zero is
        // valid for it.
        let mut stat = unsafe {
            self.call(libc::SYS_newfstatat, arguments)?;
            result.assume_init()
        };
        for (seconds, part) in [
            (&mut stat.st_atime, &mut stat.st_atime_nsec),
            (&mut stat.st_mtime, &mut stat.st_mtime_nsec),
            (&mut stat.st_ctime, &mut stat.st_ctime_nsec),
        ] {
            (*seconds, *part) = whole_time(*seconds, *part);
        }
        Ok(stat)
    }

    /// Metadata of a file with the time of its birth. `flags`: `AT_*`.
    pub fn statx_at(&self, name: &CStr, flags: c_int) -> io::Result<libc::statx> {
        let mut result = MaybeUninit::<libc::statx>::zeroed();
        let mask = (libc::STATX_BASIC_STATS | libc::STATX_BTIME) as usize;
        let arguments = [
            string(name),
            flags as usize,
            mask,
            result.as_mut_ptr() as usize,
            0,
        ];
        // SAFETY: the name outlives the call, the result has the kernel's layout and all-zero is
        // valid for it.
        let mut stat = unsafe {
            self.call(libc::SYS_statx, arguments)?;
            result.assume_init()
        };
        for time in [
            &mut stat.stx_atime,
            &mut stat.stx_mtime,
            &mut stat.stx_ctime,
            &mut stat.stx_btime,
        ] {
            let (seconds, part) = whole_time(time.tv_sec, i64::from(time.tv_nsec));
            (time.tv_sec, time.tv_nsec) = (seconds, part as u32);
        }
        Ok(stat)
    }

    /// Asks or changes what a file system keeps of this file beside the usual. `request`: one that
    /// takes a pointer and moves no more bytes than `data` has.
    pub fn control(&self, request: Control, data: &mut [u8; CONTROL_SIZE]) -> io::Result<()> {
        let arguments = [request.number(), pointer_mut(data), 0, 0, 0];
        // SAFETY: every `Control` reads and writes at most CONTROL_SIZE bytes.
        unsafe { self.call(libc::SYS_ioctl, arguments) }.map(drop)
    }

    /// Has the file system fail all later calls that need its disk or server, and write nothing
    /// more. (`FS_IOC_SHUTDOWN`, without the log.)
    pub fn shut_down_file_system(&self) -> io::Result<()> {
        const SHUTDOWN: usize = 0x8004_587d;
        let nothing_written: u32 = 2;
        let arguments = [SHUTDOWN, pointer(&nothing_written), 0, 0, 0];
        // SAFETY: the kernel reads one number.
        unsafe { self.call(libc::SYS_ioctl, arguments) }.map(drop)
    }

    /// Waits until there is something to read, or the end, but not longer than this. `false`: the
    /// time is over, or a signal came.
    pub fn wait_to_read(&self, milliseconds: c_int) -> io::Result<bool> {
        self.wait_for(libc::POLLIN, milliseconds)
    }

    /// Waits until there is room to write, or the reader has gone, but not longer than this.
    /// `false`: the time is over, or a signal came.
    pub fn wait_to_write(&self, milliseconds: c_int) -> io::Result<bool> {
        self.wait_for(libc::POLLOUT, milliseconds)
    }

    fn wait_for(&self, events: c_short, milliseconds: c_int) -> io::Result<bool> {
        let limit = Duration::from_millis(milliseconds.max(0) as u64);
        match self.poll(events, Some(limit)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            events => Ok(events? != 0),
        }
    }

    /// Bytes that a write takes without waiting after [`Fd::wait_to_write`], if nobody else writes:
    /// `PIPE_BUF`, or all that an empty pipe holds.
    pub fn room(&self) -> usize {
        let mut waiting: c_int = 0;
        // SAFETY: the kernel writes one int.
        let asked = unsafe {
            self.call(
                libc::SYS_ioctl,
                [libc::FIONREAD as usize, pointer_mut(&mut waiting), 0, 0, 0],
            )
        };
        // SAFETY: has only numbers as its arguments. Fails for all that is no pipe.
        let size = unsafe { self.call(libc::SYS_fcntl, [libc::F_GETPIPE_SZ as usize, 0, 0, 0, 0]) };
        match (asked, size) {
            (Ok(_), Ok(size)) if waiting == 0 => size.max(libc::PIPE_BUF),
            _ => libc::PIPE_BUF,
        }
    }

    /// Reads the next names of this directory into the buffer. No records at all: the end.
    pub fn entries<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<Entries<'a>>> {
        let size = buffer.len();
        // SAFETY: the kernel writes at most `size` bytes into the buffer.
        let length =
            unsafe { self.call(libc::SYS_getdents64, [pointer_mut(buffer), size, 0, 0, 0]) }?;
        Ok((length > 0).then(|| Entries::new(&buffer[..length])))
    }

    /// An error if the driver of this directory would change the name of a new file.
    fn check_new_name(&self, name: &CStr) -> io::Result<()> {
        if self.system.is_host() || new_name::is_kept_everywhere(name) {
            Ok(())
        } else {
            new_name::check(self.statfs()?.kind, name)
        }
    }

    /// `mkdirat(2)`.
    pub fn make_directory_at(&self, name: &CStr, mode: u32) -> io::Result<()> {
        self.check_new_name(name)?;
        // SAFETY: the name outlives the call.
        unsafe { self.call(libc::SYS_mkdirat, [string(name), mode as usize, 0, 0, 0]) }.map(drop)
    }

    /// Makes a device node, FIFO or socket. `mode`: `S_IF*` and permissions.
    pub fn make_node_at(&self, name: &CStr, mode: u32, device: u64) -> io::Result<()> {
        self.check_new_name(name)?;
        // SAFETY: the name outlives the call.
        unsafe {
            self.call(
                libc::SYS_mknodat,
                [string(name), mode as usize, device as usize, 0, 0],
            )
        }
        .map(drop)
        .map_err(|error| self.explain_share(error, "devices, FIFOs and sockets (see ?sfu)"))
    }

    /// `symlinkat(2)`.
    pub fn make_symlink_at(&self, target: &CStr, name: &CStr) -> io::Result<()> {
        self.check_new_name(name)?;
        if !self.system.is_host() && target.to_str().is_err() {
            new_name::check_target(self.statfs()?.kind, target)?;
        }
        let arguments = [string(target), self.raw as usize, string(name), 0, 0, 0];
        // SAFETY: both strings outlive the call.
        unsafe { self.system.call(libc::SYS_symlinkat, arguments) }
            .map(drop)
            .map_err(|error| self.explain_share(error, "symbolic links (see ?mfsymlinks)"))
    }

    /// The kernel's SMB client says EIO where a share cannot have such a file.
    fn explain_share(&self, error: io::Error, what: &str) -> io::Error {
        let is_share = || {
            self.statfs()
                .is_ok_and(|found| new_name::is_share(found.kind))
        };
        match error.raw_os_error() {
            Some(libc::EIO) if is_share() => {
                explained(error, format!("this SMB share takes no {what}"))
            }
            _ => error,
        }
    }

    /// Makes `new_name` in `new_directory` another name of a file. `flags`: `AT_*`.
    pub fn link_at(
        &self,
        name: &CStr,
        new_directory: &Fd,
        new_name: &CStr,
        flags: c_int,
    ) -> io::Result<()> {
        self.with_new_name(
            libc::SYS_linkat,
            name,
            new_directory,
            new_name,
            flags as usize,
        )
    }

    /// A call that gives a file another name.
    fn with_new_name(
        &self,
        number: libc::c_long,
        name: &CStr,
        new_directory: &Fd,
        new_name: &CStr,
        flags: usize,
    ) -> io::Result<()> {
        self.check_same_system(new_directory)?;
        new_directory.check_new_name(new_name)?;
        let directory = new_directory.raw as usize;
        let arguments = [string(name), directory, string(new_name), flags, 0];
        // SAFETY: both names outlive the call.
        unsafe { self.call(number, arguments) }.map(drop)
    }

    /// Removes a name. `flags`: `AT_REMOVEDIR` for a directory.
    pub fn unlink_at(&self, name: &CStr, flags: c_int) -> io::Result<()> {
        // SAFETY: the name outlives the call.
        unsafe { self.call(libc::SYS_unlinkat, [string(name), flags as usize, 0, 0, 0]) }.map(drop)
    }

    /// Renames. `flags`: `RENAME_*`.
    pub fn rename_at(
        &self,
        name: &CStr,
        new_directory: &Fd,
        new_name: &CStr,
        flags: u32,
    ) -> io::Result<()> {
        let number = libc::SYS_renameat2;
        self.with_new_name(number, name, new_directory, new_name, flags as usize)
    }

    /// The target of a symbolic link.
    pub fn read_link_at(&self, name: &CStr) -> io::Result<CString> {
        let mut buffer = vec![0u8; libc::PATH_MAX as usize];
        let arguments = [
            string(name),
            pointer_mut(buffer.as_mut_slice()),
            buffer.len(),
            0,
            0,
        ];
        // SAFETY: the name outlives the call, the kernel writes at most the buffer's length.
        let length = unsafe { self.call(libc::SYS_readlinkat, arguments) }?;
        buffer.truncate(length);
        Ok(CString::new(buffer)?)
    }

    /// Changes the owner of a file. `flags`: `AT_*`; with an empty name and `AT_EMPTY_PATH` of this
    /// one.
    pub fn set_owner_at(&self, name: &CStr, user: u32, group: u32, flags: c_int) -> io::Result<()> {
        let arguments = [
            string(name),
            user as usize,
            group as usize,
            flags as usize,
            0,
        ];
        // SAFETY: the name outlives the call.
        unsafe { self.call(libc::SYS_fchownat, arguments) }.map(drop)
    }

    /// Changes the permissions of this file.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_fchmod, [mode as usize, 0, 0, 0, 0]) }.map(drop)
    }

    /// Changes the permissions of this file, which may be open with `O_PATH`. Needs Linux 6.6.
    pub fn set_own_mode(&self, mode: u32) -> io::Result<()> {
        let arguments = [
            string(c""),
            mode as usize,
            libc::AT_EMPTY_PATH as usize,
            0,
            0,
        ];
        // SAFETY: the empty name outlives the call.
        unsafe { self.call(SYS_FCHMODAT2, arguments) }.map(drop)
    }

    /// Changes the permissions of a file, following a symbolic link: not for a name that somebody
    /// else may replace, see [`crate::PathFd::set_mode`].
    pub(crate) fn set_mode_at(&self, name: &CStr, mode: u32) -> io::Result<()> {
        // SAFETY: the name outlives the call.
        unsafe { self.call(libc::SYS_fchmodat, [string(name), mode as usize, 0, 0, 0]) }.map(drop)
    }

    /// Changes the permissions of a file. `flags`: `AT_*`; with an empty name and `AT_EMPTY_PATH`
    /// of this one, which may be open with `O_PATH`. ENOSYS: a kernel older than Linux 6.6, so this
    /// is for files in images.
    pub fn change_mode_at(&self, name: &CStr, mode: u32, flags: c_int) -> io::Result<()> {
        let arguments = [string(name), mode as usize, flags as usize, 0, 0];
        // SAFETY: the name outlives the call.
        unsafe { self.call(libc::SYS_fchmodat2, arguments) }.map(drop)
    }

    /// Sets the times of access and modification of this file.
    pub fn set_times(&self, times: &[libc::timespec; 2]) -> io::Result<()> {
        // SAFETY: `times` outlives the call; a null name means this file.
        unsafe { self.call(libc::SYS_utimensat, [0, pointer(times), 0, 0, 0]) }.map(drop)
    }

    /// Sets the times of access and modification of a file. `flags`: `AT_*`.
    pub fn set_times_at(
        &self,
        name: &CStr,
        times: &[libc::timespec; 2],
        flags: c_int,
    ) -> io::Result<()> {
        let arguments = [string(name), pointer(times), flags as usize, 0, 0];
        // SAFETY: name and times outlive the call.
        unsafe { self.call(libc::SYS_utimensat, arguments) }.map(drop)
    }

    /// `ftruncate(2)`.
    pub fn truncate(&self, size: u64) -> io::Result<()> {
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_ftruncate, [size as usize, 0, 0, 0, 0]) }.map(drop)
    }

    /// Allocates, punches or zeroes a range. `mode`: `FALLOC_FL_*`.
    pub fn allocate(&self, mode: c_int, offset: u64, length: u64) -> io::Result<()> {
        let arguments = [mode as usize, offset as usize, length as usize, 0, 0];
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_fallocate, arguments) }.map(drop)
    }

    /// Whether both write into one file, pipe, socket or device in one way: the access mode and
    /// `O_APPEND` are the same, too.
    pub fn writes_as(&self, other: &Self) -> io::Result<bool> {
        let way = |fd: &Self| -> io::Result<_> {
            let found = fd.stat()?;
            let flags = fd.flags()? as c_int & (libc::O_ACCMODE | libc::O_APPEND);
            Ok((found.st_dev, found.st_ino, flags))
        };
        Ok(way(self)? == way(other)?)
    }

    /// The `O_*` of this open file.
    fn flags(&self) -> io::Result<usize> {
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_fcntl, [libc::F_GETFL as usize, 0, 0, 0, 0]) }
    }

    /// Turns `O_DIRECT` on or off, for all descriptors of this open file. Not every file system has
    /// it. SMB does not get it: netfs of Linux 6.12 frees a direct read twice if the read cannot
    /// begin, because the server has ended.
    pub fn set_direct(&self, direct: bool) -> io::Result<()> {
        if direct && !self.system.is_host() && new_name::is_share(self.statfs()?.kind) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let flag = libc::O_DIRECT as usize;
        let old = self.flags()?;
        let new = if direct { old | flag } else { old & !flag };
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_fcntl, [libc::F_SETFL as usize, new, 0, 0, 0]) }.map(drop)
    }

    /// Tells the kernel how a range will be used. `advice`: `POSIX_FADV_*`.
    pub fn advise(&self, offset: u64, length: u64, advice: c_int) -> io::Result<()> {
        let arguments = [offset as usize, length as usize, advice as usize, 0, 0];
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_fadvise64, arguments) }.map(drop)
    }

    /// Starts writing a range of data to the disk, or waits for it. `flags`: `SYNC_FILE_RANGE_*`.
    pub fn sync_range(&self, offset: u64, length: u64, flags: c_uint) -> io::Result<()> {
        let arguments = [offset as usize, length as usize, flags as usize, 0, 0];
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_sync_file_range, arguments) }.map(drop)
    }

    /// Reports an error of data that could not be written to the disk since the file was opened or
    /// an error was reported, as fsync(2) does, but neither writes nor waits.
    pub fn check_written(&self) -> io::Result<()> {
        /// An offset behind all data: nothing there is waited for.
        const NOWHERE: u64 = 1 << 62;
        self.sync_range(NOWHERE, 1, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
    }

    /// Writes this file to stable storage.
    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: has no further arguments.
        unsafe { self.call(libc::SYS_fsync, [0; 5]) }.map(drop)
    }

    /// Writes the data of this file to stable storage, and what is needed to read it again.
    pub fn sync_data(&self) -> io::Result<()> {
        // SAFETY: has no further arguments.
        unsafe { self.call(libc::SYS_fdatasync, [0; 5]) }.map(drop)
    }

    /// Writes the file system that holds this file to stable storage.
    pub fn sync_file_system(&self) -> io::Result<()> {
        // SAFETY: has no further arguments.
        unsafe { self.call(libc::SYS_syncfs, [0; 5]) }.map(drop)
    }

    /// Copies inside the kernel, from here to `target`; shares blocks where the file system can.
    pub fn copy_range(
        &self,
        offset: u64,
        target: &Fd,
        target_offset: u64,
        length: usize,
    ) -> io::Result<usize> {
        self.check_same_system(target)?;
        let mut from = offset as i64;
        let mut to = target_offset as i64;
        let arguments = [
            pointer_mut(&mut from),
            target.raw as usize,
            pointer_mut(&mut to),
            length,
            0,
        ];
        // SAFETY: both offsets outlive the call.
        unsafe { self.call(libc::SYS_copy_file_range, arguments) }
    }

    /// Sizes and kind of the file system that holds this file.
    pub fn statfs(&self) -> io::Result<StatFs> {
        let mut result = StatFs::default();
        // SAFETY: the result has the kernel's layout.
        unsafe { self.call(libc::SYS_fstatfs, [pointer_mut(&mut result), 0, 0, 0, 0]) }?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::whole_time;

    #[test]
    fn times_have_whole_nanoseconds() {
        assert_eq!(whole_time(-1, -250_000_000), (-2, 750_000_000));
        assert_eq!(whole_time(-1, 4_044_967_296), (-2, 750_000_000));
        assert_eq!(whole_time(5, 999_999_999), (5, 999_999_999));
        assert_eq!(whole_time(5, 2_000_000_001), (7, 1));
        assert_eq!(whole_time(i64::MAX, 1_000_000_000), (i64::MAX, 0));
    }
}
