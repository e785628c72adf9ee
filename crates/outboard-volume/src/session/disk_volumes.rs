// SPDX-License-Identifier: GPL-2.0-only
//! The session of one disk of a library: adds the disk, and mounts and unmounts its volumes one by
//! one. Each mount of such a session is a volume's.

use super::mounted::MountedDevice;
use super::whole::Session;
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
        (Arc::clone(self.machine.log()), self.machine.booted())
    }

    /// The files that an image is based on, the one that it names first.
    pub(crate) fn backing_of(&self, name: &ImageName) -> Vec<PathBuf> {
        let held = self.host.held().find(&name.file);
        held.map(|held| held.backing_paths()).unwrap_or_default()
    }

    /// Mounts the volume of a name. Volumes that are only read share a mount.
    pub(crate) fn mount_volume(&mut self, name: &ImageName, write: bool) -> Result<Arc<Mount>> {
        let mounted = self.without_others(|session| {
            let index = session.mount(name, write)?;
            Ok(Arc::clone(&session.slots.mounted(index).mount))
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
        let position = self.machine.position();
        let done = work(self);
        let problems = self.unmount_unused();
        // Without a value, nothing uses what `work` has mounted.
        let value = done?;
        self.told(problems, position)?;
        Ok(value)
    }

    /// Ends the use of a mount by a volume. Returns errors of what was written.
    pub(crate) fn unmount_volume(&mut self, mount: Arc<Mount>) -> Result<()> {
        let position = self.machine.position();
        let is_written = !mount.is_read_only();
        drop(mount);
        let mut problems = self.unmount_unused();
        if is_written {
            problems.extend(self.slots.flush_disks());
        }
        self.told(problems, position)
    }

    /// The names of the volumes that are open.
    pub(crate) fn mounted_names(&self) -> Vec<String> {
        let mounts = self.slots.mounts();
        mounts.map(|mounted| mounted.name.clone()).collect()
    }

    fn unmount_unused(&mut self) -> Vec<Failure> {
        let unused = self.slots.take_unused_mounts().into_iter();
        unused.filter_map(MountedDevice::unmount).collect()
    }
}
