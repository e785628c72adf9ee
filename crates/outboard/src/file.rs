// SPDX-License-Identifier: GPL-2.0-only
//! Open files.

use crate::metadata::Metadata;
use crate::path::c_name;
use crate::Fd;
use outboard_sys::{explained, libc};
use std::ffi::OsStr;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// How a file is opened, as [`std::fs::OpenOptions`].
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    flags: i32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Nothing chosen yet; new files get the permissions 0644, whatever the process's umask is.
    pub fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o644,
            flags: 0,
        }
    }

    /// The file can be read.
    pub fn read(&mut self, yes: bool) -> &mut Self {
        self.read = yes;
        self
    }

    /// The file can be written.
    pub fn write(&mut self, yes: bool) -> &mut Self {
        self.write = yes;
        self
    }

    /// Writes append to the end of the file.
    pub fn append(&mut self, yes: bool) -> &mut Self {
        self.append = yes;
        self
    }

    /// The file loses its contents.
    pub fn truncate(&mut self, yes: bool) -> &mut Self {
        self.truncate = yes;
        self
    }

    /// The file is made if it is not there.
    pub fn create(&mut self, yes: bool) -> &mut Self {
        self.create = yes;
        self
    }

    /// The file is made, and must not be there.
    pub fn create_new(&mut self, yes: bool) -> &mut Self {
        self.create_new = yes;
        self
    }

    /// Permissions of a file that is created.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Further `O_*` flags.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.flags = flags;
        self
    }

    fn to_flags(&self) -> io::Result<i32> {
        let writes = self.write || self.append;
        let mut flags = match (self.read, writes) {
            (true, false) => libc::O_RDONLY,
            (false, true) => libc::O_WRONLY,
            (true, true) => libc::O_RDWR,
            (false, false) => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        if !writes && (self.truncate || self.create || self.create_new) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        for (chosen, flag) in [
            (self.append, libc::O_APPEND),
            (self.truncate && !self.create_new, libc::O_TRUNC),
            (self.create, libc::O_CREAT),
            (self.create_new, libc::O_CREAT | libc::O_EXCL),
        ] {
            if chosen {
                flags |= flag;
            }
        }
        Ok(flags | self.flags)
    }

    /// Opens a file by a function that takes `O_*` flags and the permissions of a new file.
    pub(crate) fn open_by(
        &self,
        open: impl FnOnce(i32, u32) -> io::Result<Fd>,
    ) -> io::Result<File> {
        let fd = open(self.to_flags()?, self.mode)?;
        Ok(File::from(fd))
    }
}

/// Opens a file of an image, but no FIFO: the open would wait for ever, since no other program runs
/// in there. `open` takes `O_*` flags. A caller that passes `O_NONBLOCK` itself gets the FIFO.
pub(crate) fn open_no_fifo(flags: i32, open: impl Fn(i32) -> io::Result<Fd>) -> io::Result<Fd> {
    if flags & (libc::O_NONBLOCK | libc::O_PATH) != 0 {
        return open(flags);
    }
    let refused = |kind: &str| {
        let text = format!("it is a {kind}, which only running programs can use");
        explained(io::Error::from_raw_os_error(libc::EOPNOTSUPP), text)
    };
    match open(flags | libc::O_NONBLOCK) {
        Ok(fd) if fd.stat()?.st_mode & libc::S_IFMT == libc::S_IFIFO => Err(refused("FIFO")),
        // A FIFO without a reader, a socket, a device without a driver.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            Err(refused("FIFO, socket or device"))
        }
        other => other,
    }
}

/// An open file of an image or of the host. Closed when dropped.
#[derive(Debug)]
pub struct File {
    fd: Fd,
}

pub(crate) fn timespec(time: SystemTime) -> libc::timespec {
    let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            // The earliest time has no opposite in 64 bits, and stays what it is.
            let seconds = (before.as_secs() as i64).wrapping_neg();
            match before.subsec_nanos() {
                0 => (seconds, 0),
                part => (seconds - 1, 1_000_000_000 - part),
            }
        }
    };
    libc::timespec {
        tv_sec: seconds,
        tv_nsec: i64::from(nanoseconds),
    }
}

impl From<Fd> for File {
    fn from(fd: Fd) -> Self {
        Self { fd }
    }
}

impl File {
    /// Its metadata.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.fd.stat().map(Metadata::from)
    }

    /// Cuts the file, or makes it longer by a hole.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.fd.truncate(size)
    }

    /// Writes data and metadata to stable storage.
    pub fn sync_all(&self) -> io::Result<()> {
        self.fd.sync()
    }

    /// Writes data to stable storage, and of the metadata what is needed to find them.
    pub fn sync_data(&self) -> io::Result<()> {
        self.fd.sync_data()
    }

    /// Changes permissions: the low 12 bits of the mode.
    pub fn set_permissions(&self, mode: u32) -> io::Result<()> {
        self.fd.set_mode(mode)
    }

    /// Sets the times of access and modification.
    pub fn set_times(&self, accessed: SystemTime, modified: SystemTime) -> io::Result<()> {
        self.fd.set_times(&[timespec(accessed), timespec(modified)])
    }

    /// The value of an extended attribute.
    pub fn xattr(&self, name: impl AsRef<OsStr>) -> io::Result<Vec<u8>> {
        self.fd.xattr(&c_name(name.as_ref())?)
    }

    /// Sets an extended attribute.
    pub fn set_xattr(&self, name: impl AsRef<OsStr>, value: impl AsRef<[u8]>) -> io::Result<()> {
        self.fd
            .set_xattr(&c_name(name.as_ref())?, value.as_ref(), 0)
    }

    /// For calls that this type does not offer.
    #[doc(hidden)]
    pub fn as_fd(&self) -> &Fd {
        &self.fd
    }
}

/// Reads and writes at an offset do not move the position.
impl FileExt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fd.read_at(buffer, offset)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.fd.write_at(buffer, offset)
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd.read(buffer)
    }
}

impl Write for &File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.fd.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let (offset, whence) = match position {
            SeekFrom::Start(offset) => (
                i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?,
                libc::SEEK_SET,
            ),
            SeekFrom::Current(offset) => (offset, libc::SEEK_CUR),
            SeekFrom::End(offset) => (offset, libc::SEEK_END),
        };
        self.fd.seek(offset, whence)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        (&*self).seek(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn options_become_flags() {
        let flags = OpenOptions::new().write(true).create_new(true).to_flags();
        assert_eq!(
            flags.unwrap(),
            libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL
        );
        assert!(OpenOptions::new().to_flags().is_err());
        assert!(OpenOptions::new()
            .read(true)
            .truncate(true)
            .to_flags()
            .is_err());
    }

    #[test]
    fn times_become_timespecs() {
        let before = timespec(UNIX_EPOCH - Duration::from_millis(1500));
        assert_eq!((before.tv_sec, before.tv_nsec), (-2, 500_000_000));
        let after = timespec(UNIX_EPOCH + Duration::from_nanos(1_000_000_001));
        assert_eq!((after.tv_sec, after.tv_nsec), (1, 1));
        let earliest = Duration::from_secs(1 << 63);
        let earliest = timespec(UNIX_EPOCH.checked_sub(earliest).unwrap());
        assert_eq!((earliest.tv_sec, earliest.tv_nsec), (i64::MIN, 0));
    }
}
