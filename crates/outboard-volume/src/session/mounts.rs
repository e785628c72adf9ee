// SPDX-License-Identifier: GPL-2.0-only
//! The mounts of a session: file systems of its disks, and whether they are written.

use super::disks::OpenDisk;
use super::remote::ServerState;
use super::Session;
use crate::address::ImageName;
use crate::image::{unusable, FileSystem, Image};
use crate::remote::{is_remote, Remote};
use outboard::image::{Probe, State};
use outboard::{BlockDevice, Mount, MountOptions};
use outboard_error::{warn, Error, ErrorKind, Failure, Result};
use std::path::Path;
use std::sync::Arc;

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
    /// Volumes of a library use it without the session.
    pub(super) mount: Arc<Mount>,
    /// `None`: it is on a disk. Ends after the mount.
    pub(super) server: Option<ServerState>,
    /// Of its file system.
    pub(super) uuid: Option<String>,
    /// It shows an older state than the last one.
    pub(super) older: Option<Failure>,
}

impl MountedDevice {
    pub(super) fn new(name: String, origin: MountSource, mount: Mount) -> Self {
        Self {
            name,
            origin,
            mount: Arc::new(mount),
            server: None,
            uuid: None,
            older: None,
        }
    }

    pub(super) fn is_written(&self) -> bool {
        !self.mount.is_read_only()
    }

    /// Whether its server owes an answer for too long.
    pub(super) fn is_late(&self) -> bool {
        self.server.as_ref().is_some_and(ServerState::is_late)
    }

    /// Whether a volume of a library uses it.
    pub(super) fn is_used(&self) -> bool {
        Arc::strong_count(&self.mount) > 1
    }

    /// Returns what was lost. A mount that a volume uses stays until the kernel halts.
    pub(super) fn unmount(self) -> Option<Failure> {
        let (reader, is_late) = (self.mount.is_read_only(), self.is_late());
        let mount = Arc::into_inner(self.mount)?;
        let unmounted = if is_late {
            mount.leave()
        } else {
            mount.unmount()
        };
        let error = unmounted.err().filter(|_| !reader)?;
        let what = match error.raw_os_error() {
            Some(libc::EBUSY) => "files are still open: everything is written, not unmounted",
            _ => "not everything was written",
        };
        Some(Failure::of(&error).after(format!("{}: {what}", self.name)))
    }
}

/// Syncs a file system to stable storage. Returns what was lost. `name`: of its volume.
pub(crate) fn unsynced(name: &str, mount: &Mount) -> Option<Failure> {
    if mount.is_read_only() {
        return None;
    }
    let error = mount.sync().err()?;
    let what = format!("{name}: not everything was written");
    Some(Failure::of(&error).after(what))
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
        let index = mounted.map_err(|error| error.about(name.operand()))?;
        self.report_older_state(index);
        Ok(index)
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
        if let Some(index) = self.find_mount(&name.shown(), origin, write)? {
            return Ok(index);
        }
        let mounted = self.mount_found(name, disk, origin, &found, write)?;
        Ok(self.add_mount(mounted))
    }

    /// Finds a mount. A read-only mount is unmounted if the caller wants to write: results of
    /// [`Session::open`] for it become invalid. In a library another volume may use that mount:
    /// an error. `shown`: the name of what the caller wants to mount.
    pub(super) fn find_mount(
        &mut self,
        shown: &str,
        origin: MountSource,
        write: bool,
    ) -> Result<Option<usize>> {
        if self.in_library {
            self.check_writers(shown, origin, write)?;
        }
        let same = |slot: &Option<MountedDevice>| {
            slot.as_ref()
                .is_some_and(|mounted| mounted.origin == origin)
        };
        let Some(index) = self.mounts.iter().position(same) else {
            return Ok(None);
        };
        let reader = self.mounted(index).is_read_only();
        if !write || !reader {
            return Ok(Some(index));
        }
        // Nothing was written, so nothing can be lost.
        self.mounts[index].take().and_then(MountedDevice::unmount);
        Ok(None)
    }

    pub(super) fn add_mount(&mut self, mounted: MountedDevice) -> usize {
        self.mounts.push(Some(mounted));
        self.mounts.len() - 1
    }

    /// The images that a mount lies on; none of a mount that a server has.
    fn images_under(&self, origin: MountSource) -> Vec<&Image> {
        let disks = match origin {
            MountSource::Disk { disk, .. } => vec![disk],
            MountSource::Node { stack, .. } => self.disks_of_stack(stack),
            MountSource::Server { .. } => Vec::new(),
        };
        let images = disks.into_iter().map(|disk| &self.open_disk(disk).image);
        images.collect()
    }

    /// Whether two mounts may lie on the same bytes by different images: two exports of a server,
    /// an export and an image of this machine, a block device and its file, a disk and its
    /// partition.
    fn may_share_bytes(&self, one: MountSource, other: MountSource) -> bool {
        let [one, other] = [one, other].map(|origin| self.images_under(origin));
        let mut pairs = Vec::new();
        for image in &one {
            pairs.extend(other.iter().map(|other| (*image, *other)));
        }
        let is_one = |(one, other): &(&Image, &Image)| one.identity == other.identity;
        let may_share = |(one, other): &(&Image, &Image)| {
            one.is_remote()
                || other.is_remote()
                || self.held.share_bytes(one.identity, other.identity)
        };
        !pairs.iter().any(is_one) && pairs.iter().any(may_share)
    }

    /// The UUID of a volume that is about to be mounted. An error: the volume is mounted under
    /// another name, and one of the two mounts is written.
    pub(super) fn uuid_of_new(
        &self,
        shown: &str,
        origin: MountSource,
        device: &BlockDevice,
        probed: Option<&Probe>,
        write: bool,
    ) -> Result<Option<String>> {
        let Some(uuid) = probed.and_then(|found| found.uuid.clone()) else {
            return Ok(None);
        };
        let has_same_size = |mounted: &MountedDevice| {
            let other = mounted.mount.device().map(BlockDevice::size);
            other.is_some_and(|other| other.ok() == device.size().ok())
        };
        let is_twice = |mounted: &&MountedDevice| {
            mounted.uuid.as_ref() == Some(&uuid)
                && (write || mounted.is_written())
                && self.may_share_bytes(origin, mounted.origin)
                && has_same_size(mounted)
        };
        match self.mounts.iter().flatten().find(is_twice) {
            Some(other) => Err(Error::known(
                ErrorKind::Locked,
                format!(
                    "{shown} and {} are the same volume (both have the UUID {uuid}), and one of \
                     them is written: use one name for both; give a copy another UUID",
                    other.name
                ),
            )),
            None => Ok(Some(uuid)),
        }
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
        origin: MountSource,
        found: &FileSystem,
        write: bool,
    ) -> Result<MountedDevice> {
        let device = self.device(name, disk, found.partition)?;
        let probed = found.probe.as_ref();
        let shown = name.shown();
        let uuid = self.uuid_of_new(&shown, origin, &device, probed, write)?;
        let cut = || self.open_disk(disk).image.truncation(found);
        let (mount, older) = self.mount_device(&shown, &device, probed, "", write, cut)?;
        let mut mounted = MountedDevice::new(shown, origin, mount);
        (mounted.uuid, mounted.older) = (uuid, older);
        Ok(mounted)
    }

    /// Mounts a block device. `probed`: result of the probe; `options`: of the file system; `cut`:
    /// describes a missing end of the image. Returns the mount, and a failure if the mount shows an
    /// older state.
    pub(super) fn mount_device(
        &self,
        shown: &str,
        device: &BlockDevice,
        probed: Option<&Probe>,
        options: &str,
        write: bool,
        cut: impl Fn() -> Option<String>,
    ) -> Result<(Mount, Option<Failure>)> {
        let kind = match (&self.options.kind, probed) {
            (Some(kind), _) => kind.clone(),
            (None, Some(found)) => match unusable(shown, found) {
                Some(text) => return Err(Error::known(ErrorKind::Unsupported, text)),
                None => found.kind.to_owned(),
            },
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
        if is_remote(Path::new(shown)) {
            self.advice.add_server(shown, write);
        } else {
            self.advice.add_image(shown, write);
        }
        let position = self.log.position();
        let mount = device.mount(&options).map_err(|error| {
            // The reason may be a journal that was not replayed.
            let unclean = device.probe().ok().flatten().filter(|_| write);
            let state = unclean.map_or(State::Unknown, |found| found.state);
            self.explain(shown, &kind, &error, position, state, cut())
        })?;
        let older = self.older_state(shown, position);
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
        Ok((mount, older))
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
        let problem = |mounted: &MountedDevice| unsynced(&mounted.name, &mounted.mount);
        let problems = self.mounts.iter().flatten().filter_map(problem).collect();
        self.told(problems, position)
    }
}
