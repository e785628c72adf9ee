// SPDX-License-Identifier: MIT
//! The memory of this process, by its real addresses.

use crate::marshal::ProgramMemory;
use std::slice;

/// All memory that the pointers of a call lead to.
pub(crate) struct OwnMemory(());

impl OwnMemory {
    /// # Safety
    ///
    /// As long as the value lives, the pointers of the calls that it is used for lead to memory as
    /// the system call needs it, which nobody else changes meanwhile.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

impl ProgramMemory for OwnMemory {
    fn bytes(&self, address: u64, length: usize) -> &[u8] {
        if length == 0 {
            return &[];
        }
        // SAFETY: the caller of `new` has promised that the pointers are good.
        unsafe { slice::from_raw_parts(address as *const u8, length) }
    }

    fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        if length == 0 {
            return &mut [];
        }
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(address as *mut u8, length) }
    }

    fn text_length(&self, address: u64, most: usize) -> usize {
        // SAFETY: as above; the function looks at nothing behind the zero byte, or `most`.
        unsafe { libc::strnlen(address as *const libc::c_char, most) }
    }
}
