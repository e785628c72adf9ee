// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's side: a FUSE file system with one file, whose bytes are those of a block device.
//!
//! The file always has the size of the device. The host caches reads while the file is open, and
//! writes through.

use super::exported_name::ExportedName;
use crate::address::ImageName;
use crate::session::{Session, WantedDevice};
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, SessionACL, TimeOrNow, WriteFlags,
};
use outboard::{Fd, System};
use outboard_error::{Error, Result};
use outboard_worker::Parent;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The name of the file.
pub const NAME: &str = "volume";
const FILE: INodeNo = INodeNo(2);
/// Forever: no other process changes the device.
const EVER: Duration = Duration::from_secs(1 << 30);
/// Bytes of the largest read or write request.
const LARGEST: u32 = 1 << 20;

/// Answers the host's requests until the parent needs the file no more. Then all writes are on
/// stable storage.
pub fn serve(
    session: &mut Session,
    name: &ImageName,
    wanted: WantedDevice,
    write: bool,
    requests: OwnedFd,
    parent: &mut Parent<(), ExportedName>,
) -> Result<()> {
    let failed = |error: io::Error| Error::failed(format!("cannot use {}", name.shown()), &error);
    let (device, found) = session.block_device(name, wanted, write)?;
    let size = device.size().map_err(failed)?;
    let fd = device.open_as(write).map_err(failed)?;
    let gate = Arc::new(RwLock::new(Some(fd)));
    let volume = ExportedFile {
        device: Arc::clone(&gate),
        size,
        writable: write,
    };
    let mut config = Config::default();
    config.n_threads = Some(session.vcpus().max(1) as usize);
    let fuse =
        fuser::Session::from_fd(volume, requests, SessionACL::All, config).map_err(failed)?;
    thread::Builder::new()
        .spawn(move || fuse.run())
        .map_err(failed)?;
    // A parent that is gone needs the file no more.
    if parent.send(&ExportedName::of(&found)).is_ok() {
        while let Ok(Some(())) = parent.receive() {}
    }
    // Waits for requests under way, and refuses later ones.
    let fd = gate.write().expect("no thread panics").take();
    let synced = fd.filter(|_| write).map_or(Ok(()), |fd| fd.sync());
    synced.map_err(|error| {
        Error::failed(
            format!("{}: not everything was written", name.shown()),
            &error,
        )
    })
}

struct ExportedFile {
    /// Empty at the end.
    device: Arc<RwLock<Option<Fd>>>,
    size: u64,
    writable: bool,
}

/// Attributes of the file, or of its directory.
fn attributes(id: INodeNo, size: u64) -> FileAttr {
    let (kind, perm) = match id {
        FILE => (FileType::RegularFile, 0o600),
        _ => (FileType::Directory, 0o500),
    };
    FileAttr {
        ino: id,
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: System::Host.effective_user(),
        gid: System::Host.effective_group(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

fn number(error: i32) -> io::Error {
    io::Error::from_raw_os_error(error)
}

fn empty(reply: ReplyEmpty, result: io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

impl ExportedFile {
    fn run<T>(&self, work: impl FnOnce(&Fd) -> io::Result<T>) -> io::Result<T> {
        match &*self.device.read().expect("no thread panics") {
            Some(device) => work(device),
            None => Err(number(libc::ENOTCONN)),
        }
    }

    /// Reads the part of this range that exists.
    fn read_range(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let left = self.size.saturating_sub(offset);
        let mut buffer = vec![0; left.min(length.into()) as usize];
        let mut done = 0;
        while done < buffer.len() {
            let rest = &mut buffer[done..];
            match self.run(|device| device.read_at(rest, offset + done as u64))? {
                0 => return Err(number(libc::EIO)),
                read => done += read,
            }
        }
        Ok(buffer)
    }

    /// ENOSPC: the device ends before, and cannot grow.
    fn check_range(&self, offset: u64, length: u64) -> io::Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(number(libc::ENOSPC)),
        }
    }
}

impl Filesystem for ExportedFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(LARGEST);
        if let Err(most) = config.set_max_readahead(LARGEST) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&EVER, &attributes(FILE, self.size), Generation(0));
        } else {
            reply.error(Errno::from_i32(libc::ENOENT));
        }
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&EVER, &attributes(id, self.size));
    }

    /// Changes nothing, as for a device.
    fn setattr(
        &self,
        _: &Request,
        id: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&EVER, &attributes(id, self.size));
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let reads = flags.0 & libc::O_ACCMODE == libc::O_RDONLY;
        if reads || self.writable {
            reply.opened(FileHandle(0), FopenFlags::empty());
        } else {
            reply.error(Errno::from_i32(libc::EACCES));
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_range(offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let done = self
            .check_range(offset, data.len() as u64)
            .and_then(|()| self.run(|device| device.write_all_at(data, offset)));
        match done {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.run(Fd::sync));
    }

    /// Punches holes if the device can; allocation is never needed.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let known = [libc::FALLOC_FL_PUNCH_HOLE, libc::FALLOC_FL_ZERO_RANGE]
            .map(|kind| kind | libc::FALLOC_FL_KEEP_SIZE);
        let done = if known.contains(&mode) {
            self.check_range(offset, length)
                .and_then(|()| self.run(|device| device.allocate(mode, offset, length)))
        } else {
            Err(number(libc::EOPNOTSUPP))
        };
        empty(reply, done);
    }
}
