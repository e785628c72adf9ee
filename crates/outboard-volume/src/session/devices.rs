// SPDX-License-Identifier: GPL-2.0-only
//! The block devices of names, for tools that work on them without a mount: checkers and makers of
//! file systems.

use super::whole::Session;
use crate::address::ImageName;
use crate::image::Image;
use crate::layers::names::Meaning;
use outboard::BlockDevice;
use outboard_error::{Error, ErrorKind, Result};

/// The device that a command wants for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedDevice {
    /// The only file system inside, as for a mount.
    FileSystem,
    /// The volume itself, whatever its contents; of an encrypted partition the decrypted contents,
    /// if there is a key file.
    Itself,
    /// The whole disk of the image, never a volume inside of layers.
    Disk,
}

impl Session {
    /// The block device that a name means, and its full name, with a partition that was left out.
    pub fn block_device(
        &mut self,
        name: &ImageName,
        wanted: WantedDevice,
        write: bool,
    ) -> Result<(BlockDevice, ImageName)> {
        let found = self.find_device(name, wanted, write);
        found.map_err(|error| error.about(name.operand()))
    }

    fn find_device(
        &mut self,
        name: &ImageName,
        wanted: WantedDevice,
        write: bool,
    ) -> Result<(BlockDevice, ImageName)> {
        if write {
            self.may_write(&name.shown())?;
        }
        self.connect(&name.file, write)?;
        let image = self.image(&name.file)?;
        let layered = match wanted {
            WantedDevice::FileSystem => self.is_layered(&image, name),
            WantedDevice::Itself => self.is_inside_layers(&image, name),
            WantedDevice::Disk => false,
        };
        if layered {
            return self.layered_device(image, name, wanted, write);
        }
        let found = match wanted {
            WantedDevice::FileSystem => {
                let forced = self.options().kind.is_some();
                ImageName::new(&name.file, image.find(name, forced)?.partition)
            }
            WantedDevice::Itself | WantedDevice::Disk => image.range(name).map(|_| name.clone())?,
        };
        let disk = self.whole_disk(image, name, write)?;
        let device = self.device(name, disk, found.partition)?;
        Ok((device, found))
    }

    /// Whether a name means something that only a layer's driver can reach.
    pub fn is_inside_layers(&self, image: &Image, name: &ImageName) -> bool {
        let has_key = self.host.keys().has_file();
        let is_locked = |range| {
            let found = image.probe_range(range).ok().flatten();
            found.is_some_and(|probe| probe.kind == "crypto_LUKS")
        };
        match (&name.volume, image.range(name)) {
            (Some(_), _) => true,
            (None, Ok(range)) => has_key && is_locked(range),
            // The number may mean a partition inside of a volume.
            (None, Err(_)) => image.table.is_none() && image.is_layered(name),
        }
    }

    /// Adds a disk to the kernel, whatever its contents, unless it was added.
    pub(super) fn whole_disk(
        &mut self,
        image: Image,
        name: &ImageName,
        write: bool,
    ) -> Result<usize> {
        if let Some(index) = self.slots.find_disk(&image, write) {
            return Ok(index);
        }
        self.release(&image)?;
        self.add_disk(image, &name.file, write, None)
    }

    fn layered_device(
        &mut self,
        image: Image,
        name: &ImageName,
        wanted: WantedDevice,
        write: bool,
    ) -> Result<(BlockDevice, ImageName)> {
        let disk = self.whole_disk(image, name, write)?;
        let stack = self.open_stack(name, disk)?;
        let forced = wanted != WantedDevice::FileSystem || self.options().kind.is_some();
        self.with_stack(stack, |stack, context| {
            stack.open_for(name, forced, context)
        })?;
        let node = loop {
            let meaning = match wanted {
                WantedDevice::FileSystem => self.slots.stack(stack).find(name, forced)?,
                WantedDevice::Itself | WantedDevice::Disk => {
                    self.slots.stack(stack).find_itself(name)?
                }
            };
            match meaning {
                Meaning::FileSystem(node) => break node,
                Meaning::Locked(node) => {
                    self.with_stack(stack, |stack, context| stack.unlock(node, context))?;
                }
                Meaning::Subvolume(..) => {
                    return Err(Error::known(
                        ErrorKind::NotFound,
                        format!(
                        "{}: no volume of this name (subvolumes are parts of a file system: name \
                         all of it)",
                        name.shown()
                    ),
                    ))
                }
            }
        };
        self.with_stack(stack, |stack, context| stack.check(node, context, write))?;
        let found = &self.slots.stack(stack).nodes()[node];
        match &found.problem {
            Some(problem) => {
                let text = format!("{}: {problem}", name.shown());
                Err(Error::known(found.kind_of_problem(), text))
            }
            None => Ok((
                found.device.clone(),
                self.slots.stack(stack).image_name(node),
            )),
        }
    }
}
