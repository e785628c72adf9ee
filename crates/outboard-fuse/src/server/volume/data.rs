// SPDX-License-Identifier: GPL-2.0-only
//! Data of files: reads, writes, and losses.

use super::super::files::OpenFile;
use super::super::nodes::ROOT;
use super::{error, Caller, ServedVolume};
use outboard::Fd;
use std::io;

/// Most bytes of one copy inside the image, so that the answer comes soon enough for an interrupt.
const COPY: u64 = 256 << 20;
/// Reads of at least this many bytes are readahead of the host, which caches them itself.
const AHEAD: usize = 64 << 10;

/// A group without members, for a caller's group without a mapping.
const NO_GROUP: u32 = u32::MAX - 1;

/// The origin of written data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WriteOrigin {
    /// The host's cache: the program has gone on, and the host counts the data as written.
    Cache,
    /// A call that waits for the answer. `privileged`: keep set-user-ID bits.
    Call { privileged: bool },
}

fn has_set_id(stat: &libc::stat) -> bool {
    stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0
}

impl ServedVolume {
    /// Notes that written data is lost. The next sync of the whole file system reports the error.
    fn lose(&self, error: &io::Error) {
        let _ = self.lost.set(error.raw_os_error().unwrap_or(libc::EIO));
    }

    /// As `lose`, for data of one file up to `end`: the next write(2) by each open handle reports
    /// the error, too.
    fn lose_of(&self, id: u64, error: &io::Error, end: u64) {
        self.lose(error);
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        self.files.writers.lose(id, number, end);
        self.host.drop_attributes(id);
    }

    /// Whether a handle for writing is uninformed of lost data.
    pub fn is_uninformed(&self, id: u64) -> bool {
        self.files.writers.is_uninformed(id)
    }

    /// Makes the host ask for attributes again if a handle for writing is uninformed of lost data.
    pub fn remind_writers(&self, id: u64) {
        if self.is_uninformed(id) {
            self.host.drop_attributes(id);
        }
    }

    /// Settles a file with lost data that no program writes any more: it gets the size that the
    /// host shows, with a hole at its end. If there is no space, or the file system has no holes,
    /// the host gets the file's real size once the file is closed.
    pub(super) fn settle(&self, id: u64, fd: &Fd, end: u64) {
        let grow = || {
            if fd.stat()?.st_size.unsigned_abs() < end {
                fd.truncate(end)
            } else {
                Ok(())
            }
        };
        if grow().is_err() {
            self.nodes.misjudge(id);
        }
    }

    /// The error of data lost after a write(2) by this handle; returned once.
    pub(super) fn check_writer(&self, file: &OpenFile) -> io::Result<()> {
        match &file.writer {
            Some(writer) => self.files.writers.check(writer),
            None => Ok(()),
        }
    }

    /// Makes this thread change data as the caller. `privileged`: keep set-user-ID bits.
    pub(super) fn change_as(&self, caller: Caller, privileged: bool) -> io::Result<()> {
        let group = self.owners.groups.to_image(caller.group);
        self.kernel
            .change_files_as(group.unwrap_or(NO_GROUP), privileged)
    }

    /// Changes data of a file as the caller. The change may clear set-user-ID bits; the host must
    /// then ask for the mode again.
    fn change_data<T>(
        &self,
        caller: Caller,
        privileged: bool,
        (id, fd): (u64, &Fd),
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.change_as(caller, privileged)?;
        let may_lose_bits = !privileged && has_set_id(&fd.stat()?);
        let result = work();
        if may_lose_bits {
            self.host.drop_attributes(id);
        }
        result
    }

    /// Notes that the host reads data of a file into its page cache.
    pub fn mark_cached(&self, id: u64) {
        self.nodes.mark_cached(id);
    }

    /// Whether the host may have data of a file in its page cache.
    pub fn is_cached(&self, id: u64) -> bool {
        self.nodes.is_cached(id)
    }

    /// Reads until the buffer is full or the file ends. `direct`: the data bypasses the host's page
    /// cache, so the part before an error counts. The cache takes a part for the end of the file,
    /// and shows zeros behind it; after an error the host asks again, page by page.
    pub fn read(
        &self,
        file: u64,
        buffer: &mut [u8],
        offset: u64,
        direct: bool,
    ) -> io::Result<usize> {
        let file = self.files.get(file)?;
        let mut done = 0;
        while done < buffer.len() {
            match file.fd.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(_) if direct && done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        if self.whole_blocks && done >= AHEAD {
            // Only a hint: memory comes back later if it fails.
            let _ = file
                .fd
                .advise(offset, done as u64, libc::POSIX_FADV_DONTNEED);
        }
        Ok(done)
    }

    /// Writes all data, or as much as there is space for.
    pub fn write(
        &self,
        caller: Caller,
        (id, file): (u64, u64),
        data: &[u8],
        offset: u64,
        origin: WriteOrigin,
    ) -> io::Result<usize> {
        let file = self.files.get(file)?;
        let result = match origin {
            WriteOrigin::Cache => self.write_cached(&file.fd, data, offset),
            WriteOrigin::Call { privileged } => {
                self.check_writer(&file)?;
                self.change_data(caller, privileged, (id, &file.fd), || {
                    self.write_called(&file.fd, data, offset)
                })
            }
        };
        // Both errors of one write are one loss.
        let disk = file
            .writer
            .as_ref()
            .map_or(Ok(()), |writer| writer.check_disk());
        match (&result, origin, &disk) {
            (Err(error), WriteOrigin::Cache, _) => {
                self.lose_of(id, error, offset + data.len() as u64);
            }
            (Err(_), WriteOrigin::Call { .. }, Err(error)) => {
                self.lose_of(id, error, 0);
                // The answer is the report.
                let _ = self.check_writer(&file);
            }
            (Ok(_), _, Err(error)) => self.lose_of(id, error, 0),
            (_, _, Ok(())) => {}
        }
        result
    }

    fn write_cached(&self, fd: &Fd, data: &[u8], offset: u64) -> io::Result<usize> {
        self.kernel.keep_set_id(true)?;
        let mut done = 0;
        while done < data.len() {
            match self.with_space(|| fd.write_at(&data[done..], offset + done as u64)) {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_called(&self, fd: &Fd, data: &[u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < data.len() {
            match self.with_space(|| fd.write_at(&data[done..], offset + done as u64)) {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Allocates or punches a range, as fallocate(2) does.
    pub fn allocate(
        &self,
        caller: Caller,
        (id, file): (u64, u64),
        mode: i32,
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        let file = self.files.get(file)?;
        self.change_data(caller, caller.is_privileged(), (id, &file.fd), || {
            self.with_space(|| file.fd.allocate(mode, offset, length))
        })
    }

    /// `to`: node, handle, offset.
    pub fn copy(
        &self,
        caller: Caller,
        (from, from_offset): (u64, u64),
        (id, to, to_offset): (u64, u64, u64),
        length: u64,
    ) -> io::Result<usize> {
        let (from, to) = (self.files.get(from)?, self.files.get(to)?);
        let length = length.min(COPY) as usize;
        self.change_data(caller, caller.is_privileged(), (id, &to.fd), || {
            self.with_space(|| from.fd.copy_range(from_offset, &to.fd, to_offset, length))
        })
    }

    /// Writes a file to stable storage.
    pub fn sync(&self, file: u64, data_only: bool) -> io::Result<()> {
        let file = self.files.get(file)?;
        if data_only {
            file.fd.sync_data()
        } else {
            file.fd.sync()
        }
    }

    /// Returns every write error since the file system was mounted, also errors that were returned
    /// before.
    fn sync_all(&self) -> io::Result<()> {
        let written = self.whole.sync_file_system();
        if let Err(error) = written.and_then(|()| self.sync_device()) {
            self.lose(&error);
        }
        match self.lost.get() {
            Some(&number) => Err(error(number)),
            None => Ok(()),
        }
    }

    /// fsync(2) of the root syncs the whole file system: the host does not pass on syncfs(2).
    pub fn sync_directory(&self, id: u64, directory: u64) -> io::Result<()> {
        if id == ROOT {
            return self.sync_all();
        }
        self.files.get(directory)?.fd.sync()
    }

    /// Whether the host may have unwritten data of a file.
    pub fn is_written(&self, id: u64) -> bool {
        self.files.writers.is_open(id)
    }
}
