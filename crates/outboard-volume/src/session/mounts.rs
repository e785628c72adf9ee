// SPDX-License-Identifier: GPL-2.0-only
//! The mounts of a session: file systems of its disks, and whether they are written.

use super::disks::OpenDisk;
use super::Session;
use crate::address::ImageName;
use crate::image::FileSystem;
use crate::remote::{is_remote, Remote};
use outboard::image::{Probe, State};
use outboard::{BlockDevice, Mount, MountOptions};
use outboard_sandbox::error::{warn, Error, Result};
use outboard_sandbox::failure::{ErrorKind, Failure};
use std::path::Path;

/// The source of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountSource {
    Disk {
        disk: usize,
        partition: Option<u32>,
    },
    /// A node of a stack. `subvolume`: its number, unless it is the default one.
    Node {
        stack: usize,
        node: usize,
        subvolume: Option<u64>,
    },
    /// A file system that a server has.
    Server {
        identity: (u64, u64),
    },
}

impl MountSource {
    /// Whether the mount is in a disk, or in the stack of the disk.
    pub(super) fn is_in(&self, its_disk: usize, its_stack: Option<usize>) -> bool {
        match self {
            MountSource::Disk { disk, .. } => *disk == its_disk,
            MountSource::Node { stack, .. } => Some(*stack) == its_stack,
            MountSource::Server { .. } => false,
        }
    }
}

pub(super) struct MountedDevice {
    pub(super) name: String,
    pub(super) origin: MountSource,
    pub(super) mount: Mount,
}

impl MountedDevice {
    pub(super) fn is_written(&self) -> bool {
        !self.mount.is_read_only()
    }

    /// Returns what was lost.
    pub(super) fn unmount(self) -> Option<Failure> {
        let reader = self.mount.is_read_only();
        let error = self.mount.unmount().err().filter(|_| !reader)?;
        let what = match error.raw_os_error() {
            Some(libc::EBUSY) => "files are still open: everything is written, not unmounted",
            _ => "not everything was written",
        };
        Some(Failure::of(&error).after(format!("{}: {what}", self.name)))
    }
}

/// Mount options that are not options of the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Owner reported for file systems that store no owner (FAT, exFAT, HFS).
    pub user: Option<u32>,
    pub group: Option<u32>,
    /// Permissions to remove from files there.
    pub mask: Option<u32>,
    /// Each change is on stable storage when its call returns: all of them, or those of
    /// directories.
    pub synchronous: bool,
    pub synchronous_directories: bool,
}

impl Session {
    /// Mounts the file system of a name, unless it is mounted.
    pub fn mount(&mut self, name: &ImageName, write: bool) -> Result<usize> {
        let mounted = self.mount_named(name, write);
        mounted.map_err(|error| error.about(name.operand()))
    }

    fn mount_named(&mut self, name: &ImageName, write: bool) -> Result<usize> {
        if write {
            self.may_write(&name.shown())?;
        }
        if let Some(remote) = Remote::of(&name.file).transpose()? {
            if !remote.is_disk() {
                return self.mount_remote(name, &remote, write);
            }
        }
        let disk = self.disk(name, write)?;
        if self.is_layered(&self.open_disk(disk).image, name) {
            return self.mount_layered(name, disk, write);
        }
        let forced = self.options.kind.is_some();
        let found = self.open_disk(disk).image.find(name, forced)?;
        if let (None, Some(number)) = (name.partition, found.partition) {
            self.note(format!(
                "note: {} has partitions; the only one with a file system is {0}@{number}",
                name.shown()
            ));
        }
        let origin = MountSource::Disk {
            disk,
            partition: found.partition,
        };
        if let Some(index) = self.find_mount(origin, write) {
            return Ok(index);
        }
        let mount = self.mount_found(name, disk, &found, write)?;
        Ok(self.add_mount(name.shown(), origin, mount))
    }

    /// Finds a mount. A read-only mount is unmounted if the caller wants to write: results of
    /// [`Session::open`] for it become invalid.
    pub(super) fn find_mount(&mut self, origin: MountSource, write: bool) -> Option<usize> {
        let same = |slot: &Option<MountedDevice>| {
            slot.as_ref()
                .is_some_and(|mounted| mounted.origin == origin)
        };
        let index = self.mounts.iter().position(same)?;
        let reader = self.mounted(index).is_read_only();
        if !write || !reader {
            return Some(index);
        }
        // Nothing was written, so nothing can be lost.
        self.mounts[index].take().and_then(MountedDevice::unmount);
        None
    }

    pub(super) fn add_mount(&mut self, name: String, origin: MountSource, mount: Mount) -> usize {
        self.mounts.push(Some(MountedDevice {
            name,
            origin,
            mount,
        }));
        self.mounts.len() - 1
    }

    /// Unmounts the mounts of a disk that `chosen` picks, also inside of layers. Returns messages
    /// about lost data.
    pub(super) fn unmount_all_of(
        &mut self,
        disk: usize,
        chosen: impl Fn(&MountedDevice) -> bool,
    ) -> Vec<Failure> {
        let stack = self.stack_with(disk);
        let mut problems = Vec::new();
        for slot in &mut self.mounts {
            let gone =
                |mounted: &MountedDevice| mounted.origin.is_in(disk, stack) && chosen(mounted);
            if slot.as_ref().is_some_and(gone) {
                problems.extend(slot.take().and_then(MountedDevice::unmount));
            }
        }
        problems
    }

    pub(super) fn mount_found(
        &self,
        name: &ImageName,
        disk: usize,
        found: &FileSystem,
        write: bool,
    ) -> Result<Mount> {
        let device = self.device(name, disk, found.partition)?;
        let probed = found.probe.as_ref();
        let cut = || self.open_disk(disk).image.truncation(found);
        self.mount_device(&name.shown(), &device, probed, "", write, cut)
    }

    /// Mounts a block device. `probed`: result of the probe; `options`: of the file system; `cut`:
    /// describes a missing end of the image.
    pub(super) fn mount_device(
        &self,
        shown: &str,
        device: &BlockDevice,
        probed: Option<&Probe>,
        options: &str,
        write: bool,
        cut: impl Fn() -> Option<String>,
    ) -> Result<Mount> {
        let kind = match (&self.options.kind, probed) {
            (Some(kind), _) => kind.clone(),
            (None, Some(found)) => found.kind.to_owned(),
            (None, None) => {
                return Err(Error::known(
                    ErrorKind::NotAFileSystem,
                    format!("{shown}: unknown file system"),
                ))
            }
        };
        let style = self.style;
        let mut options = MountOptions::default()
            .read_only(!write)
            .owner(style.user, style.group)
            .mask(style.mask)
            .synchronous(style.synchronous)
            .synchronous_directories(style.synchronous_directories)
            .options(options);
        if self.options.kind.is_some() {
            options = options.kind(&kind);
        } else if let Some(found) = probed {
            options = options.probed(found);
        }
        match is_remote(Path::new(shown)) {
            true => self.advice.add_server(shown, write),
            false => self.advice.add_image(shown, write),
        }
        let position = self.log.position();
        let mount = device.mount(&options).map_err(|error| {
            // The reason may be a journal that was not replayed.
            let unclean = device.probe().ok().flatten().filter(|_| write);
            let state = unclean.map_or(State::Unknown, |found| found.state);
            self.explain(shown, &kind, &error, position, state, cut())
        })?;
        if mount.journal_ignored() {
            warn(format!(
                "{shown}: not left well, and opened without replaying its journal: what was \
                 written last may be missing"
            ));
        }
        if write && mount.is_read_only() {
            let text = format!("cannot write to {shown}: its file system ({kind}) is read-only");
            let failure = Failure::new(ErrorKind::ReadOnly, text);
            return Err(failure.with_kernel(self.kernel_lines(position)).into());
        }
        Ok(mount)
    }

    /// Unmounts written file systems: a later signal leaves them clean. Layers stay open, because
    /// opening them again can take seconds.
    pub fn settle(&mut self) -> Result<()> {
        let is_written = |(number, slot): (usize, &Option<OpenDisk>)| {
            let written = slot.as_ref().is_some_and(|open| open.writable);
            written.then_some(number)
        };
        let disks = self.disks.iter().enumerate();
        let written: Vec<usize> = disks.filter_map(is_written).collect();
        let mut done = Ok(());
        for disk in written {
            let settled = match self.stack_with(disk) {
                Some(_) => {
                    let position = self.log.position();
                    let mut problems = self.unmount_all_of(disk, MountedDevice::is_written);
                    problems.extend(self.open_disk(disk).flush());
                    self.told(problems, position)
                }
                None => self.release_disk(disk),
            };
            done = done.and(settled);
        }
        done.and(self.sync())
    }

    /// Syncs all mounted file systems to stable storage.
    pub fn sync(&self) -> Result<()> {
        let position = self.log.position();
        let problem = |mounted: &MountedDevice| {
            let error = mounted.mount.sync().err()?;
            let what = format!("{}: not everything was written", mounted.name);
            Some(Failure::of(&error).after(what))
        };
        let written = self.mounts.iter().flatten();
        let problems = written
            .filter(|mounted| !mounted.mount.is_read_only())
            .filter_map(problem)
            .collect();
        self.told(problems, position)
    }
}
