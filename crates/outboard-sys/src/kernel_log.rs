// SPDX-License-Identifier: GPL-2.0-only
//! The log that a kernel of this process keeps.

use crate::System;
use std::io;

/// Linux: include/linux/syslog.h.
const READ_ALL: usize = 3;
const SIZE_OF_BUFFER: usize = 10;

impl System {
    /// The lines that a kernel of this process keeps, as dmesg(1) prints them. Does not block.
    pub fn kernel_log(&self) -> io::Result<Vec<u8>> {
        if self.is_host() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        // SAFETY: this action has no further arguments.
        let size = unsafe { self.call(libc::SYS_syslog, [SIZE_OF_BUFFER, 0, 0, 0, 0, 0]) }?;
        let mut text = vec![0u8; size];
        let place = text.as_mut_ptr() as usize;
        // SAFETY: the kernel writes at most `size` bytes, which outlive the call.
        let length = unsafe { self.call(libc::SYS_syslog, [READ_ALL, place, size, 0, 0, 0]) }?;
        text.truncate(length);
        Ok(text)
    }
}
