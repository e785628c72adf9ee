// SPDX-License-Identifier: GPL-2.0-only
//! Lists the partitions and volumes of a disk, for programs.

use crate::address::ImageName;
use crate::image::Image;
use crate::layers::listing::ListedVolume;
use crate::session::Session;
use outboard_error::Result;
use outboard_image::partition::Partition;
use outboard_image::{Class, Probe};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A partition or volume of a [`Disk`](crate::Disk).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VolumeEntry {
    name: OsString,
    sort: &'static str,
    details: String,
    size: Option<u64>,
    probe: Option<Probe>,
    on: Vec<OsString>,
    locked: bool,
    problem: Option<String>,
}

impl VolumeEntry {
    /// Its name for [`Disk::volume`](crate::Disk::volume): `"2"`, `"vg0/root"`, `"3@@home"`. Empty
    /// for the whole disk.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// In words, as in "partition", "logical volume" or "subvolume".
    pub fn sort(&self) -> &str {
        self.sort
    }

    /// Details of its layer, as in "LUKS2 aes-xts-plain64"; empty if there are none.
    pub fn details(&self) -> &str {
        &self.details
    }

    /// Bytes. `None`: a subvolume, which has no size of its own.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The type of what is in it, as in "ext4" or "crypto_LUKS". `None`: unknown, or a subvolume.
    pub fn kind(&self) -> Option<&str> {
        self.probe.as_ref().map(|probe| probe.kind)
    }

    /// Whether a file system is in it. A subvolume is a part of one.
    pub fn is_file_system(&self) -> bool {
        let found = self.probe.as_ref();
        found.is_some_and(|probe| probe.class == Class::FileSystem)
    }

    /// The label of what is in it.
    pub fn label(&self) -> Option<&str> {
        self.probe.as_ref()?.label.as_deref()
    }

    /// The UUID of what is in it.
    pub fn uuid(&self) -> Option<&str> {
        self.probe.as_ref()?.uuid.as_deref()
    }

    /// The names of the volumes that it lies on, directly.
    pub fn on(&self) -> impl Iterator<Item = &OsStr> {
        self.on.iter().map(OsString::as_os_str)
    }

    /// Whether it is opened with a key that the options do not have.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Why it, or what is in it, cannot be used.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn of_whole(image: &Image, probe: &Probe) -> Self {
        Self {
            name: OsString::new(),
            sort: "disk",
            details: String::new(),
            size: Some(image.size()),
            problem: image.unusable(image.shown(), probe),
            probe: Some(probe.clone()),
            on: Vec::new(),
            locked: false,
        }
    }

    fn of_partition(image: &Image, partition: &Partition) -> Self {
        let (probe, problem) = match image.probe_partition(partition) {
            Ok(found) => (found, None),
            Err(error) => (None, error.message().map(str::to_owned)),
        };
        Self {
            name: partition.number.to_string().into(),
            sort: if partition.extended {
                "extended partition"
            } else {
                "partition"
            },
            details: String::new(),
            size: Some(partition.size),
            probe,
            on: vec![OsString::new()],
            locked: false,
            problem,
        }
    }

    fn of_listed(volume: ListedVolume) -> Self {
        Self {
            name: selectors_of(&volume.name),
            sort: volume.sort,
            details: volume.details,
            size: volume.size,
            probe: volume.probe,
            on: volume.on.iter().map(selectors_of).collect(),
            locked: volume.locked,
            problem: volume.problem,
        }
    }

    /// Adds what the layers know of a partition.
    fn complete(&mut self, volume: ListedVolume) {
        self.locked = volume.locked;
        self.details = volume.details;
        self.problem = self.problem.take().or(volume.problem);
    }
}

/// The part of a name behind the image.
fn selectors_of(name: &ImageName) -> OsString {
    let operand = name.operand();
    let image = name.file.as_os_str().as_bytes().len();
    OsString::from_vec(operand.get(image + 1..).unwrap_or_default().to_vec())
}

/// Lists what is in an image that the session has added: its partitions, then volumes of layers and
/// subvolumes.
pub(crate) fn list(session: &mut Session, name: &ImageName) -> Result<Vec<VolumeEntry>> {
    let image = session.image(&name.file)?;
    let mut entries: Vec<VolumeEntry> = match image.partitions() {
        Some(table) => {
            let partitions = table.partitions.iter();
            let entry = |partition| VolumeEntry::of_partition(&image, partition);
            partitions.map(entry).collect()
        }
        None => {
            let whole = image.whole.iter();
            let entry = |probe| VolumeEntry::of_whole(&image, probe);
            whole.map(entry).collect()
        }
    };
    let has_subvolumes = entries.iter().any(|entry| entry.kind() == Some("btrfs"));
    if !session.is_layered(&image, name) && !has_subvolumes {
        return Ok(entries);
    }
    for volume in session.without_others(|session| session.volumes(name))? {
        let listed = selectors_of(&volume.name);
        // A volume that a key has opened has the name of the partition that it is in.
        let is_shut = volume.locked || volume.problem.is_some();
        let known = entries.iter_mut().find(|entry| entry.name == listed);
        match known.filter(|_| is_shut && volume.probe.is_none()) {
            Some(entry) => entry.complete(volume),
            None => entries.push(VolumeEntry::of_listed(volume)),
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_image() {
        let name = |selectors: &[u8]| ImageName::with_selectors("a@b.img".as_ref(), selectors);
        for text in ["2", "vg0/root", "3@@home", "@home"] {
            assert_eq!(selectors_of(&name(text.as_bytes())), text);
        }
        assert_eq!(selectors_of(&ImageName::new("a@b.img", None)), "");
    }
}
