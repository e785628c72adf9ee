// SPDX-License-Identifier: GPL-2.0-only
//! Memory that the caller gets, and releases with `ob_volume_memory_free` or with the function of
//! the struct that has it.

use crate::result::{CallFailure, Result};
use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::slice;

/// Memory of the C library, with one byte 0 after its contents.
pub struct Memory {
    start: NonNull<u8>,
    length: usize,
}

impl Memory {
    /// Contents of this length, all bytes 0.
    pub fn zeroed(length: usize) -> Result<Self> {
        let size = length
            .checked_add(1)
            .filter(|&size| size <= isize::MAX as usize);
        // SAFETY: calloc takes any numbers.
        let start = size.map(|size| unsafe { libc::calloc(size, 1) });
        match start.and_then(|start| NonNull::new(start.cast())) {
            Some(start) => Ok(Self { start, length }),
            None => {
                let what = format!("cannot return {length} bytes");
                Err(CallFailure::of_io(
                    what,
                    io::Error::from_raw_os_error(libc::ENOMEM),
                ))
            }
        }
    }

    /// A copy of these bytes.
    pub fn of(bytes: &[u8]) -> Result<Self> {
        let mut memory = Self::zeroed(bytes.len())?;
        memory.contents().copy_from_slice(bytes);
        Ok(memory)
    }

    pub fn contents(&mut self) -> &mut [u8] {
        // SAFETY: the memory has this length and one byte more, is initialised, and is borrowed
        // as this object is.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Gives the memory to the caller.
    pub fn release(self) -> *mut c_void {
        let start = self.start.as_ptr().cast();
        std::mem::forget(self);
        start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it came from calloc, and nobody else has it: release() forgets the object.
        unsafe { libc::free(self.start.as_ptr().cast()) }
    }
}

/// Memory of the caller, which comes back. NULL: there is none.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Returned(*mut c_void);

impl Returned {
    pub const NONE: Self = Self(ptr::null_mut());

    /// For a member of a struct that the caller gets.
    pub fn of(memory: Memory) -> Self {
        Self(memory.release())
    }

    pub fn free(self) {
        // SAFETY: the caller passes NULL or what `Memory::release` returned, once.
        unsafe { libc::free(self.0) }
    }
}

#[no_mangle]
pub extern "C" fn ob_volume_memory_free(memory: Returned) {
    memory.free();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_end_with_a_zero() {
        let mut memory = Memory::of(b"abc").unwrap_or_else(|_| panic!("no memory"));
        assert_eq!(memory.contents(), b"abc");
        let start: *mut u8 = memory.release().cast();
        // SAFETY: three bytes and one after them.
        assert_eq!(unsafe { slice::from_raw_parts(start, 4) }, b"abc\0");
        ob_volume_memory_free(Returned(start.cast()));
        ob_volume_memory_free(Returned::NONE);
        assert!(Memory::zeroed(usize::MAX).is_err());
    }
}
