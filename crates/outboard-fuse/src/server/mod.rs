// SPDX-License-Identifier: GPL-2.0-only
//! The FUSE protocol: requests of the host's kernel, from the library's form to calls of a
//! [`ServedVolume`].
//!
//! The library is fuser. It implements the protocol without libfuse, so the program stays one file.
//! Several threads read requests, and each thread runs and answers the requests that it reads.
//! fuser lacks O_TMPFILE, the birth time of statx, and interrupting a request; requests here wait
//! only for the disk.
//!
//! The host may cache everything forever, because no other program changes the image. For the same
//! reason the host handles locks itself.

/// Answers with the result, or with the error.
macro_rules! answer {
    ($reply:ident, $result:expr, $found:pat => $good:expr) => {
        match $result {
            Ok($found) => $good,
            Err(error) => $reply.error(errno(&error)),
        }
    };
}

mod attributes;
mod deferred;
mod files;
mod gate;
mod granularity;
mod host_cache;
mod nodes;
mod retry;
mod volume;
mod writers;

pub use gate::Gate;
pub use granularity::granularity;
pub use host_cache::HostCache;
pub use volume::ServedVolume;

use attributes::{absent, kind_of_entry};
use deferred::Deferred;
use files::DirectoryEntry;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use volume::data::WriteOrigin;
use volume::seek::{Look, Span};
use volume::{AttributeChanges, Caller, LookupResult, New};

/// For ever.
const EVER: Duration = Duration::from_secs(1 << 30);
/// Bytes of the largest request to read or write.
const LARGEST: u32 = 1 << 20;
/// Most background requests of the host: readahead and writeback.
const BACKGROUND: u16 = 64;

/// Features with which the host treats the mount like a file system of its own.
///
/// Not FUSE_ASYNC_DIO: a direct write would occupy a background request. Readahead may need that
/// request to release pages, and the answer to the write waits for these pages ([`Deferred`]).
const WANTED: [InitFlags; 7] = [
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_NO_EXPORT_SUPPORT,
];

thread_local! {
    /// Buffer for reads, kept from one request to the next.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Answers requests from a volume.
pub struct VolumeServer {
    gate: Arc<Gate>,
    /// How long the host may cache a name. If "A" and "a" are the same file, the host would not
    /// notice changes through the other name.
    names_last: Duration,
    /// The host checks permissions, ACLs included.
    access_lists: bool,
    host: Arc<HostCache>,
    deferred: Deferred,
    options: ServerOptions,
}

/// Options of a server.
pub struct ServerOptions {
    /// The host checks permissions.
    pub checks: bool,
    /// The host caches no writes.
    pub synchronous: bool,
    /// The smallest difference of times.
    pub granularity: Duration,
}

fn caller(request: &Request) -> Caller {
    Caller {
        user: request.uid(),
        group: request.gid(),
    }
}

/// Whether data bypasses the host's page cache. Only such requests name a lock owner. The host
/// keeps no page locked during the request.
fn is_direct(owner: Option<LockOwner>) -> bool {
    owner.is_some()
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_i32(match error.raw_os_error() {
        // cifs returns it without a connection. Programs take it for data that is still to come.
        Some(libc::EAGAIN) => libc::EIO,
        Some(number) => number,
        None if error.kind() == io::ErrorKind::InvalidInput => libc::EINVAL,
        None => libc::EIO,
    })
}

impl VolumeServer {
    /// A server of the volume behind a gate.
    pub fn new(gate: Arc<Gate>, host: Arc<HostCache>, options: ServerOptions) -> io::Result<Self> {
        let (exact, lists) =
            gate.run(|volume| Ok((volume.has_exact_names(), volume.has_access_lists())))?;
        Ok(Self {
            deferred: Deferred::start()?,
            host,
            gate,
            names_last: if exact { EVER } else { Duration::ZERO },
            access_lists: options.checks && lists,
            options,
        })
    }

    fn run<T>(&self, work: impl FnOnce(&ServedVolume) -> io::Result<T>) -> io::Result<T> {
        self.gate.run(work)
    }

    /// How long the host may cache attributes that are sent now. It must ask again if a writer is
    /// uninformed of lost data (writers.rs).
    fn attributes_last(&self, id: INodeNo) -> Duration {
        // After the end nobody writes.
        let uninformed = self.run(|volume| Ok(volume.is_uninformed(id.0)));
        self.attributes_last_if(uninformed.unwrap_or(false))
    }

    /// The same, if it is known whether a writer is uninformed. For use within [`Self::run`], which
    /// must not be nested: an unmount in between would wait for the outer call, and the inner call
    /// for the unmount.
    fn attributes_last_if(&self, uninformed: bool) -> Duration {
        // If the host caches no writes, calls that do not write ask for attributes, too: there
        // write(2) is a request.
        if uninformed && !self.options.synchronous {
            Duration::ZERO
        } else {
            EVER
        }
    }

    /// To be called when data came from the host's cache.
    fn remind_writers(&self, id: INodeNo) {
        // After the end nobody writes.
        let _ = self.run(|volume| {
            volume.remind_writers(id.0);
            Ok(())
        });
    }

    fn is_cached(&self, id: INodeNo) -> bool {
        self.run(|volume| Ok(volume.is_cached(id.0)))
            .unwrap_or(false)
    }

    fn release_file(&self, file: FileHandle) -> io::Result<()> {
        self.run(|volume| {
            volume.release(file.0);
            Ok(())
        })
    }

    fn entry(&self, reply: ReplyEntry, result: io::Result<LookupResult>) {
        answer!(reply, result, found => reply.entry_with_ttls(
            &self.attributes_last(found.attributes.ino),
            &self.names_last,
            &found.attributes,
            Generation(found.generation),
        ));
    }
}

fn empty(reply: ReplyEmpty, result: io::Result<()>) {
    answer!(reply, result, () => reply.ok());
}

/// Answers with a value or a list, or with its length if the request has size 0.
fn bytes(reply: ReplyXattr, size: u32, result: io::Result<Vec<u8>>) {
    answer!(reply, result, value => match size as usize {
        0 => reply.size(value.len() as u32),
        room if room < value.len() => reply.error(Errno::from_i32(libc::ERANGE)),
        _ => reply.data(&value),
    });
}

fn is_dot(entry: &DirectoryEntry) -> bool {
    matches!(entry.name.to_bytes(), b"." | b"..")
}

/// Attributes for a name without a node. For `.` and `..` the host uses the number; for other names
/// 0 keeps the host from using the attributes.
fn unlooked(entry: &DirectoryEntry, number: INodeNo) -> FileAttr {
    let mut attributes = absent();
    attributes.kind = kind_of_entry(entry.kind);
    if is_dot(entry) {
        attributes.ino = number;
    }
    attributes
}

/// Seeks again after the host has written its dirty pages in a hole.
fn seek_again(
    host: &HostCache,
    id: INodeNo,
    hole: Span,
    seek: impl Fn() -> io::Result<Look>,
) -> io::Result<Look> {
    match hole.end {
        Some(end) => host.drop_range(id.0, hole.start, end - hole.start),
        None => host.drop_from(id.0, hole.start),
    }
    let look = seek()?;
    match look.doubt(Some(hole)) {
        None => Ok(look),
        Some(next) => {
            host.drop_from(id.0, next.start);
            seek()
        }
    }
}

fn found(reply: ReplyLseek, look: io::Result<Look>) {
    let result = look.and_then(|look| look.found);
    answer!(reply, result, position => reply.offset(position as i64));
}

impl Filesystem for VolumeServer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older host lacks some features; the mount works without them.
        for wanted in WANTED {
            let _ = config.add_capabilities(wanted);
        }
        if !self.options.synchronous {
            let _ = config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        if self.access_lists {
            let _ = config.add_capabilities(InitFlags::FUSE_POSIX_ACL);
        }
        let _ = config.set_time_granularity(self.options.granularity);
        let _ = config.set_max_write(LARGEST);
        if let Err(most) = config.set_max_readahead(LARGEST) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let result = self.run(|volume| volume.lookup(parent.0, name));
        match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                reply.entry(&self.names_last, &absent(), Generation(0));
            }
            result => self.entry(reply, result),
        }
    }

    fn forget(&self, _: &Request, id: INodeNo, lookups: u64) {
        // After the end there is nothing to drop.
        let _ = self.run(|volume| {
            volume.forget(id.0, lookups);
            Ok(())
        });
    }

    fn getattr(&self, _: &Request, id: INodeNo, file: Option<FileHandle>, reply: ReplyAttr) {
        let writer = file.filter(|_| !self.options.synchronous);
        let result = self.run(|volume| volume.attributes(id.0, writer.map(|file| file.0)));
        answer!(reply, result, found => reply.attr(&self.attributes_last(id), &found));
    }

    fn setattr(
        &self,
        request: &Request,
        id: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        file: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_mac: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = AttributeChanges {
            mode,
            user,
            group,
            size,
            accessed,
            modified,
        };
        let file = file.map(|file| file.0);
        let result = self.run(|volume| volume.change(caller(request), id.0, file, changes));
        answer!(reply, result, found => reply.attr(&self.attributes_last(id), &found));
    }

    fn readlink(&self, _: &Request, id: INodeNo, reply: ReplyData) {
        let result = self.run(|volume| volume.read_link(id.0));
        answer!(reply, result, target => reply.data(target.to_bytes()));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let new = New::Node { device };
        let caller = caller(request);
        let result = self.run(|volume| volume.make(caller, parent.0, name, mode, umask, new));
        self.entry(reply, result);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let caller = caller(request);
        let result =
            self.run(|volume| volume.make(caller, parent.0, name, mode, umask, New::Directory));
        self.entry(reply, result);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.run(|volume| volume.unlink(parent.0, name, 0)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.run(|volume| volume.unlink(parent.0, name, libc::AT_REMOVEDIR));
        empty(reply, result);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let new = New::Link { target };
        let caller = caller(request);
        let result = self.run(|volume| volume.make(caller, parent.0, name, 0, 0, new));
        self.entry(reply, result);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        empty(
            reply,
            self.run(|volume| volume.rename(from, to, flags.bits())),
        );
    }

    fn link(&self, _: &Request, id: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let result = self.run(|volume| volume.link(id.0, parent.0, name));
        self.entry(reply, result);
    }

    fn open(&self, _: &Request, id: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let result = self.run(|volume| volume.open(id.0, flags.0));
        answer!(reply, result, file => reply.opened(FileHandle(file), FILE));
    }

    fn read(
        &self,
        _: &Request,
        id: INodeNo,
        file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let direct = is_direct(owner);
            let result = self.run(|volume| {
                if !direct {
                    volume.mark_cached(id.0);
                }
                volume.read(file.0, &mut buffer[..size], offset, direct)
            });
            answer!(reply, result, length => reply.data(&buffer[..length]));
        });
    }

    fn write(
        &self,
        request: &Request,
        id: INodeNo,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let origin = if write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            WriteOrigin::Cache
        } else {
            WriteOrigin::Call {
                privileged: !write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            }
        };
        let caller = caller(request);
        let file = (id.0, file.0);
        let direct = origin != WriteOrigin::Cache && is_direct(owner);
        let result = self.run(|volume| {
            if !direct {
                // Note the cached page first: a direct write that comes in between then drops it.
                volume.mark_cached(id.0);
            }
            volume.write(caller, file, data, offset, origin)
        });
        match result {
            Ok(length) if length > 0 && direct && self.is_cached(id) => {
                let host = Arc::clone(&self.host);
                self.deferred.take(move || {
                    host.drop_range(id.0, offset, length as u64);
                    reply.written(length as u32);
                });
            }
            result => answer!(reply, result, length => reply.written(length as u32)),
        }
        if origin == WriteOrigin::Cache {
            self.remind_writers(id);
        }
    }

    /// ENOSYS: not needed, and the host need not ask again. The host has written its cached data.
    fn flush(
        &self,
        _: &Request,
        _id: INodeNo,
        _file: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::from_i32(libc::ENOSYS));
    }

    fn release(
        &self,
        _: &Request,
        _id: INodeNo,
        file: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.release_file(file));
    }

    fn fsync(
        &self,
        _: &Request,
        _id: INodeNo,
        file: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.run(|volume| volume.sync(file.0, data_only)));
    }

    fn opendir(&self, _: &Request, id: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let result = self.run(|volume| volume.open(id.0, flags));
        answer!(reply, result, file => reply.opened(FileHandle(file), DIRECTORY));
    }

    fn readdir(
        &self,
        _: &Request,
        _id: INodeNo,
        directory: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let result = self.run(|volume| {
            volume.read_directory(directory.0, offset, |fd, entry| {
                let name = OsStr::from_bytes(entry.name.to_bytes());
                let number = INodeNo(volume.number_of(fd, entry));
                !reply.add(number, entry.next, kind_of_entry(entry.kind), name)
            })
        });
        answer!(reply, result, () => reply.ok());
    }

    fn readdirplus(
        &self,
        _: &Request,
        _id: INodeNo,
        directory: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let result = self.run(|volume| {
            volume.read_directory(directory.0, offset, |fd, entry| {
                let name = OsStr::from_bytes(entry.name.to_bytes());
                let (number, found) = match volume.look_at_entry(fd, entry) {
                    // Removed since the listing.
                    Err(_) => return true,
                    Ok(Some(found)) => (found.attributes.ino, found),
                    Ok(None) => {
                        let number = INodeNo(volume.number_of(fd, entry));
                        let attributes = unlooked(entry, number);
                        (
                            number,
                            LookupResult {
                                attributes,
                                generation: 0,
                            },
                        )
                    }
                };
                let generation = Generation(found.generation);
                let last = self.attributes_last_if(volume.is_uninformed(number.0));
                let full = reply.add(
                    number,
                    entry.next,
                    name,
                    &last.min(self.names_last),
                    &found.attributes,
                    generation,
                );
                if full && !is_dot(entry) {
                    volume.forget(number.0, 1);
                }
                !full
            })
        });
        answer!(reply, result, () => reply.ok());
    }

    fn releasedir(
        &self,
        _: &Request,
        _id: INodeNo,
        directory: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.release_file(directory));
    }

    fn fsyncdir(
        &self,
        _: &Request,
        id: INodeNo,
        directory: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let result = self.run(|volume| volume.sync_directory(id.0, directory.0));
        empty(reply, result);
    }

    fn statfs(&self, _: &Request, _id: INodeNo, reply: ReplyStatfs) {
        let result = self.run(ServedVolume::statfs);
        answer!(reply, result, [blocks, free, available, files, files_free, size, name, fragment] =>
            reply.statfs(
                blocks,
                free,
                available,
                files,
                files_free,
                size as u32,
                name as u32,
                fragment as u32,
            )
        );
    }

    fn setxattr(
        &self,
        request: &Request,
        id: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let result = self.run(|volume| volume.set_xattr(caller(request), id.0, name, value, flags));
        // An access list, or an attribute of NTFS, changes the mode. The host knows that only of
        // access lists, and only if it uses them.
        if result.is_ok() && name.as_bytes().starts_with(b"system.") {
            self.host.drop_attributes(id.0);
        }
        empty(reply, result);
    }

    fn getxattr(&self, _: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        bytes(reply, size, self.run(|volume| volume.xattr(id.0, name)));
    }

    fn listxattr(&self, _: &Request, id: INodeNo, size: u32, reply: ReplyXattr) {
        bytes(reply, size, self.run(|volume| volume.xattrs(id.0)));
    }

    fn removexattr(&self, _: &Request, id: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.run(|volume| volume.remove_xattr(id.0, name)));
    }

    /// The host asks only if it does not check permissions itself: then everything is allowed that
    /// root may do.
    fn access(&self, _: &Request, id: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let result = if mask.contains(AccessFlags::X_OK) {
            self.run(|volume| volume.check_execution(id.0))
        } else {
            Ok(())
        };
        empty(reply, result);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let result =
            self.run(|volume| volume.create(caller(request), parent.0, name, (mode, umask), flags));
        answer!(reply, result, (found, file) => reply.created(
            &self.attributes_last(found.attributes.ino).min(self.names_last),
            &found.attributes,
            Generation(found.generation),
            FileHandle(file),
            FILE,
        ));
    }

    fn ioctl(
        &self,
        _: &Request,
        id: INodeNo,
        file: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        data: &[u8],
        out_size: u32,
        reply: ReplyIoctl,
    ) {
        let result = self.run(|volume| volume.control((id.0, file.0), command, data));
        answer!(reply, result, out => {
            let length = out.len().min(out_size as usize);
            reply.ioctl(0, &out[..length]);
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        id: INodeNo,
        file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (caller, file) = (caller(request), (id.0, file.0));
        let result = self.run(|volume| volume.allocate(caller, file, mode, offset, length));
        empty(reply, result);
    }

    fn lseek(
        &self,
        _: &Request,
        id: INodeNo,
        file: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let gate = Arc::clone(&self.gate);
        let seek = move || gate.run(|volume| volume.seek(file.0, offset, whence));
        let result = seek();
        let is_written = || self.run(|volume| Ok(volume.is_written(id.0)));
        let doubt = result.as_ref().ok().and_then(|look| look.doubt(None));
        match doubt.filter(|_| is_written().unwrap_or(false)) {
            None => found(reply, result),
            Some(hole) => {
                let host = Arc::clone(&self.host);
                self.deferred
                    .take(move || found(reply, seek_again(&host, id, hole, seek)));
            }
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _from_id: INodeNo,
        from: FileHandle,
        from_offset: u64,
        to_id: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = ((from.0, from_offset), (to_id.0, to.0, to_offset));
        let result = self.run(|volume| volume.copy(caller(request), from, to, length));
        answer!(reply, result, length => reply.written(length as u32));
    }
}

/// The host keeps cached pages of a file from one open to the next.
const FILE: FopenFlags =
    FopenFlags::FOPEN_KEEP_CACHE.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
const DIRECTORY: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE.union(FopenFlags::FOPEN_CACHE_DIR);
