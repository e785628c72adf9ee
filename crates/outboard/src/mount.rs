// SPDX-License-Identifier: GPL-2.0-only
//! Mounted file systems.
//!
//! A read-only mount never changes the disk. If a journal would have to be replayed
//! first, the file system is mounted without it and [`Mount::journal_ignored`] says so.

use crate::device::BlockDevice;
use crate::file_systems::{driver, mask_option, needed_options, owner_options, without_journal};
use crate::kernel::Kernel;
use crate::server_requests::ServerRequests;
use crate::tree::Tree;
use crate::{Fd, System};
use outboard_image::Probe;
use outboard_sys::{errno, libc};
use std::ffi::{CStr, CString};
use std::io;
use std::ops::Deref;

/// How a file system is mounted.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    kind: Option<String>,
    probed: Option<Probe>,
    read_only: bool,
    options: String,
    user: Option<u32>,
    group: Option<u32>,
    mask: Option<u32>,
    /// MS_SYNCHRONOUS and MS_DIRSYNC.
    sync_flags: u64,
}

impl MountOptions {
    /// The type of the file system, as in "ext4". Default: found out.
    pub fn kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.to_owned());
        self
    }

    /// The result of an earlier probe of the same bytes: the mount does not probe the device again.
    pub fn probed(mut self, found: &Probe) -> Self {
        self.probed = Some(found.clone());
        self
    }

    /// Mounts for reading only. A disk that can only be read is always mounted so.
    pub fn read_only(mut self, yes: bool) -> Self {
        self.read_only = yes;
        self
    }

    /// Owner reported for file systems that store no owner (FAT, exFAT, HFS). Default: root.
    pub fn owner(mut self, user: Option<u32>, group: Option<u32>) -> Self {
        (self.user, self.group) = (user, group);
        self
    }

    /// Permissions that files lack where a file system keeps none. Default: none.
    pub fn mask(mut self, mask: Option<u32>) -> Self {
        self.mask = mask;
        self
    }

    /// A write is on stable storage when its call returns.
    pub fn synchronous(mut self, yes: bool) -> Self {
        self.set_flag(libc::MS_SYNCHRONOUS, yes);
        self
    }

    /// Changes of directories are on stable storage when the call returns.
    pub fn synchronous_directories(mut self, yes: bool) -> Self {
        self.set_flag(libc::MS_DIRSYNC, yes);
        self
    }

    /// Options of the file system, separated by commas.
    pub fn options(mut self, options: &str) -> Self {
        self.options = options.to_owned();
        self
    }

    fn set_flag(&mut self, flag: u64, yes: bool) {
        self.sync_flags = if yes {
            self.sync_flags | flag
        } else {
            self.sync_flags & !flag
        };
    }

    /// Of mount(2).
    fn flags(&self, read_only: bool) -> u64 {
        let access = if read_only { libc::MS_RDONLY } else { 0 };
        access | self.sync_flags | libc::MS_NODEV | libc::MS_NOATIME
    }
}

/// How much room a file system has, in bytes and files. Counts of files are 0 where a file
/// system has no fixed number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes of a block.
    pub block_size: u64,
    /// Bytes of the file system.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that are free for others than root.
    pub available: u64,
    /// Files that it can have.
    pub files: u64,
    /// Files that it can have besides those it has.
    pub files_free: u64,
}

impl Space {
    /// Of the file system, of the host or of a kernel, that an open file is on.
    #[doc(hidden)]
    pub fn of(file: &Fd) -> io::Result<Self> {
        let statfs = file.statfs()?;
        let unit = statfs.unit();
        Ok(Self {
            block_size: statfs.block_size.max(0) as u64,
            size: statfs.size(),
            free: statfs.blocks_free.saturating_mul(unit),
            available: statfs.blocks_available.saturating_mul(unit),
            files: statfs.files,
            files_free: statfs.files_free,
        })
    }

    /// Whether it has room for at least `room` bytes in its files, but for no further file.
    pub fn lacks_inodes(&self, room: u64) -> bool {
        self.files > 0 && self.files_free == 0 && self.available >= room
    }
}

/// A mounted file system. Its files are used through [`Tree`]. Unmounted when dropped, but
/// only [`Mount::unmount`] tells whether everything was written.
pub struct Mount {
    kernel: Kernel,
    /// `None`: the file system lies on a server.
    device: Option<BlockDevice>,
    directory: CString,
    kind: String,
    journal_ignored: bool,
    read_only: bool,
    /// `None` once unmounted.
    tree: Option<Tree>,
}

fn join(first: &str, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first.to_owned(),
        _ => format!("{first},{second}"),
    }
}

/// Refusals that another way of mounting may get around.
fn worth_another_try(error: &io::Error) -> bool {
    !matches!(
        errno(error),
        Some(libc::ENODEV | libc::ENOMEM | libc::EBUSY | libc::ENOENT | libc::EPERM)
    )
}

impl Mount {
    fn new(device: &BlockDevice, options: &MountOptions) -> io::Result<Self> {
        let probe = || match &options.probed {
            Some(found) => Ok(Some(found.clone())),
            None => device.probe(),
        };
        let (kind, detail, needs_no_journal) = match &options.kind {
            Some(kind) => (kind.clone(), String::new(), false),
            None => match probe()? {
                Some(found) => {
                    let needs_no_journal = found.needs_no_journal();
                    (found.kind.to_owned(), found.detail, needs_no_journal)
                }
                None => return Err(io::Error::from_raw_os_error(libc::EMEDIUMTYPE)),
            },
        };
        if options.kind.is_some() && device.kernel().needs_no_device(driver(&kind)) {
            return Err(io::Error::from_raw_os_error(libc::ENOTBLK));
        }
        let read_only = options.read_only || device.is_read_only();
        let directory = device.kernel().shared.mount_directory()?;
        let needed = needed_options(&kind, &detail);
        let owner = owner_options(&kind, options.user, options.group);
        let mask = mask_option(&kind, options.mask);
        let shown = join(&owner, &mask);
        let mut plain = join(&join(&needed, &shown), &options.options);
        if read_only && needs_no_journal {
            plain = join(&plain, without_journal(&kind).first().unwrap_or(&""));
        }
        let flags = options.flags(read_only);
        let attempt =
            |extra: &str| mount_device(device, &directory, &kind, flags, &join(&plain, extra));
        let mut result = attempt("");
        let mut journal_ignored = false;
        if read_only {
            for extra in without_journal(&kind) {
                match &result {
                    Err(error) if worth_another_try(error) => {}
                    _ => break,
                }
                if let Ok(tree) = attempt(extra) {
                    journal_ignored = true;
                    result = Ok(tree);
                }
            }
        }
        let tree = result?;
        let mut mount = Self::of_tree(device.kernel(), directory, &kind, tree)?;
        mount.device = Some(device.clone());
        mount.journal_ignored = journal_ignored;
        Ok(mount)
    }

    fn of_tree(kernel: &Kernel, directory: CString, kind: &str, tree: Tree) -> io::Result<Self> {
        let mut mount = Self {
            kernel: kernel.clone(),
            device: None,
            directory,
            kind: kind.to_owned(),
            journal_ignored: false,
            read_only: true,
            tree: Some(tree),
        };
        mount.read_only = mount.root().statfs()?.flags as u64 & libc::ST_RDONLY != 0;
        Ok(mount)
    }

    /// The type of the file system.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Some file systems refuse to be written when they were not left well, and mount read-only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// A read-only mount would have had to replay a journal, and went without: what was
    /// written last before the file system was left may be missing.
    pub fn journal_ignored(&self) -> bool {
        self.journal_ignored
    }

    /// The device that it is on. `None`: it is on a server.
    pub fn device(&self) -> Option<&BlockDevice> {
        self.device.as_ref()
    }

    /// Its path in the kernel.
    pub(crate) fn directory(&self) -> &CStr {
        &self.directory
    }

    /// The kernel that has it mounted.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Its requests to a server. They can be counted and ended while the mount is in use.
    pub fn requests(&self) -> ServerRequests {
        let system = self.kernel.system().clone();
        ServerRequests::new(system, self.directory.clone(), &self.kind)
    }

    /// Writes everything to stable storage as [`Mount::unmount`] does, and leaves the file system
    /// mounted as long as the kernel runs: its server does not answer. Also returns the root. To
    /// drop it would wait for the server, unless the kernel has halted.
    pub fn leave(mut self) -> (io::Result<()>, Option<Tree>) {
        let written = if self.read_only {
            Ok(())
        } else {
            self.write_back()
        };
        (written, self.tree.take())
    }

    /// How much room it has.
    pub fn space(&self) -> io::Result<Space> {
        Space::of(self.root())
    }

    /// Writes everything to stable storage. Also tells of errors that happened earlier.
    pub fn sync(&self) -> io::Result<()> {
        let written = self.write_back();
        // Not every file system has the disk's cache flushed.
        written.and(self.device.as_ref().map_or(Ok(()), BlockDevice::sync))
    }

    /// Hands everything to the disk.
    fn write_back(&self) -> io::Result<()> {
        // This descriptor is as old as the mount, so it learns of every error since then.
        self.root().sync_file_system()
    }

    /// Writes everything to stable storage and unmounts. An error means that something may be
    /// missing on the disk. EBUSY: files are still open; everything was written then.
    pub fn unmount(mut self) -> io::Result<()> {
        let written = if self.read_only {
            Ok(())
        } else {
            self.write_back()
        };
        self.tree = None;
        // The client would wait for a server that does not answer: the mount ends with the kernel.
        if self.device.is_none() && written.is_err() {
            return written;
        }
        let system = self.kernel.system();
        let unmounted = system.unmount(&self.directory, 0);
        if unmounted.is_err() {
            let _ = system.unmount(&self.directory, libc::MNT_DETACH);
        }
        let flushed = match self.device.as_ref().filter(|_| !self.read_only) {
            Some(device) => device.sync(),
            None => Ok(()),
        };
        written.and(unmounted).and(flushed)
    }
}

impl BlockDevice {
    /// Mounts the file system on it.
    pub fn mount(&self, options: &MountOptions) -> io::Result<Mount> {
        Mount::new(self, options)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.tree.take().is_some() {
            let system = self.kernel.system();
            let _ = system.unmount(&self.directory, libc::MNT_DETACH);
        }
    }
}

impl Deref for Mount {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        self.tree.as_ref().expect("unmount() consumes the mount")
    }
}

fn mount_device(
    device: &BlockDevice,
    directory: &CStr,
    kind: &str,
    flags: u64,
    options: &str,
) -> io::Result<Tree> {
    let system = device.kernel().system();
    let options = CString::new(options)?;
    mount_at(
        system,
        device.node(),
        directory,
        driver(kind),
        flags,
        &options,
    )
}

fn mount_at(
    system: &System,
    source: &CStr,
    directory: &CStr,
    driver: &str,
    flags: u64,
    options: &CStr,
) -> io::Result<Tree> {
    system.mount(source, directory, &CString::new(driver)?, flags, options)?;
    let opened =
        Fd::working_directory(system).open_at(directory, libc::O_RDONLY | libc::O_DIRECTORY, 0);
    match opened {
        Ok(root) => Ok(Tree::below(root)),
        Err(error) => {
            let _ = system.unmount(directory, libc::MNT_DETACH);
            Err(error)
        }
    }
}

impl Kernel {
    /// Mounts a file system that a server has: `kind` is the driver, as in "nfs", `source` what the
    /// driver takes as its device, as in "10.0.0.1:/export". `options` may have a password: the
    /// caller wipes them.
    pub fn mount_remote(
        &self,
        kind: &str,
        source: &CStr,
        read_only: bool,
        options: &CStr,
    ) -> io::Result<Mount> {
        let directory = self.shared.mount_directory()?;
        let flags = MountOptions::default().flags(read_only);
        let tree = mount_at(self.system(), source, &directory, kind, flags, options)?;
        Mount::of_tree(self, directory, kind, tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_joined() {
        assert_eq!(join("", "a"), "a");
        assert_eq!(join("a", ""), "a");
        assert_eq!(join("a", "b,c"), "a,b,c");
    }
}
