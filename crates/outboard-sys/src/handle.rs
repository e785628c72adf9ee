// SPDX-License-Identifier: GPL-2.0-only
//! Handles: names of files that stay good without a descriptor, as NFS servers use them.

use crate::system::{pointer, pointer_mut, string};
use crate::Fd;
use libc::c_int;
use std::io;

/// Most bytes of a handle (MAX_HANDLE_SZ).
const LIMIT: usize = 128;

#[repr(C)]
struct Raw {
    length: u32,
    kind: i32,
    bytes: [u8; LIMIT],
}

/// Says which file it is, for as long as that file exists: not one that has its number later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHandle {
    kind: i32,
    bytes: Box<[u8]>,
}

impl Fd {
    /// The handle of this file, which may be open with `O_PATH`. EOPNOTSUPP: the file system has
    /// none.
    pub fn handle(&self) -> io::Result<FileHandle> {
        let mut raw = Raw {
            length: LIMIT as u32,
            kind: 0,
            bytes: [0; LIMIT],
        };
        let mut mount: c_int = 0;
        let arguments = [
            string(c""),
            pointer_mut(&mut raw),
            pointer_mut(&mut mount),
            libc::AT_EMPTY_PATH as usize,
            0,
        ];
        // SAFETY: `raw` has the kernel's layout with the room that it says; all outlives the call.
        unsafe { self.call(libc::SYS_name_to_handle_at, arguments) }?;
        let bytes = &raw.bytes[..LIMIT.min(raw.length as usize)];
        Ok(FileHandle {
            kind: raw.kind,
            bytes: bytes.into(),
        })
    }

    /// Opens a file of the file system that this one is in, which is not open with `O_PATH`.
    /// ESTALE: it does not exist any more.
    pub fn open_handle(&self, handle: &FileHandle, flags: c_int) -> io::Result<Self> {
        let mut raw = Raw {
            length: handle.bytes.len() as u32,
            kind: handle.kind,
            bytes: [0; LIMIT],
        };
        raw.bytes[..handle.bytes.len()].copy_from_slice(&handle.bytes);
        let flags = (flags | libc::O_CLOEXEC) as usize;
        // SAFETY: `raw` has the kernel's layout and outlives the call.
        let fd =
            unsafe { self.call(libc::SYS_open_by_handle_at, [pointer(&raw), flags, 0, 0, 0]) }?;
        Ok(Self::own(self.system(), fd))
    }
}
