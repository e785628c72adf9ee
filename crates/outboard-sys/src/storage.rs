// SPDX-License-Identifier: GPL-2.0-only
//! Disks that this program serves.

use crate::ffi;
use libc::{c_int, c_void, iovec};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

/// A disk that this program serves. The kernel's worker threads call it, several at once. A call
/// may block, and must not use any kernel. Requests lie inside the disk and are multiples of its
/// sectors.
///
/// The pieces of a request are pages of the kernel, which programs may have mapped: their bytes may
/// change during the call. An implementation passes the pieces to system calls, or copies each byte
/// once and looks at the copy. It must not read a byte of a piece twice and rely on the same value.
pub trait Storage: Send + Sync {
    /// Size in bytes. It does not change.
    fn size(&self) -> u64;
    /// Fills all the pieces, which lie one after the other on the disk.
    fn read_at(&self, pieces: Vec<IoSliceMut<'_>>, offset: u64) -> io::Result<()>;
    /// Writes all pieces, one after the other.
    fn write_at(&self, pieces: Vec<IoSlice<'_>>, offset: u64) -> io::Result<()>;
    /// Puts the data of all completed writes on stable storage.
    fn flush(&self) -> io::Result<()>;
    /// The contents are of no more use.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;
    /// Makes a range read as zeros.
    fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()>;
}

type Context = Arc<dyn Storage>;

/// The context of a disk for the library. [`closed`] takes it back.
pub(crate) fn into_context(storage: Context) -> *mut c_void {
    Box::into_raw(Box::new(storage)).cast()
}

/// # Safety
/// `context` is of [`into_context`], is not used any more, and was not given to this function
/// before.
pub(crate) unsafe fn drop_context(context: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(context.cast::<Context>()) });
}

/// # Safety
/// `context` is of [`into_context`], and was not taken back.
unsafe fn storage<'a>(context: *mut c_void) -> &'a dyn Storage {
    // SAFETY: the caller's promise.
    unsafe { &**context.cast::<Context>() }
}

fn result(done: io::Result<()>) -> c_int {
    match done {
        Ok(()) => 0,
        Err(error) => match error.raw_os_error() {
            Some(number @ (libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EOPNOTSUPP)) => {
                -number
            }
            _ => -libc::EIO,
        },
    }
}

extern "C" fn read(context: *mut c_void, offset: u64, pieces: *const iovec, count: c_int) -> c_int {
    // SAFETY: the library passes the disk's context, and `count` pieces of memory that the kernel
    // has locked for this request: it reads them when the request has ended.
    let (storage, pieces) = unsafe {
        let pieces = std::slice::from_raw_parts(pieces, count as usize);
        let pieces = pieces.iter().map(|piece| {
            IoSliceMut::new(std::slice::from_raw_parts_mut(
                piece.iov_base.cast::<u8>(),
                piece.iov_len,
            ))
        });
        (storage(context), pieces.collect())
    };
    result(storage.read_at(pieces, offset))
}

extern "C" fn write(
    context: *mut c_void,
    offset: u64,
    pieces: *const iovec,
    count: c_int,
) -> c_int {
    // SAFETY: the library passes the disk's context, and `count` pieces of memory that stay
    // readable meanwhile. A program that has mapped a page may change its bytes during the write;
    // the file system then writes the page again. The contract of [`Storage`] forbids code whose
    // result depends on two reads of a byte.
    let (storage, pieces) = unsafe {
        let pieces = std::slice::from_raw_parts(pieces, count as usize);
        let pieces = pieces.iter().map(|piece| {
            IoSlice::new(std::slice::from_raw_parts(
                piece.iov_base.cast::<u8>(),
                piece.iov_len,
            ))
        });
        (storage(context), pieces.collect())
    };
    result(storage.write_at(pieces, offset))
}

extern "C" fn flush(context: *mut c_void) -> c_int {
    // SAFETY: the library passes the disk's context.
    result(unsafe { storage(context) }.flush())
}

extern "C" fn discard(context: *mut c_void, offset: u64, length: u64) -> c_int {
    // SAFETY: the library passes the disk's context.
    result(unsafe { storage(context) }.discard(offset, length))
}

extern "C" fn write_zeroes(context: *mut c_void, offset: u64, length: u64) -> c_int {
    // SAFETY: the library passes the disk's context.
    result(unsafe { storage(context) }.write_zeroes(offset, length))
}

extern "C" fn closed(context: *mut c_void) {
    // SAFETY: the library calls this once, and then uses the context no more.
    unsafe { drop_context(context) };
}

pub(crate) static OPERATIONS: ffi::ob_disk_operations = ffi::ob_disk_operations {
    size: std::mem::size_of::<ffi::ob_disk_operations>(),
    read,
    write,
    flush,
    discard,
    write_zeroes,
    closed,
};
