// SPDX-License-Identifier: GPL-2.0-only
//! The mounts of a session: file systems of its disks, and whether they are written.

use super::mounted::{unsynced, MountSource, MountedDevice};
use super::whole::{Session, TreeId};
use crate::address::{ImageName, Place};
use crate::image::{unusable, FileSystem, Image};
use crate::remote::{is_remote, Remote};
use outboard::image::{Probe, State};
use outboard::{BlockDevice, Mount, MountOptions};
use outboard_error::{warn, Error, ErrorKind, Failure, Result};
use std::path::Path;

impl Session {
    /// The tree that a place is in; mounts its file system if that was not done before.
    pub fn open(&mut self, place: &Place, write: bool) -> Result<TreeId> {
        match place {
            Place::Host(_) => Ok(TreeId::Host),
            Place::Image(name, _) => self.mount(name, write).map(TreeId::Mount),
        }
    }

    /// Mounts the file system of a name, unless it is mounted.
    pub fn mount(&mut self, name: &ImageName, write: bool) -> Result<usize> {
        let mounted = self.mount_named(name, write);
        let index = mounted.map_err(|error| error.about(name.operand()))?;
        self.report_older_state(index);
        Ok(index)
    }

    /// Mounts the file system that programs get as their root: for writing, unless it or the user
    /// rules that out.
    pub(crate) fn mount_for_programs(&mut self, name: &ImageName) -> Result<usize> {
        if self.options().read_only {
            return self.mount(name, false);
        }
        match self.mount(name, true) {
            Err(error) if error.kind() == ErrorKind::ReadOnly && !self.host.writes_images(true) => {
                self.mount(name, false)
            }
            mounted => mounted,
        }
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
        if self.is_layered(&self.slots.disk(disk).image, name) {
            return self.mount_layered(name, disk, write);
        }
        let forced = self.options().kind.is_some();
        let found = self.slots.disk(disk).image.find(name, forced)?;
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
        Ok(self.slots.add_mount(mounted))
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
        if self.host.is_in_library() {
            self.slots.check_writers(shown, origin, write)?;
        }
        let same = |mounted: &MountedDevice| mounted.origin == origin;
        let Some(index) = self.slots.find_mount(same) else {
            return Ok(None);
        };
        let reader = self.mounted(index).is_read_only();
        if !write || !reader {
            return Ok(Some(index));
        }
        // Nothing was written, so nothing can be lost.
        let reader = self.slots.take_mount(index);
        reader.and_then(MountedDevice::unmount);
        Ok(None)
    }

    /// Whether two mounts may lie on the same bytes by different images: two exports of a server,
    /// an export and an image of this machine, a block device and its file, a disk and its
    /// partition.
    fn may_share_bytes(&self, one: MountSource, other: MountSource) -> bool {
        let [one, other] = [one, other].map(|origin| self.slots.images_under(origin));
        let mut pairs = Vec::new();
        for image in &one {
            pairs.extend(other.iter().map(|other| (*image, *other)));
        }
        let is_one = |(one, other): &(&Image, &Image)| one.identity == other.identity;
        let may_share = |(one, other): &(&Image, &Image)| {
            one.is_remote()
                || other.is_remote()
                || self.host.held().share_bytes(one.identity, other.identity)
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
        match self.slots.mounts().find(is_twice) {
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
        let mounts = self.slots.take_mounts_of(disk, chosen).into_iter();
        mounts.filter_map(MountedDevice::unmount).collect()
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
        let cut = || self.slots.disk(disk).image.truncation(found);
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
        let kind = match (&self.options().kind, probed) {
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
        if self.options().kind.is_some() {
            options = options.kind(&kind);
        } else if let Some(found) = probed {
            options = options.probed(found);
        }
        if is_remote(Path::new(shown)) {
            self.machine.advice().add_server(shown, write);
        } else {
            self.machine.advice().add_image(shown, write);
        }
        let position = self.machine.position();
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
            return Err(failure
                .with_kernel(self.machine.lines_since(position))
                .into());
        }
        Ok((mount, older))
    }

    /// Unmounts written file systems: a later signal leaves them clean. Layers stay open, because
    /// opening them again can take seconds.
    pub fn settle(&mut self) -> Result<()> {
        let mut done = Ok(());
        for disk in self.slots.written_disks() {
            let settled = match self.slots.stack_with(disk) {
                Some(_) => {
                    let position = self.machine.position();
                    let mut problems = self.unmount_all_of(disk, MountedDevice::is_written);
                    problems.extend(self.slots.disk(disk).flush());
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
        let position = self.machine.position();
        let problem = |mounted: &MountedDevice| unsynced(&mounted.name, &mounted.mount);
        let problems = self.slots.mounts().filter_map(problem).collect();
        self.told(problems, position)
    }
}
