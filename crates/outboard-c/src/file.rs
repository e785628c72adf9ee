// SPDX-License-Identifier: GPL-2.0-only
//! Open files.

use crate::argument::{Fill, InBytes, Out, OutBytes, Text};
use crate::handle::{add_file, file, take_file, Handle, NamedFile};
use crate::open::check_flags;
use crate::path::{check_mode, on_path, read_fully};
use crate::result::{count, status, CallFailure, Result};
use crate::stat::Stat;
use crate::volume::failed;
use outboard::{File, OpenOptions};
use std::ffi::c_int;
use std::io;
use std::os::unix::fs::FileExt;

const READ: u32 = 1;
const WRITE: u32 = 2;
const CREATE: u32 = 4;
const NEW: u32 = 8;
const TRUNCATE: u32 = 16;

fn open_options(flags: u32, mode: u32) -> Result<OpenOptions> {
    check_flags(flags, READ | WRITE | CREATE | NEW | TRUNCATE)?;
    check_mode(mode)?;
    let has = |flag: u32| flags & flag != 0;
    if !has(READ | WRITE) {
        return Err(CallFailure::usage(
            "open a file for reading, for writing, or both",
        ));
    }
    if has(CREATE | NEW | TRUNCATE) && !has(WRITE) {
        return Err(CallFailure::usage(
            "open a file for writing to make or to empty it",
        ));
    }
    if has(NEW) && !has(CREATE) {
        return Err(CallFailure::usage("OB_VOLUME_NEW is for OB_VOLUME_CREATE"));
    }
    let mut options = OpenOptions::new();
    options
        .read(has(READ))
        .write(has(WRITE))
        .create(has(CREATE))
        .create_new(has(NEW))
        .truncate(has(TRUNCATE))
        .mode(mode);
    Ok(options)
}

#[no_mangle]
pub extern "C" fn ob_volume_file_open(
    handle: Handle,
    path: Text,
    flags: u32,
    mode: u32,
    file: Out<Handle>,
) -> c_int {
    status(|| {
        let place = file.checked("the pointer for the file", Handle::NONE)?;
        let options = open_options(flags, mode)?;
        // The volume is in use until the file has a handle: a close finds the file then.
        let opened = on_path(handle, path, "open", |volume, path| {
            let file = options.open(volume, path)?;
            let path = path.to_owned();
            Ok(add_file(handle, NamedFile { file, path }))
        })?;
        place.set(opened);
        Ok(())
    })
}

/// Does something with an open file.
fn on_file<T>(handle: Handle, what: &str, work: impl FnOnce(&File) -> io::Result<T>) -> Result<T> {
    let found = file(handle)?;
    work(&found.file).map_err(|error| failed(&found.volume, what, &found.path, error))
}

#[no_mangle]
pub extern "C" fn ob_volume_file_read(
    handle: Handle,
    buffer: OutBytes,
    length: usize,
    offset: u64,
) -> i64 {
    count(|| {
        let buffer = buffer.get(length, "the buffer")?;
        let read = on_file(handle, "read", |file| read_fully(file, buffer, offset))?;
        Ok(read as i64)
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_file_write(
    handle: Handle,
    buffer: InBytes,
    length: usize,
    offset: u64,
) -> i64 {
    count(|| {
        let buffer = buffer.get(length, "the buffer")?;
        on_file(handle, "write", |file| file.write_all_at(buffer, offset))?;
        Ok(length as i64)
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_file_stat(handle: Handle, stat: Fill<Stat>) -> c_int {
    status(|| {
        let stat = stat.required()?;
        stat.set(on_file(handle, "look at", File::metadata)?.into());
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_file_set_length(handle: Handle, length: u64) -> c_int {
    status(|| on_file(handle, "set the length of", |file| file.set_len(length)))
}

#[no_mangle]
pub extern "C" fn ob_volume_file_sync(handle: Handle) -> c_int {
    status(|| on_file(handle, "sync", File::sync_all))
}

#[no_mangle]
pub extern "C" fn ob_volume_file_close(handle: Handle) -> c_int {
    status(|| take_file(handle))
}
