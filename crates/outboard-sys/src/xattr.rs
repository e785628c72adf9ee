// SPDX-License-Identifier: GPL-2.0-only
//! Extended attributes of open files, and of names in open directories.
//!
//! Linux 6.12 has no call that takes a directory and a name, so a name is reached
//! through the system's /proc/self/fd: this needs /proc, but no rights on the file
//! and no room for a long path.

use crate::system::{pointer, pointer_mut, string};
use crate::Fd;
use libc::{c_int, c_long};
use std::ffi::{CStr, CString};
use std::io;

/// Most bytes of a value or of a list of names (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const LIMIT: usize = 65536;
/// Most values fit here, so that one call is enough.
const USUAL: usize = 512;

fn split(list: &[u8]) -> Vec<CString> {
    list.split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .filter_map(|name| CString::new(name).ok())
        .collect()
}

/// Calls `get` with a buffer that is large enough.
fn fetch(get: impl Fn(&mut [u8]) -> io::Result<usize>) -> io::Result<Vec<u8>> {
    let mut small = [0u8; USUAL];
    match get(&mut small) {
        Ok(length) => return Ok(small[..length.min(USUAL)].to_vec()),
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {}
        Err(error) => return Err(error),
    }
    let mut large = vec![0u8; LIMIT];
    let length = get(&mut large)?;
    large.truncate(length);
    Ok(large)
}

/// The arguments that all calls to set an attribute have in common: all but the file.
fn set_arguments(attribute: &CStr, value: &[u8], flags: c_int) -> [usize; 4] {
    [
        string(attribute),
        pointer(value),
        value.len(),
        flags as usize,
    ]
}

impl Fd {
    fn path_of(&self, name: &CStr) -> io::Result<CString> {
        let mut path = if self.raw() == libc::AT_FDCWD {
            Vec::new()
        } else {
            format!("/proc/self/fd/{}/", self.raw()).into_bytes()
        };
        path.extend_from_slice(name.to_bytes());
        Ok(CString::new(path)?)
    }

    /// # Safety
    /// `number` is a call that takes a path and then these arguments, as for `System::call`.
    unsafe fn call_path(&self, number: c_long, path: &CStr, a: [usize; 4]) -> io::Result<usize> {
        // SAFETY: the caller's promise; the path outlives the call.
        unsafe {
            self.system()
                .call(number, [string(path), a[0], a[1], a[2], a[3], 0])
        }
    }

    /// Names of this file's attributes.
    pub fn xattrs(&self) -> io::Result<Vec<CString>> {
        let list = fetch(|buffer| {
            let length = buffer.len();
            // SAFETY: the kernel writes at most `length` bytes into the buffer.
            unsafe { self.call(libc::SYS_flistxattr, [pointer_mut(buffer), length, 0, 0, 0]) }
        })?;
        Ok(split(&list))
    }

    /// Names of the attributes of a file in this directory; a link is not followed.
    pub fn xattrs_at(&self, name: &CStr) -> io::Result<Vec<CString>> {
        let path = self.path_of(name)?;
        let list = fetch(|buffer| {
            let length = buffer.len();
            // SAFETY: the kernel writes at most `length` bytes into the buffer.
            unsafe {
                self.call_path(
                    libc::SYS_llistxattr,
                    &path,
                    [pointer_mut(buffer), length, 0, 0],
                )
            }
        })?;
        Ok(split(&list))
    }

    /// The value of one of this file's attributes.
    pub fn xattr(&self, attribute: &CStr) -> io::Result<Vec<u8>> {
        fetch(|buffer| {
            let length = buffer.len();
            // SAFETY: the name outlives the call, the kernel writes at most `length` bytes.
            unsafe {
                self.call(
                    libc::SYS_fgetxattr,
                    [string(attribute), pointer_mut(buffer), length, 0, 0],
                )
            }
        })
    }

    /// The value of an attribute of a file in this directory; a link is not followed.
    pub fn xattr_at(&self, name: &CStr, attribute: &CStr) -> io::Result<Vec<u8>> {
        let path = self.path_of(name)?;
        fetch(|buffer| {
            let length = buffer.len();
            // SAFETY: the name outlives the call, the kernel writes at most `length` bytes.
            unsafe {
                self.call_path(
                    libc::SYS_lgetxattr,
                    &path,
                    [string(attribute), pointer_mut(buffer), length, 0],
                )
            }
        })
    }

    /// Sets one of this file's attributes. `flags`: 0, `XATTR_CREATE`, `XATTR_REPLACE`.
    pub fn set_xattr(&self, attribute: &CStr, value: &[u8], flags: c_int) -> io::Result<()> {
        let [name, value, size, flags] = set_arguments(attribute, value, flags);
        let arguments = [name, value, size, flags, 0];
        // SAFETY: name and value outlive the call.
        unsafe { self.call(libc::SYS_fsetxattr, arguments) }.map(drop)
    }

    /// Sets an attribute of a file in this directory; a link is not followed.
    pub fn set_xattr_at(
        &self,
        name: &CStr,
        attribute: &CStr,
        value: &[u8],
        flags: c_int,
    ) -> io::Result<()> {
        let arguments = set_arguments(attribute, value, flags);
        let path = self.path_of(name)?;
        // SAFETY: name and value outlive the call.
        unsafe { self.call_path(libc::SYS_lsetxattr, &path, arguments) }.map(drop)
    }

    /// Sets an attribute of the file that a path leads to.
    pub(crate) fn set_xattr_of(
        &self,
        path: &CStr,
        attribute: &CStr,
        value: &[u8],
        flags: c_int,
    ) -> io::Result<()> {
        let arguments = set_arguments(attribute, value, flags);
        // SAFETY: name and value outlive the call.
        unsafe { self.call_path(libc::SYS_setxattr, path, arguments) }.map(drop)
    }

    /// Names of the attributes of the file that a path leads to.
    pub(crate) fn xattrs_of(&self, path: &CStr) -> io::Result<Vec<CString>> {
        let list = fetch(|buffer| {
            let arguments = [pointer_mut(buffer), buffer.len(), 0, 0];
            // SAFETY: the kernel writes at most the buffer's length into it.
            unsafe { self.call_path(libc::SYS_listxattr, path, arguments) }
        })?;
        Ok(split(&list))
    }

    /// The value of an attribute of the file that a path leads to.
    pub(crate) fn xattr_of(&self, path: &CStr, attribute: &CStr) -> io::Result<Vec<u8>> {
        fetch(|buffer| {
            let arguments = [string(attribute), pointer_mut(buffer), buffer.len(), 0];
            // SAFETY: the name outlives the call, the kernel writes at most the buffer's length.
            unsafe { self.call_path(libc::SYS_getxattr, path, arguments) }
        })
    }

    /// Removes an attribute of the file that a path leads to.
    pub(crate) fn remove_xattr_of(&self, path: &CStr, attribute: &CStr) -> io::Result<()> {
        // SAFETY: the name outlives the call.
        unsafe { self.call_path(libc::SYS_removexattr, path, [string(attribute), 0, 0, 0]) }
            .map(drop)
    }

    /// Removes one of this file's attributes.
    pub fn remove_xattr(&self, attribute: &CStr) -> io::Result<()> {
        // SAFETY: the name outlives the call.
        unsafe { self.call(libc::SYS_fremovexattr, [string(attribute), 0, 0, 0, 0]) }.map(drop)
    }

    /// As [`Self::xattrs`], of a file that may be open with `O_PATH`.
    pub fn xattrs_of_path_fd(&self) -> io::Result<Vec<CString>> {
        self.xattrs_of(&self.proc_path())
    }

    /// As [`Self::xattr`], of a file that may be open with `O_PATH`.
    pub fn xattr_of_path_fd(&self, attribute: &CStr) -> io::Result<Vec<u8>> {
        self.xattr_of(&self.proc_path(), attribute)
    }

    /// As [`Self::set_xattr`], of a file that may be open with `O_PATH`.
    pub fn set_xattr_of_path_fd(
        &self,
        attribute: &CStr,
        value: &[u8],
        flags: c_int,
    ) -> io::Result<()> {
        self.set_xattr_of(&self.proc_path(), attribute, value, flags)
    }

    /// As [`Self::remove_xattr`], of a file that may be open with `O_PATH`.
    pub fn remove_xattr_of_path_fd(&self, attribute: &CStr) -> io::Result<()> {
        self.remove_xattr_of(&self.proc_path(), attribute)
    }
}
