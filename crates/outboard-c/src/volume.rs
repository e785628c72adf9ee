// SPDX-License-Identifier: GPL-2.0-only
//! Calls about a whole volume.

use crate::argument::{shown, Fill, OutMemory, Versioned};
use crate::handle::{volume, Handle, InUse};
use crate::memory::Memory;
use crate::result::{status, CallFailure, Result};
use std::ffi::{c_char, c_int, OsStr};
use std::io;
use std::ptr;

/// `struct ob_volume_space`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SpaceOut {
    size: usize,
    block_size: u64,
    bytes: u64,
    free: u64,
    available: u64,
    files: u64,
    files_free: u64,
}

// SAFETY: all of it holds.
unsafe impl Versioned for SpaceOut {
    const LEAST: usize = size_of::<Self>();
    const NAME: &'static str = "ob_volume_space";
}

/// The failure of a call about a file: what was done to which file, and why it failed.
pub fn failed(volume: &InUse, what: &str, path: &OsStr, error: io::Error) -> CallFailure {
    let name = shown(volume.name());
    CallFailure::of_io(format!("cannot {what} {name}:{}", shown(path)), error)
}

fn give_text(text: OutMemory, of: Handle, make: impl FnOnce(&InUse) -> String) -> c_int {
    status(|| {
        let text = text.checked("the pointer for the text", ptr::null_mut())?;
        let found = make(&volume(of)?);
        text.give(Memory::of(found.as_bytes())?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_sync(handle: Handle) -> c_int {
    status(|| Ok(volume(handle)?.sync()?))
}

#[no_mangle]
pub extern "C" fn ob_volume_warnings(handle: Handle, text: OutMemory) -> c_int {
    give_text(text, handle, |volume| volume.warnings().join("\n"))
}

#[no_mangle]
pub extern "C" fn ob_volume_kernel_log(handle: Handle, text: OutMemory) -> c_int {
    give_text(text, handle, |volume| volume.kernel_messages().join("\n"))
}

#[no_mangle]
pub extern "C" fn ob_volume_type(handle: Handle, text: OutMemory) -> c_int {
    give_text(text, handle, |volume| volume.kind().to_owned())
}

fn space(volume: &InUse) -> Result<SpaceOut> {
    let root = OsStr::new("/");
    let found = volume
        .space()
        .map_err(|error| failed(volume, "measure", root, error))?;
    Ok(SpaceOut {
        size: 0,
        block_size: found.block_size,
        bytes: found.size,
        free: found.free,
        available: found.available,
        files: found.files,
        files_free: found.files_free,
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_space(handle: Handle, result: Fill<SpaceOut>) -> c_int {
    status(|| {
        let result = result.required()?;
        result.set(space(&volume(handle)?)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn ob_volume_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
