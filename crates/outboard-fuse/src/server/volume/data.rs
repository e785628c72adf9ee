// SPDX-License-Identifier: GPL-2.0-only
//! Data of files: reading, writing, and what becomes of data that cannot be written.

use super::super::files::OpenFile;
use super::super::nodes::ROOT;
use super::{error, Caller, Volume};
use outboard::Fd;
use std::io;

/// Most bytes of one copy inside the image, so that the answer comes before people lose patience.
const COPY: u64 = 256 << 20;
/// Bytes of a read from which on the host has read ahead, or wants as much: it remembers them itself.
const AHEAD: usize = 64 << 10;

/// A group that no caller is in, for one that the image does not have.
const NO_GROUP: u32 = u32::MAX - 1;

/// Where data comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The host's cache: the program has gone on, and the host takes all for written.
    Cache,
    /// A call that waits for the answer. `privileged`: set-user-ID bits stay.
    Call { privileged: bool },
}

fn has_set_id(stat: &libc::stat) -> bool {
    stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0
}

impl Volume {
    /// Data that a program has written is lost. The next sync of the whole file system reports it.
    fn lose(&self, error: &io::Error) {
        let _ = self.lost.set(error.raw_os_error().unwrap_or(libc::EIO));
    }

    /// As `lose` for data of one file, which ended at `end`: the next write(2) of each program that
    /// has it open reports it, too.
    fn lose_of(&self, id: u64, error: &io::Error, end: u64) {
        self.lose(error);
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        self.files.writers.lose(id, number, end);
        self.host.drop_attributes(id);
    }

    /// Whether a writer of a file still has to learn of lost data.
    pub fn is_uninformed(&self, id: u64) -> bool {
        self.files.writers.is_uninformed(id)
    }

    /// The host shall ask for attributes again where a writer still has to learn of lost data.
    pub fn remind_writers(&self, id: u64) {
        if self.is_uninformed(id) {
            self.host.drop_attributes(id);
        }
    }

    /// Nobody writes to a file any more of which data was lost: gives it the size that the host
    /// shows, with a hole at its end. Where there is no room for that, or there are no holes, the
    /// host gets the file's own size as soon as nobody has it open.
    pub(super) fn settle(&self, id: u64, fd: &Fd, end: u64) {
        let grow = || match fd.stat()?.st_size.unsigned_abs() < end {
            true => fd.truncate(end),
            false => Ok(()),
        };
        if grow().is_err() {
            self.nodes.misjudge(id);
        }
    }

    /// The error of data that was lost after a write(2) by this handle, once.
    pub(super) fn check_writer(&self, file: &OpenFile) -> io::Result<()> {
        match &file.writer {
            Some(writer) => self.files.writers.check(writer),
            None => Ok(()),
        }
    }

    /// From now on this thread changes data as the caller. `privileged`: set-user-ID bits stay.
    pub(super) fn change_as(&self, caller: Caller, privileged: bool) -> io::Result<()> {
        let group = self.owners.groups.to_image(caller.group);
        self.device
            .kernel()
            .change_files_as(group.unwrap_or(NO_GROUP), privileged)
    }

    /// Changes data of a file as the caller. The change may take set-user-ID bits away, which the host does not look for.
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

    /// The host gets data of a file for its page cache.
    pub fn mark_cached(&self, id: u64) {
        self.nodes.mark_cached(id);
    }

    /// Whether the host may have data of a file in its page cache.
    pub fn is_cached(&self, id: u64) -> bool {
        self.nodes.is_cached(id)
    }

    /// Reads until the buffer is full or the file ends.
    pub fn read(&self, file: u64, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = self.files.get(file)?;
        let mut done = 0;
        while done < buffer.len() {
            match file.fd.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(_) if done > 0 => break,
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

    /// Writes all, or as much as there is room for.
    pub fn write(
        &self,
        caller: Caller,
        (id, file): (u64, u64),
        data: &[u8],
        offset: u64,
        origin: Origin,
    ) -> io::Result<usize> {
        let file = self.files.get(file)?;
        let result = match origin {
            Origin::Cache => self.write_cached(&file.fd, data, offset),
            Origin::Call { privileged } => {
                self.check_writer(&file)?;
                self.change_data(caller, privileged, (id, &file.fd), || {
                    self.write_called(&file.fd, data, offset)
                })
            }
        };
        // Both of one write are one loss.
        let disk = file
            .writer
            .as_ref()
            .map_or(Ok(()), |writer| writer.check_disk());
        match (&result, origin, &disk) {
            (Err(error), Origin::Cache, _) => {
                self.lose_of(id, error, offset + data.len() as u64);
            }
            (Err(_), Origin::Call { .. }, Err(error)) => {
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
        self.device.kernel().keep_set_id(true)?;
        let mut done = 0;
        while done < data.len() {
            match self.with_room(|| fd.write_at(&data[done..], offset + done as u64)) {
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
            match self.with_room(|| fd.write_at(&data[done..], offset + done as u64)) {
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
            self.with_room(|| file.fd.allocate(mode, offset, length))
        })
    }

    /// `to`: the node, what is open, and the offset.
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
            self.with_room(|| from.fd.copy_range(from_offset, &to.fd, to_offset, length))
        })
    }

    /// Writes a file to stable storage.
    pub fn sync(&self, file: u64, data_only: bool) -> io::Result<()> {
        let file = self.files.get(file)?;
        match data_only {
            true => file.fd.sync_data(),
            false => file.fd.sync(),
        }
    }

    /// Tells of every error of writing since the file system was mounted, also of those that were told before.
    fn sync_all(&self) -> io::Result<()> {
        let written = self.whole.sync_file_system();
        if let Err(error) = written.and_then(|()| self.device.sync()) {
            self.lose(&error);
        }
        match self.lost.get() {
            Some(&number) => Err(error(number)),
            None => Ok(()),
        }
    }

    /// The root stands for the whole file system, since the host passes no syncfs(2) on.
    pub fn sync_directory(&self, id: u64, directory: u64) -> io::Result<()> {
        if id == ROOT {
            return self.sync_all();
        }
        self.files.get(directory)?.fd.sync()
    }

    /// Whether the host may hold back what programs have written to a file.
    pub fn is_written(&self, id: u64) -> bool {
        self.files.writers.is_open(id)
    }
}
