// SPDX-License-Identifier: GPL-2.0-only
//! Files and directories by their paths.

use crate::argument::{shown, Fill, InBytes, Out, OutMemory, Text};
use crate::handle::{volume, Handle, InUse};
use crate::memory::Memory;
use crate::open::check_flags;
use crate::result::{status, CallFailure, Result};
use crate::stat::Stat;
use crate::volume::failed;
use std::ffi::{c_int, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;

const NO_FOLLOW: u32 = 1;
const PARENTS: u32 = 2;
pub const RECURSIVE: u32 = 4;

/// Runs one call that works on one path.
pub fn on_path<T>(
    handle: Handle,
    path: Text,
    what: &str,
    work: impl FnOnce(&InUse, &OsStr) -> io::Result<T>,
) -> Result<T> {
    let path = path.required("the path")?;
    let volume = volume(handle)?;
    work(&volume, path).map_err(|error| failed(&volume, what, path, error))
}

#[no_mangle]
pub extern "C" fn ob_volume_stat(
    handle: Handle,
    path: Text,
    flags: u32,
    stat: Fill<Stat>,
) -> c_int {
    status(|| {
        let stat = stat.required()?;
        check_flags(flags, NO_FOLLOW)?;
        let found = on_path(handle, path, "look at", |volume, path| match flags {
            0 => volume.metadata(path),
            _ => volume.symlink_metadata(path),
        })?;
        stat.set(found.into());
        Ok(())
    })
}

/// Reads until the buffer is full or the file ends.
pub fn read_fully(file: &impl FileExt, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let Some(position) = offset.checked_add(done as u64) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        match file.read_at(&mut buffer[done..], position) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn whole_file(volume: &InUse, path: &OsStr, most: u64) -> Result<(Memory, usize)> {
    let failed = |error| failed(volume, "read", path, error);
    let file = volume.open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(io::Error::from_raw_os_error(libc::EISDIR)));
    }
    let claimed = metadata.len();
    let length = usize::try_from(claimed).ok().filter(|_| claimed <= most);
    let Some(length) = length else {
        let text = format!(
            "{}:{} has {claimed} bytes, more than the caller's limit of {most}",
            shown(volume.name()),
            shown(path)
        );
        return Err(CallFailure::usage(text));
    };
    let mut memory = Memory::zeroed(length)?;
    // A file may have become shorter.
    let read = read_fully(&file, memory.contents(), 0).map_err(failed)?;
    Ok((memory, read))
}

#[no_mangle]
pub extern "C" fn ob_volume_read(
    handle: Handle,
    path: Text,
    most: u64,
    data: OutMemory,
    length: Out<usize>,
) -> c_int {
    status(|| {
        let data = data.checked("the pointer for the data", ptr::null_mut())?;
        let length = length.checked("the pointer for the length", 0)?;
        let path = path.required("the path")?;
        let (memory, read) = whole_file(&volume(handle)?, path, most)?;
        length.set(read);
        data.give(memory);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_write(
    handle: Handle,
    path: Text,
    data: InBytes,
    length: usize,
) -> c_int {
    status(|| {
        let data = data.get(length, "the data")?;
        on_path(handle, path, "write", |volume, path| {
            volume.write(path, data)
        })
    })
}

fn make_directory(volume: &InUse, path: &OsStr, mode: u32, flags: u32) -> io::Result<()> {
    if flags & PARENTS == 0 {
        return volume.create_dir_with_mode(path, mode);
    }
    if let Some(parent) = Path::new(path).parent() {
        if !parent.as_os_str().is_empty() {
            volume.create_dir_all(parent)?;
        }
    }
    match volume.create_dir_with_mode(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if volume.metadata(path)?.is_dir() {
                Ok(())
            } else {
                Err(error)
            }
        }
        other => other,
    }
}

#[no_mangle]
pub extern "C" fn ob_volume_mkdir(handle: Handle, path: Text, mode: u32, flags: u32) -> c_int {
    status(|| {
        check_flags(flags, PARENTS)?;
        check_mode(mode)?;
        on_path(handle, path, "make the directory", |volume, path| {
            make_directory(volume, path, mode, flags)
        })
    })
}

/// The low 12 bits of a mode are permissions.
pub fn check_mode(mode: u32) -> Result<()> {
    match mode & !0o7777 {
        0 => Ok(()),
        _ => Err(CallFailure::usage(format!(
            "the mode {mode:#o} has more than permissions"
        ))),
    }
}

#[no_mangle]
pub extern "C" fn ob_volume_remove(handle: Handle, path: Text, flags: u32) -> c_int {
    status(|| {
        check_flags(flags, RECURSIVE)?;
        on_path(handle, path, "remove", |volume, path| {
            if !volume.symlink_metadata(path)?.is_dir() {
                volume.remove_file(path)
            } else if flags & RECURSIVE != 0 {
                volume.remove_dir_all(path)
            } else {
                volume.remove_dir(path)
            }
        })
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_rename(handle: Handle, from: Text, to: Text) -> c_int {
    status(|| {
        let to = to.required("the new path")?;
        let what = format!("rename to {} the file", shown(to));
        on_path(handle, from, &what, |volume, from| volume.rename(from, to))
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_link(handle: Handle, target: Text, path: Text) -> c_int {
    status(|| {
        let target = target.required("the target")?;
        on_path(handle, path, "make the link", |volume, path| {
            volume.hard_link(target, path)
        })
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_symlink(handle: Handle, target: Text, path: Text) -> c_int {
    status(|| {
        let target = target.required("the target")?;
        on_path(handle, path, "make the symbolic link", |volume, path| {
            volume.symlink(target, path)
        })
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_readlink(handle: Handle, path: Text, target: OutMemory) -> c_int {
    status(|| {
        let place = target.checked("the pointer for the target", ptr::null_mut())?;
        let found = on_path(handle, path, "read the link", |volume, path| {
            volume.read_link(path)
        })?;
        place.give(Memory::of(found.as_os_str().as_bytes())?);
        Ok(())
    })
}
