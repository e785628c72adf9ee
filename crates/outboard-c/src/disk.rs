// SPDX-License-Identifier: GPL-2.0-only
//! Disks: several volumes of one image.

use crate::argument::{In, Out, OutMemory, Text};
use crate::handle::{add_disk, add_volume, disk, take_disk, Handle};
use crate::memory::Memory;
use crate::open::{check_flags, VolumeOptions, WRITABLE};
use crate::result::{code, count, in_callback, status, CallFailure, Result};
use outboard_volume::{Disk, ErrorKind, Options, VolumeEntry};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

#[no_mangle]
pub extern "C" fn ob_volume_disk_open(
    name: Text,
    options: In<VolumeOptions>,
    result: Out<Handle>,
) -> c_int {
    status(|| {
        let result = result.checked("the pointer for the disk", Handle::NONE)?;
        let name = name.required("the name of the disk")?;
        let given = options.get()?;
        let writable = given.is_some_and(|given| given.is_writable());
        let options = given.map_or_else(|| Ok(Options::new()), VolumeOptions::to_options)?;
        let opened = if writable {
            Disk::open_writable(name, options)
        } else {
            Disk::open(name, options)
        };
        result.set(add_disk(opened?));
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_disk_close(handle: Handle) -> c_int {
    status(|| Ok(take_disk(handle)?.close()?))
}

#[no_mangle]
pub extern "C" fn ob_volume_disk_format(handle: Handle, format: OutMemory) -> c_int {
    status(|| {
        let format = format.checked("the pointer for the format", ptr::null_mut())?;
        format.give(Memory::of(disk(handle)?.format()?.as_bytes())?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_disk_length(handle: Handle) -> i64 {
    count(|| {
        let length = disk(handle)?.size()?;
        i64::try_from(length).map_err(|_| {
            let text = format!("a disk of {length} bytes is too large for this call");
            CallFailure::new(ErrorKind::Unsupported, text)
        })
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_disk_sector_size(handle: Handle) -> i64 {
    count(|| Ok(i64::try_from(disk(handle)?.sector_size()?).unwrap_or(i64::MAX)))
}

#[no_mangle]
pub extern "C" fn ob_volume_disk_backing(
    handle: Handle,
    paths: OutMemory,
    length: Out<usize>,
) -> c_int {
    status(|| {
        let paths = paths.checked("the pointer for the paths", ptr::null_mut())?;
        let length = length.checked("the pointer for the length", 0)?;
        let mut bytes = Vec::new();
        for path in disk(handle)?.backing()? {
            bytes.extend(path.as_os_str().as_bytes());
            bytes.push(0);
        }
        let memory = Memory::of(&bytes)?;
        length.set(bytes.len());
        paths.give(memory);
        Ok(())
    })
}

/// `struct ob_volume_info`.
#[repr(C)]
pub struct VolumeInfo {
    size: usize,
    name: *const c_char,
    sort: *const c_char,
    kind: *const c_char,
    label: *const c_char,
    uuid: *const c_char,
    problem: *const c_char,
    length: u64,
    is_file_system: u32,
    is_locked: u32,
}

type InfoFunction = extern "C" fn(*mut c_void, *const VolumeInfo) -> c_int;

fn c_text(bytes: &[u8]) -> CString {
    let bytes = bytes.iter().copied().filter(|&byte| byte != 0);
    CString::new(bytes.collect::<Vec<u8>>()).unwrap_or_default()
}

/// Calls the function for a volume. `None`: go on.
fn call(
    entry: &VolumeEntry,
    function: InfoFunction,
    context: *mut c_void,
) -> Result<Option<c_int>> {
    let name = CString::new(entry.name().as_bytes());
    let name = name.map_err(|_| CallFailure::usage("a name has a byte 0"))?;
    let sort = c_text(entry.sort().as_bytes());
    let [kind, label, uuid, problem] = [entry.kind(), entry.label(), entry.uuid(), entry.problem()]
        .map(|text| text.map(|text| c_text(text.as_bytes())));
    let pointer = |text: &Option<CString>| text.as_deref().map_or(ptr::null(), CStr::as_ptr);
    let info = VolumeInfo {
        size: size_of::<VolumeInfo>(),
        name: name.as_ptr(),
        sort: sort.as_ptr(),
        kind: pointer(&kind),
        label: pointer(&label),
        uuid: pointer(&uuid),
        problem: pointer(&problem),
        length: entry.size().unwrap_or(0),
        is_file_system: entry.is_file_system().into(),
        is_locked: entry.is_locked().into(),
    };
    match in_callback(|| function(context, &info)) {
        0 => Ok(None),
        end @ 1.. => Ok(Some(end)),
        _ => {
            let text = "the callback ended the listing";
            Err(CallFailure::new(ErrorKind::Interrupted, text))
        }
    }
}

#[no_mangle]
pub extern "C" fn ob_volume_disk_list(
    handle: Handle,
    function: Option<InfoFunction>,
    context: *mut c_void,
) -> c_int {
    code(|| {
        let function = function.ok_or_else(|| CallFailure::usage("the callback is NULL"))?;
        let disk = disk(handle)?;
        for entry in disk.volumes()? {
            if let Some(end) = call(&entry, function, context)? {
                return Ok(end);
            }
        }
        Ok(0)
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_disk_volume(
    handle: Handle,
    name: Text,
    flags: u32,
    volume: Out<Handle>,
) -> c_int {
    status(|| {
        let volume = volume.checked("the pointer for the volume", Handle::NONE)?;
        check_flags(flags, WRITABLE)?;
        let name = name.required("the name of the volume")?;
        let disk = disk(handle)?;
        let opened = match flags {
            0 => disk.volume(name),
            _ => disk.volume_writable(name),
        };
        volume.set(add_volume(opened?));
        Ok(())
    })
}
