// SPDX-License-Identifier: GPL-2.0-only
//! Permissions, owners, times and extended attributes.

use crate::argument::{shown, Fixed, InBytes, Out, OutMemory, Text};
use crate::handle::Handle;
use crate::memory::Memory;
use crate::path::{check_mode, on_path};
use crate::result::status;
use crate::stat::Time;
use std::ffi::c_int;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

#[no_mangle]
pub extern "C" fn ob_volume_set_mode(handle: Handle, path: Text, mode: u32) -> c_int {
    status(|| {
        check_mode(mode)?;
        on_path(handle, path, "set the permissions of", |volume, path| {
            volume.set_permissions(path, mode)
        })
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_set_owner(handle: Handle, path: Text, user: u32, group: u32) -> c_int {
    status(|| {
        on_path(handle, path, "set the owner of", |volume, path| {
            volume.chown(path, user, group)
        })
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_set_times(
    handle: Handle,
    path: Text,
    accessed: Fixed<Time>,
    modified: Fixed<Time>,
) -> c_int {
    status(|| {
        let accessed = accessed.get("the time of access")?.to_system()?;
        let modified = modified.get("the time of modification")?.to_system()?;
        on_path(handle, path, "set the times of", |volume, path| {
            volume.set_times(path, accessed, modified)
        })
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_xattrs(
    handle: Handle,
    path: Text,
    names: OutMemory,
    length: Out<usize>,
) -> c_int {
    status(|| {
        let names = names.checked("the pointer for the names", ptr::null_mut())?;
        let length = length.checked("the pointer for the length", 0)?;
        let found = on_path(handle, path, "list the attributes of", |volume, path| {
            volume.xattrs(path)
        })?;
        let mut bytes = Vec::new();
        for name in found {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
        }
        length.set(bytes.len());
        names.give(Memory::of(&bytes)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_xattr(
    handle: Handle,
    path: Text,
    name: Text,
    value: OutMemory,
    length: Out<usize>,
) -> c_int {
    status(|| {
        let value = value.checked("the pointer for the value", ptr::null_mut())?;
        let length = length.checked("the pointer for the length", 0)?;
        let name = name.required("the name of the attribute")?;
        let what = format!("read the attribute {} of", shown(name));
        let found = on_path(handle, path, &what, |volume, path| volume.xattr(path, name))?;
        length.set(found.len());
        value.give(Memory::of(&found)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_set_xattr(
    handle: Handle,
    path: Text,
    name: Text,
    value: InBytes,
    length: usize,
) -> c_int {
    status(|| {
        let value = value.get(length, "the value")?;
        let name = name.required("the name of the attribute")?;
        let what = format!("set the attribute {} of", shown(name));
        on_path(handle, path, &what, |volume, path| {
            volume.set_xattr(path, name, value)
        })
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_remove_xattr(handle: Handle, path: Text, name: Text) -> c_int {
    status(|| {
        let name = name.required("the name of the attribute")?;
        let what = format!("remove the attribute {} of", shown(name));
        on_path(handle, path, &what, |volume, path| {
            volume.remove_xattr(path, name)
        })
    })
}
