// SPDX-License-Identifier: GPL-2.0-only
//! Memory for keys. It is locked, so that no key reaches swap. Core dumps leave it out. It is wiped
//! when it is dropped.
//!
//! A lock is best effort: the host limits locked memory (`ulimit -l`), and a forked child does not
//! inherit locks. [`Secret::is_locked`] tells whether the host granted the lock.

use libc::{c_int, c_void};
use std::alloc::{handle_alloc_error, Layout};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::process;
use std::ptr::{null_mut, NonNull};

/// A mapping of its own for a key. No other data shares its pages.
struct Region {
    start: NonNull<u8>,
    length: usize,
    locked: bool,
}

// SAFETY: the region owns its memory, as a boxed slice does.
unsafe impl Send for Region {}
// SAFETY: as for Send; a shared reference permits only reading.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `length` bytes, at least one: zeroes if `file` is -1, else the start of that file.
    fn map(length: usize, flags: c_int, file: RawFd) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the host chooses an address that is free.
        let start = unsafe { libc::mmap(null_mut(), length, protection, flags, file, 0) };
        let start = match NonNull::new(start.cast::<u8>()) {
            Some(found) if start != libc::MAP_FAILED => found,
            _ => return Err(io::Error::last_os_error()),
        };
        // SAFETY: both calls concern this mapping alone and leave its contents as they are.
        let locked = unsafe {
            libc::madvise(start.as_ptr().cast(), length, libc::MADV_DONTDUMP);
            libc::mlock(start.as_ptr().cast(), length) == 0
        };
        Ok(Self {
            start,
            length,
            locked,
        })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has so many bytes, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for bytes(); `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    fn wipe(&mut self) {
        wipe(self.bytes_mut());
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this region's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.length) };
    }
}

/// Overwrites bytes with zeroes. The compiler does not leave this out.
fn wipe(bytes: &mut [u8]) {
    // SAFETY: the slice is valid for writing.
    unsafe { libc::explicit_bzero(bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// A key in memory of its own: see the head of this module.
pub struct Secret {
    region: Region,
    /// Bytes of the key; the rest of the region is zero.
    length: usize,
}

impl Secret {
    /// A key of zeroes, to be filled in. Ends the program if the host has no memory.
    pub fn zeroed(length: usize) -> Self {
        let size = length.max(1);
        let region = Region::map(size, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        let region = region.unwrap_or_else(|_| {
            handle_alloc_error(Layout::array::<u8>(size).unwrap_or(Layout::new::<u8>()))
        });
        Self { region, length }
    }

    /// Whether the host keeps the memory out of swap.
    pub fn is_locked(&self) -> bool {
        self.region.locked
    }

    /// Wipes all bytes after the first `length`.
    pub fn truncate(&mut self, length: usize) {
        if length < self.length {
            wipe(&mut self[length..]);
            self.length = length;
        }
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.region.wipe();
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        let mut secret = Self::zeroed(bytes.len());
        secret.copy_from_slice(bytes);
        secret
    }
}

impl Clone for Secret {
    fn clone(&self) -> Self {
        Self::from(&**self)
    }
}

impl Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.region.bytes()[..self.length]
    }
}

impl DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [u8] {
        let length = self.length;
        &mut self.region.bytes_mut()[..length]
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Secret {}

/// Shows no byte of the key.
impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "Secret({} bytes)", self.length)
    }
}

/// A key in a file without a name, for programs that this one starts: they inherit its descriptor.
/// The file is sealed: nobody can change it but the process that made it, which wipes it.
pub struct SecretFile {
    region: Region,
    length: usize,
    file: File,
    /// The process that made it. A forked child must not wipe what it shares with its parent.
    process: u32,
}

impl SecretFile {
    /// Copies a key into a memory file.
    pub fn new(key: &[u8]) -> io::Result<Self> {
        let file = memory_file()?;
        let size = key.len().max(1);
        file.set_len(size as u64)?;
        let mut region = Region::map(size, libc::MAP_SHARED, file.as_raw_fd())?;
        region.bytes_mut()[..key.len()].copy_from_slice(key);
        file.set_len(key.len() as u64)?;
        let seals =
            libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
        // SAFETY: has only numbers as its arguments.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            region,
            length: key.len(),
            file,
            process: process::id(),
        })
    }

    /// The descriptor's number, in this process and in programs that inherit it.
    pub fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Overwrites the key with zeroes, for everybody who has the file.
    pub fn wipe(&mut self) {
        // An empty file has no page behind its mapping.
        if self.length > 0 && process::id() == self.process {
            self.region.wipe();
        }
    }
}

/// A file in memory that can be sealed, cannot be executed, and is inherited by other programs.
fn memory_file() -> io::Result<File> {
    let make = |flags| {
        // SAFETY: the name is NUL-terminated.
        match unsafe { libc::memfd_create(c"outboard-key".as_ptr(), flags) } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: the descriptor is new, and nobody else has it.
            number => Ok(unsafe { File::from_raw_fd(number) }),
        }
    };
    // Linux before 6.3 refuses the second flag with EINVAL.
    make(libc::MFD_ALLOW_SEALING | libc::MFD_NOEXEC_SEAL).or_else(|_| make(libc::MFD_ALLOW_SEALING))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// The flags that smaps shows of the mapping at this address.
    fn flags(address: usize) -> Vec<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            let parse = |text| usize::from_str_radix(text, 16);
            if let Some((Ok(start), Ok(end))) = range.map(|(a, b)| (parse(a), parse(b))) {
                inside = (start..end).contains(&address);
            }
            if let (true, Some(flags)) = (inside, line.strip_prefix("VmFlags: ")) {
                return flags.split_whitespace().map(str::to_owned).collect();
            }
        }
        Vec::new()
    }

    #[test]
    fn keys_are_locked_and_not_dumped() {
        let secret = Secret::from(b"passphrase".as_slice());
        let flags = flags(secret.as_ptr() as usize);
        assert!(flags.contains(&"dd".to_owned()), "{flags:?}");
        assert_eq!(flags.contains(&"lo".to_owned()), secret.is_locked());
        assert!(!format!("{secret:?}").contains("pass"));
    }

    #[test]
    fn keys_are_slices() {
        let mut secret = Secret::from(b"abc".as_slice());
        let copy = secret.clone();
        assert_eq!(secret, copy);
        secret.truncate(2);
        assert_eq!(*secret, *b"ab");
        assert_eq!(&secret.region.bytes()[..3], b"ab\0");
        assert_ne!(secret, copy);
        secret.region.wipe();
        assert_eq!(*secret, [0, 0]);
        assert!(Secret::zeroed(0).is_empty());
    }

    #[test]
    fn key_files_are_sealed_and_wiped() {
        let mut key = SecretFile::new(b"passphrase").unwrap();
        let mut other = File::options()
            .read(true)
            .write(true)
            .open(format!("/dev/fd/{}", key.number()))
            .unwrap();
        assert!(other.write(b"x").is_err());
        assert!(other.set_len(3).is_err() && other.set_len(30).is_err());
        let mut bytes = Vec::new();
        other.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"passphrase");
        key.wipe();
        let mut other = File::open(format!("/dev/fd/{}", key.number())).unwrap();
        bytes.clear();
        other.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [0; 10]);
        SecretFile::new(b"").unwrap().wipe();
    }
}
