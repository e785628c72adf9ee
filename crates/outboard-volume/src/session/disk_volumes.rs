// SPDX-License-Identifier: GPL-2.0-only
//! The session of one disk of a library: adds the disk, and mounts and unmounts its volumes one by
//! one. Each mount of such a session is a volume's.

use super::disks::OpenDisk;
use super::mounts::MountedDevice;
use super::Session;
use crate::address::ImageName;
use outboard::{Kernel, LogRing, Mount};
use outboard_error::{Failure, Result};
use std::path::PathBuf;
use std::sync::Arc;

impl Session {
    /// Boots the kernel and adds the disk of an image, whatever is in it.
    pub(crate) fn add_image(&mut self, name: &ImageName, write: bool) -> Result<()> {
        let added = self.connect(&name.file, write).and_then(|()| {
            let image = self.image(&name.file)?;
            self.whole_disk(image, name, write)
        });
        added.map(drop).map_err(|error| error.about(name.operand()))
    }

    /// Its kernel, which boots now if it has not.
    pub(crate) fn started_kernel(&mut self) -> Result<Kernel> {
        self.kernel(None)
    }

    /// The kernel's log, and the position in it when the kernel had booted.
    pub(crate) fn log(&self) -> (Arc<LogRing>, usize) {
        (Arc::clone(&self.log), self.booted)
    }

    /// The files that an image is based on, the one that it names first.
    pub(crate) fn backing_of(&self, name: &ImageName) -> Vec<PathBuf> {
        let held = self.held.find(&name.file);
        held.map(|held| held.backing_paths()).unwrap_or_default()
    }

    /// Mounts the volume of a name. Volumes that are only read share a mount.
    pub(crate) fn mount_volume(&mut self, name: &ImageName, write: bool) -> Result<Arc<Mount>> {
        let mounted = self.without_others(|session| {
            let index = session.mount(name, write)?;
            let slot = session.mounts[index].as_ref();
            Ok(Arc::clone(&slot.expect("a mount of just now").mount))
        });
        // Numbers of mounts are used again.
        self.older.clear();
        mounted
    }

    /// Runs `work`, and unmounts what it has mounted on its way and no volume uses.
    pub(crate) fn without_others<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let position = self.log.position();
        let done = work(self);
        let problems = self.unmount_unused();
        // Without a value, nothing uses what `work` has mounted.
        let value = done?;
        self.told(problems, position)?;
        Ok(value)
    }

    /// Ends the use of a mount by a volume. Returns errors of what was written.
    pub(crate) fn unmount_volume(&mut self, mount: Arc<Mount>) -> Result<()> {
        let position = self.log.position();
        let is_written = !mount.is_read_only();
        drop(mount);
        let mut problems = self.unmount_unused();
        if is_written {
            problems.extend(self.disks.iter().flatten().filter_map(OpenDisk::flush));
        }
        self.told(problems, position)
    }

    /// The names of the volumes that are open.
    pub(crate) fn mounted_names(&self) -> Vec<String> {
        let mounts = self.mounts.iter().flatten();
        mounts.map(|mounted| mounted.name.clone()).collect()
    }

    fn unmount_unused(&mut self) -> Vec<Failure> {
        let is_unused = |mounted: &mut MountedDevice| !mounted.is_used();
        let unused = self.mounts.iter_mut().rev();
        let unused = unused.filter_map(|slot| slot.take_if(is_unused));
        let problems = unused.filter_map(MountedDevice::unmount).collect();
        // A disk may be open for long, with many volumes one after the other.
        let used = self.mounts.iter().rposition(Option::is_some);
        self.mounts.truncate(used.map_or(0, |last| last + 1));
        problems
    }
}
