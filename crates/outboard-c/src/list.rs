// SPDX-License-Identifier: GPL-2.0-only
//! Lists of directories and trees.

use crate::argument::Text;
use crate::handle::{volume, Handle, InUse};
use crate::open::check_flags;
use crate::path::RECURSIVE;
use crate::result::{code, in_callback, CallFailure, Result};
use crate::stat::number_of;
use crate::volume::failed;
use outboard::FileType;
use outboard_volume::ErrorKind;
use std::ffi::{c_char, c_int, c_void, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `struct ob_volume_entry`.
#[repr(C)]
pub struct ListEntry {
    size: usize,
    path: *const c_char,
    name: *const c_char,
    kind: u32,
    depth: u32,
}

/// A callback with its context. It is only called on the thread that gave it.
struct Callback {
    function: extern "C" fn(*mut c_void, *const ListEntry) -> c_int,
    context: *mut c_void,
}

impl Callback {
    /// `None`: go on.
    fn call(&self, path: &Path, kind: FileType, depth: usize) -> Result<Option<c_int>> {
        let no_text = |_| CallFailure::usage("a path has a byte 0");
        let path = CString::new(path.as_os_str().as_bytes()).map_err(no_text)?;
        let bytes = path.to_bytes_with_nul();
        let start = bytes
            .iter()
            .rposition(|&byte| byte == b'/')
            .map_or(0, |slash| slash + 1);
        let entry = ListEntry {
            size: size_of::<ListEntry>(),
            path: path.as_ptr(),
            name: bytes[start..].as_ptr().cast(),
            kind: number_of(kind),
            depth: u32::try_from(depth).unwrap_or(u32::MAX),
        };
        match in_callback(|| (self.function)(self.context, &entry)) {
            0 => Ok(None),
            end @ 1.. => Ok(Some(end)),
            _ => Err(CallFailure::new(
                ErrorKind::Interrupted,
                "the callback ended the listing",
            )),
        }
    }
}

/// Names of one directory.
fn list(volume: &InUse, path: &OsStr, callback: &Callback) -> Result<c_int> {
    let failed = |error: io::Error| failed(volume, "list", path, error);
    for entry in volume.read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = Path::new(path).join(entry.file_name());
        if let Some(end) = callback.call(&path, kind, 1)? {
            return Ok(end);
        }
    }
    Ok(0)
}

/// A directory and everything below it.
fn walk(volume: &InUse, path: &OsStr, callback: &Callback) -> Result<c_int> {
    let failed = |error: io::Error| failed(volume, "list", path, error);
    for entry in volume.walk(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type();
        if let Some(end) = callback.call(entry.path(), kind, entry.depth())? {
            return Ok(end);
        }
    }
    Ok(0)
}

#[no_mangle]
pub extern "C" fn ob_volume_list(
    handle: Handle,
    path: Text,
    flags: u32,
    function: Option<extern "C" fn(*mut c_void, *const ListEntry) -> c_int>,
    context: *mut c_void,
) -> c_int {
    code(|| {
        check_flags(flags, RECURSIVE)?;
        let path = path.required("the path")?;
        let function = function.ok_or_else(|| CallFailure::usage("the callback is NULL"))?;
        let callback = Callback { function, context };
        let volume = volume(handle)?;
        match flags {
            0 => list(&volume, path, &callback),
            _ => walk(&volume, path, &callback),
        }
    })
}
