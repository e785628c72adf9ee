// SPDX-License-Identifier: GPL-2.0-only
//! The requests of the host to a mounted image, each as calls of the kernel in this process.
//!
//! The server checks no permissions: the host's kernel does so, where docs/using/mount.md says so.
//! The calling user decides who owns new files. Changes by any user but root clear set-user-ID
//! bits.

pub mod data;
pub mod seek;

use super::attributes::{absent, attributes, timespec};
use super::files::{DirectoryEntry, OpenFiles};
use super::host_cache::HostCache;
use super::nodes::{AnsweredFile, Nodes};
use super::retry::RetryState;
use crate::owners::Owners;
use fuser::{FileAttr, TimeOrNow};
use outboard::{BlockDevice, Control, Fd, Kernel, Mount, CONTROL_SIZE};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Flags of open(2) that also apply to the file in the image. The host handles O_APPEND and
/// O_DIRECT: it sends the offset of each write.
const OPEN_FLAGS: i32 = libc::O_SYNC | libc::O_DSYNC | libc::O_DIRECTORY | libc::O_EXCL;
/// File systems whose handles stay valid while the file exists.
const WITH_HANDLES: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "erofs"];
/// File systems in which different spellings are different names, unless the superblock says
/// otherwise. On NTFS, a file of another system may also have a short DOS name. Its driver, too,
/// misses changes through the other name (docs/caveats.md).
const EXACT_NAMES: [&str; 14] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "erofs", "squashfs", "minix", "nilfs2", "ntfs",
    "ntfs3", "reiserfs", "ufs",
];
/// File systems that read blocks of many pages at least: a read of one page also brings the next
/// pages. For other file systems the pages are kept: reading one page again takes as long as many
/// in a row.
const WHOLE_BLOCKS: [&str; 1] = ["squashfs"];
/// With this many free bytes, beyond those of an attribute, a file system is not full.
const SPARE: u64 = 1 << 20;
/// The caller of a request.
#[derive(Clone, Copy)]
pub struct Caller {
    pub user: u32,
    pub group: u32,
}

impl Caller {
    /// Whether changes of the caller leave set-user-ID bits.
    fn is_privileged(self) -> bool {
        self.user == 0
    }
}

/// A file in an answer to a lookup.
pub struct LookupResult {
    pub attributes: FileAttr,
    pub generation: u64,
}

/// Changes to the attributes of a file.
pub struct AttributeChanges {
    pub mode: Option<u32>,
    pub user: Option<u32>,
    pub group: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<TimeOrNow>,
    pub modified: Option<TimeOrNow>,
}

impl AttributeChanges {
    fn is_only_of_modification(&self) -> bool {
        let others = self.mode.is_some() || self.user.is_some() || self.group.is_some();
        self.modified.is_some() && self.accessed.is_none() && self.size.is_none() && !others
    }
}

/// The host sends the times of each file whose last name it removes. They need not be written: the
/// host has the times of an open regular file itself.
fn is_removed_file(stat: &libc::stat) -> bool {
    stat.st_nlink == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// A new file: its kind and data.
pub enum New<'a> {
    Directory,
    Node { device: u32 },
    Link { target: &'a Path },
}

/// A mounted tree for requests of the host: files by number.
pub struct ServedVolume {
    nodes: Nodes,
    files: OpenFiles,
    owners: Owners,
    /// Open since the file system was mounted, so that its fsync returns every write error.
    whole: Fd,
    /// The first of these errors, or of errors of the host's writeback. The kernel reports each
    /// error once, and only to callers at that time; the data stays lost.
    lost: OnceLock<i32>,
    host: Arc<HostCache>,
    retry: RetryState,
    /// Not every file system flushes the disk's cache itself. `None`: it is on a server.
    device: Option<BlockDevice>,
    kernel: Kernel,
    exact_names: bool,
    access_lists: bool,
    /// Pages of the host's readahead are dropped here, to free memory for the next read.
    whole_blocks: bool,
}

fn text(name: &OsStr) -> io::Result<CString> {
    Ok(CString::new(name.as_bytes())?)
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Whether the file that a node stands for does not exist any more. ENOENT: clients of 9p and SMB
/// ask their server by name.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESTALE | libc::ENOENT))
}

fn is_for_writing(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

fn is_access_list(attribute: &CStr) -> bool {
    attribute.to_bytes().starts_with(b"system.posix_acl_")
}

impl ServedVolume {
    /// The tree of a mount, with a map of owners.
    pub fn new(mount: &Mount, owners: Owners, host: Arc<HostCache>) -> io::Result<Self> {
        let kind = mount.kind();
        let flags = libc::O_DIRECTORY | libc::O_RDONLY;
        let root = mount.open_fd(Path::new("/"), flags, 0)?;
        let whole = root.duplicate()?;
        let supported = match whole.xattr(c"system.posix_acl_access") {
            Ok(_) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENODATA),
        };
        let probe = mount
            .device()
            .map(BlockDevice::probe)
            .transpose()?
            .flatten();
        let folds_case = probe.is_some_and(|probe| probe.folds_case);
        Ok(Self {
            nodes: Nodes::new(root, WITH_HANDLES.contains(&kind))?,
            files: OpenFiles::default(),
            access_lists: supported && owners.have_access_lists(),
            owners,
            whole,
            lost: OnceLock::new(),
            host,
            retry: RetryState::default(),
            device: mount.device().cloned(),
            kernel: mount.kernel().clone(),
            exact_names: EXACT_NAMES.contains(&kind) && !folds_case,
            whole_blocks: WHOLE_BLOCKS.contains(&kind),
        })
    }

    /// Whether the host may cache existing and missing names.
    pub fn has_exact_names(&self) -> bool {
        self.exact_names
    }

    /// Whether files have POSIX ACLs that the host can use.
    pub fn has_access_lists(&self) -> bool {
        self.access_lists
    }

    /// Flushes the disk's cache.
    fn sync_device(&self) -> io::Result<()> {
        self.device.as_ref().map_or(Ok(()), BlockDevice::sync)
    }

    fn found(&self, named: AnsweredFile) -> io::Result<LookupResult> {
        match attributes(named.id, &named.stat, &self.owners) {
            Ok(attributes) => Ok(LookupResult {
                attributes,
                generation: named.generation,
            }),
            Err(error) => {
                self.nodes.forget(named.id, 1);
                Err(error)
            }
        }
    }

    fn look(&self, directory: &Fd, name: &CStr) -> io::Result<LookupResult> {
        let file = directory.open_at(name, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
        let mut named = self.nodes.remember(file)?;
        let id = named.id;
        self.nodes.correct(&mut named, || self.files.has(id));
        self.found(named)
    }

    fn shown(&self, id: u64, fd: &Fd) -> io::Result<FileAttr> {
        attributes(id, &fd.stat()?, &self.owners)
    }

    /// Runs `work`, which needs space in the image.
    fn with_space<T>(&self, work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let settle = || {
            // Errors do not matter here: fsync(2) returns them.
            let _ = self.whole.sync_file_system();
            true
        };
        self.retry.with(settle, work)
    }

    /// As `with_space`, for an attribute: a file system also returns ENOSPC if the attribute is too
    /// large.
    fn with_space_for_attribute<T>(
        &self,
        bytes: usize,
        work: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let settle = || {
            let free = self
                .whole
                .statfs()
                .map_or(0, |found| found.blocks_free.saturating_mul(found.unit()));
            if free > bytes as u64 + SPARE {
                return false;
            }
            let _ = self.whole.sync_file_system();
            true
        };
        self.retry.with(settle, work)
    }

    fn make_as(&self, caller: Caller, umask: u32) -> io::Result<()> {
        let owner = self.owners.of_new(caller.user, caller.group);
        let (user, group) = owner.ok_or_else(|| error(libc::EOVERFLOW))?;
        self.kernel.make_files_as(user, group, umask)
    }

    /// Finds a name in a directory.
    pub fn lookup(&self, parent: u64, name: &OsStr) -> io::Result<LookupResult> {
        self.look(&*self.nodes.get(parent)?, &text(name)?)
    }

    /// The host drops this many references to a file.
    pub fn forget(&self, id: u64, lookups: u64) {
        self.nodes.forget(id, lookups);
    }

    /// The host names the handle if write(2) needs the attributes (writers.rs).
    pub fn attributes(&self, id: u64, file: Option<u64>) -> io::Result<FileAttr> {
        let Some(file) = file else {
            return self.shown(id, &*self.nodes.get(id)?);
        };
        let file = self.files.get(file)?;
        self.check_writer(&file)?;
        self.shown(id, &file.fd)
    }

    /// EACCES: a file that not even root can run.
    pub fn check_execution(&self, id: u64) -> io::Result<()> {
        let mode = self.nodes.get(id)?.stat()?.st_mode;
        if mode & libc::S_IFMT == libc::S_IFDIR || mode & 0o111 != 0 {
            Ok(())
        } else {
            Err(error(libc::EACCES))
        }
    }

    /// Changes attributes of a file.
    pub fn change(
        &self,
        caller: Caller,
        id: u64,
        file: Option<u64>,
        changes: AttributeChanges,
    ) -> io::Result<FileAttr> {
        if changes.is_only_of_modification() {
            match self.nodes.get(id).and_then(|node| node.stat()) {
                // The unlinked file is gone, because no descriptor of it was kept, or because a
                // server has none. The host would take an error for a write error.
                Err(error) if is_gone(&error) => return Ok(absent()),
                Ok(stat) if is_removed_file(&stat) => {
                    return attributes(id, &stat, &self.owners);
                }
                _ => (),
            }
        }
        let node = self.nodes.get(id)?;
        if changes.user.is_some() || changes.group.is_some() {
            let user = self.number_in_image(changes.user, |id| self.owners.users.to_image(id))?;
            let group =
                self.number_in_image(changes.group, |id| self.owners.groups.to_image(id))?;
            node.set_owner_at(c"", user, group, libc::AT_EMPTY_PATH)?;
        }
        // After the owner, because chown(2) clears bits of the mode.
        if let Some(mode) = changes.mode {
            self.kernel.keep_set_id(true)?;
            node.set_own_mode(mode & 0o7777)?;
        }
        if let Some(size) = changes.size {
            self.change_as(caller, caller.is_privileged())?;
            self.files.writers.resize(id, size, || match file {
                Some(file) => self.files.get(file)?.fd.truncate(size),
                None => node.reopen(libc::O_WRONLY)?.truncate(size),
            })?;
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let times = [timespec(changes.accessed), timespec(changes.modified)];
            node.set_times_at(c"", &times, libc::AT_EMPTY_PATH)?;
        }
        self.shown(id, &node)
    }

    /// The user or group to set; -1, as in chown(2), for none.
    fn number_in_image(
        &self,
        id: Option<u32>,
        map: impl Fn(u32) -> Option<u32>,
    ) -> io::Result<u32> {
        match id {
            None => Ok(u32::MAX),
            Some(id) => map(id).ok_or_else(|| error(libc::EOVERFLOW)),
        }
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, id: u64) -> io::Result<CString> {
        self.nodes.get(id)?.read_link_at(c"")
    }

    /// Creates a file without opening it: a directory, a link, a device.
    pub fn make(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
        new: New<'_>,
    ) -> io::Result<LookupResult> {
        let (directory, name) = (self.nodes.get(parent)?, text(name)?);
        self.make_as(caller, umask)?;
        self.with_space(|| match new {
            New::Directory => directory.make_directory_at(&name, mode),
            New::Node { device } => directory.make_node_at(&name, mode, device.into()),
            New::Link { target } => directory.make_symlink_at(&text(target.as_os_str())?, &name),
        })?;
        self.look(&directory, &name)
    }

    /// Removes a name. `flags`: `AT_REMOVEDIR` for a directory.
    pub fn unlink(&self, parent: u64, name: &OsStr, flags: i32) -> io::Result<()> {
        self.nodes.get(parent)?.unlink_at(&text(name)?, flags)?;
        self.retry.removed();
        Ok(())
    }

    /// Renames a file, with the flags of renameat2(2).
    pub fn rename(
        &self,
        (parent, name): (u64, &OsStr),
        (new_parent, new_name): (u64, &OsStr),
        flags: u32,
    ) -> io::Result<()> {
        let (from, to) = (self.nodes.get(parent)?, self.nodes.get(new_parent)?);
        let (name, new_name) = (text(name)?, text(new_name)?);
        self.with_space(|| from.rename_at(&name, &to, &new_name, flags))?;
        self.retry.removed();
        Ok(())
    }

    /// Creates a hard link.
    pub fn link(&self, id: u64, parent: u64, name: &OsStr) -> io::Result<LookupResult> {
        let (node, directory, name) = (self.nodes.get(id)?, self.nodes.get(parent)?, text(name)?);
        self.with_space(|| node.link_at(c"", &directory, &name, libc::AT_EMPTY_PATH))?;
        self.look(&directory, &name)
    }

    /// The flags for opening a file in the image. For a program that only writes, the host's page
    /// cache also reads: the rest of a page.
    fn flags(&self, flags: i32) -> i32 {
        let access = match flags & libc::O_ACCMODE {
            libc::O_WRONLY => libc::O_RDWR,
            access => access,
        };
        access | flags & OPEN_FLAGS
    }

    /// Opens a file. Returns the number of the open file.
    pub fn open(&self, id: u64, flags: i32) -> io::Result<u64> {
        let file = self.nodes.get(id)?.reopen(self.flags(flags))?;
        Ok(self.files.add(file, id, is_for_writing(flags)))
    }

    /// Creates and opens a regular file.
    pub fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        (mode, umask): (u32, u32),
        flags: i32,
    ) -> io::Result<(LookupResult, u64)> {
        let directory = self.nodes.get(parent)?;
        self.make_as(caller, umask)?;
        let writes = is_for_writing(flags);
        let (name, flags) = (
            text(name)?,
            self.flags(flags) | libc::O_CREAT | libc::O_NOFOLLOW,
        );
        let file = self.with_space(|| directory.open_at(&name, flags, mode & 0o7777))?;
        let node = file.reopen(libc::O_PATH)?;
        let found = self.found(self.nodes.remember(node)?)?;
        let id = found.attributes.ino.0;
        Ok((found, self.files.add(file, id, writes)))
    }

    /// Closes an open file.
    pub fn release(&self, file: u64) {
        self.files
            .remove(file, |id, fd, end| self.settle(id, fd, end));
    }

    /// Hands names to `add`, from a position on, until `add` returns that it is full. `add` also
    /// gets the number of the file.
    pub fn read_directory(
        &self,
        directory: u64,
        mut position: u64,
        mut add: impl FnMut(&Fd, &DirectoryEntry) -> bool,
    ) -> io::Result<()> {
        let file = self.files.get(directory)?;
        let mut reading = file.reading();
        let start = position;
        loop {
            let entry = match reading.next(&file.fd, position) {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                // Entries read before the error come first.
                Err(_) if position != start => return Ok(()),
                Err(error) => return Err(error),
            };
            if !add(&file.fd, &entry) {
                reading.give_back(entry, position);
                return Ok(());
            }
            position = entry.next;
        }
    }

    /// The file of a directory entry; `None` for `.`, `..` and files whose metadata cannot be read.
    pub fn look_at_entry(
        &self,
        directory: &Fd,
        entry: &DirectoryEntry,
    ) -> io::Result<Option<LookupResult>> {
        if matches!(entry.name.to_bytes(), b"." | b"..") {
            return Ok(None);
        }
        match self.look(directory, &entry.name) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// The counters of statfs(2), in FUSE's order.
    pub fn statfs(&self) -> io::Result<[u64; 8]> {
        let found = self.whole.statfs()?;
        Ok([
            found.blocks,
            found.blocks_free,
            found.blocks_available,
            found.files,
            found.files_free,
            found.block_size as u64,
            found.name_length as u64,
            found.fragment_size as u64,
        ])
    }

    fn check_attribute(&self, attribute: &CStr) -> io::Result<()> {
        if is_access_list(attribute) && !self.owners.have_access_lists() {
            return Err(error(libc::EOPNOTSUPP));
        }
        Ok(())
    }

    /// The value of an extended attribute.
    pub fn xattr(&self, id: u64, attribute: &OsStr) -> io::Result<Vec<u8>> {
        let attribute = text(attribute)?;
        self.check_attribute(&attribute)?;
        self.nodes.get(id)?.xattr_of_path_fd(&attribute)
    }

    /// All names, each with its NUL.
    pub fn xattrs(&self, id: u64) -> io::Result<Vec<u8>> {
        let mut names = self.nodes.get(id)?.xattrs_of_path_fd()?;
        names.retain(|name| self.check_attribute(name).is_ok());
        Ok(names
            .iter()
            .flat_map(|name| name.to_bytes_with_nul().iter().copied())
            .collect())
    }

    /// Sets an extended attribute.
    pub fn set_xattr(
        &self,
        caller: Caller,
        id: u64,
        attribute: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> io::Result<()> {
        let attribute = text(attribute)?;
        self.check_attribute(&attribute)?;
        if is_access_list(&attribute) && self.access_lists {
            // The kernel clears the set-group-ID bit if the caller is not in the file's group.
            self.make_as(caller, 0)?;
        }
        self.kernel
            .keep_set_id(caller.is_privileged() || !is_access_list(&attribute))?;
        let node = self.nodes.get(id)?;
        self.with_space_for_attribute(value.len(), || {
            node.set_xattr_of_path_fd(&attribute, value, flags)
        })
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, id: u64, attribute: &OsStr) -> io::Result<()> {
        let attribute = text(attribute)?;
        self.check_attribute(&attribute)?;
        self.nodes.get(id)?.remove_xattr_of_path_fd(&attribute)
    }

    /// ENOTTY: an ioctl that is not supported.
    pub fn control(
        &self,
        (id, file): (u64, u64),
        number: u32,
        data: &[u8],
    ) -> io::Result<[u8; CONTROL_SIZE]> {
        let control = Control::from_number(number).ok_or_else(|| error(libc::ENOTTY))?;
        let mut buffer = [0; CONTROL_SIZE];
        let room = buffer.get_mut(..data.len());
        room.ok_or_else(|| error(libc::EINVAL))?
            .copy_from_slice(data);
        self.files.get(file)?.fd.control(control, &mut buffer)?;
        if matches!(control, Control::SetFlags | Control::SetAttributes) {
            // The ioctl has changed the file's change time.
            self.host.drop_attributes(id);
        }
        Ok(buffer)
    }

    /// The number of a directory's entry.
    pub fn number_of(&self, directory: &Fd, entry: &DirectoryEntry) -> u64 {
        let device = directory.stat().map(|stat| stat.st_dev);
        device
            .and_then(|device| self.nodes.number(device, entry.inode))
            .unwrap_or(entry.inode)
    }
}
