// SPDX-License-Identifier: MIT
//! The memory of a slot: a file of memory that nobody can make shorter, mapped by two processes.

use crate::layout::{DATA, DATA_SIZES};
use outboard_protocol::GUARD;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::AtomicU32;

const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A mapping of a slot. Another process may change all of it at any time: no reference leads into
/// it but those to atomic words.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    base: NonNull<u8>,
    /// Bytes of data.
    size: usize,
    /// Bytes behind the data where nothing is mapped.
    guard: usize,
}

// SAFETY: the mapping belongs to this value alone, and all its accesses are atomic, volatile or
// copies of raw bytes.
unsafe impl Send for SlotMemory {}
// SAFETY: as above.
unsafe impl Sync for SlotMemory {}

fn check(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn check_size(size: usize) -> io::Result<()> {
    let is_fit = DATA_SIZES.contains(&size) && size % DATA == 0;
    is_fit
        .then_some(())
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Makes the file of a slot with so many bytes of data, a multiple of 4096.
pub(crate) fn make(size: usize) -> io::Result<OwnedFd> {
    check_size(size)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string.
    let file = check(unsafe { libc::memfd_create(c"outboard-slot".as_ptr(), flags) })?;
    // SAFETY: the descriptor is new, and nobody else's.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: has only numbers as its arguments.
    check(unsafe { libc::ftruncate(file.as_raw_fd(), (DATA + size) as libc::off_t) })?;
    // SAFETY: has only numbers as its arguments.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
    Ok(file)
}

/// Checks a file that came from a server: it has the size that was told, and keeps it. Otherwise an
/// access could end this process by SIGBUS.
fn check_file(file: &impl AsFd, size: usize) -> io::Result<()> {
    let number = file.as_fd().as_raw_fd();
    // SAFETY: has only numbers as its arguments.
    let seals = check(unsafe { libc::fcntl(number, libc::F_GET_SEALS) })?;
    // SAFETY: all-zero is valid for the structure.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    check(unsafe { libc::fstat(number, &mut status) })?;
    let is_right = seals & libc::F_SEAL_SHRINK != 0 && status.st_size == (DATA + size) as i64;
    is_right
        .then_some(())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the slot is not as it was told"))
}

impl SlotMemory {
    /// Maps a slot with so many bytes of data.
    pub(crate) fn map(file: &impl AsFd, size: usize) -> io::Result<Self> {
        check_size(size)?;
        check_file(file, size)?;
        let guard = GUARD as usize;
        let (none, anonymous) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let flags = anonymous | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the host's choice.
        let place = unsafe { libc::mmap(null_mut(), DATA + size + guard, none, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(place.cast()).expect("nothing is mapped at 0");
        let memory = Self { base, size, guard };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let shared = libc::MAP_SHARED | libc::MAP_FIXED;
        let number = file.as_fd().as_raw_fd();
        // SAFETY: replaces a part of the mapping above, which is this value's alone.
        let mapped = unsafe { libc::mmap(place, DATA + size, access, shared, number, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(memory)
    }

    /// Bytes of data.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The address of the first byte of data.
    pub(crate) fn data(&self) -> *mut u8 {
        // SAFETY: the data lie in the mapping.
        unsafe { self.base.as_ptr().add(DATA) }
    }

    /// The word at an offset of the header, a multiple of four.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset < DATA);
        // SAFETY: the word lies in the mapping, which lives as long as `self`, and is aligned.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// The number of 8 bytes at an offset of the header, read once.
    pub(crate) fn number(&self, offset: usize) -> u64 {
        assert!(offset % 8 == 0 && offset < DATA);
        // SAFETY: the number lies in the mapping, and is aligned.
        unsafe { self.base.as_ptr().add(offset).cast::<u64>().read_volatile() }
    }

    /// Sets it.
    pub(crate) fn set_number(&self, offset: usize, value: u64) {
        assert!(offset % 8 == 0 && offset < DATA);
        // SAFETY: the number lies in the mapping, and is aligned.
        unsafe {
            let place = self.base.as_ptr().add(offset).cast::<u64>();
            place.write_volatile(value);
        }
    }

    fn check_range(&self, offset: usize, length: usize) {
        let end = offset.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.size), "outside of a slot");
    }

    /// Copies bytes out of the data. They have to lie inside.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.check_range(offset, bytes.len());
        // SAFETY: the bytes lie in the mapping; `bytes` is other memory. Bytes that the other side
        // changes meanwhile are some bytes or others: each value is valid for u8.
        unsafe {
            let from = self.data().add(offset);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// Copies bytes into the data. They have to fit.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.check_range(offset, bytes.len());
        // SAFETY: the bytes lie in the mapping; `bytes` is other memory.
        unsafe {
            let to = self.data().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        let length = DATA + self.size + self.guard;
        // SAFETY: the mapping is this value's, and nobody can use it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_its_size() {
        let file = make(64 << 10).unwrap();
        // SAFETY: has only numbers as its arguments.
        assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), 4096) }, -1);
        let memory = SlotMemory::map(&file, 64 << 10).unwrap();
        memory.write(10, b"abc");
        let mut bytes = [0; 3];
        memory.read(10, &mut bytes);
        assert_eq!(&bytes, b"abc");
        assert!(SlotMemory::map(&file, 128 << 10).is_err());
        for size in [0, 4096, (64 << 10) + 1, 32 << 20] {
            assert!(make(size).is_err(), "{size}");
        }
    }

    #[test]
    fn a_file_that_can_shrink_is_refused() {
        // SAFETY: the name is a string; the descriptor is new.
        let file = unsafe {
            let number = libc::memfd_create(c"x".as_ptr(), libc::MFD_ALLOW_SEALING);
            OwnedFd::from_raw_fd(number)
        };
        // SAFETY: has only numbers as its arguments.
        unsafe { libc::ftruncate(file.as_raw_fd(), (DATA + (64 << 10)) as i64) };
        assert!(SlotMemory::map(&file, 64 << 10).is_err());
    }

    #[test]
    #[should_panic(expected = "outside of a slot")]
    fn nothing_is_read_outside() {
        let file = make(64 << 10).unwrap();
        let memory = SlotMemory::map(&file, 64 << 10).unwrap();
        memory.read(65530, &mut [0; 8]);
    }
}
