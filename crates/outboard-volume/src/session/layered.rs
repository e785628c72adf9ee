// SPDX-License-Identifier: GPL-2.0-only
//! Opens and mounts file systems inside of layers ([`crate::layers`]).

use super::exclusion::DiskPart;
use super::mounts::{MountSource, MountedDevice};
use super::Session;
use crate::address::ImageName;
use crate::image::Image;
use crate::layers::keys::Secret;
use crate::layers::listing::ListedVolume;
use crate::layers::names::Meaning;
use crate::layers::subvolumes::{self, Subvolume};
use crate::layers::{Context, Stack};
use outboard::BlockDevice;
use outboard_error::{warn, Error, ErrorKind, Failure, Hint, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most subvolumes that a message lists.
const SHOWN: usize = 8;

/// A stack, and the session's disks in it.
pub(super) struct OpenStack {
    disks: Vec<usize>,
    stack: Stack,
    /// See [`Context::spent`].
    spent: Vec<BlockDevice>,
}

impl OpenStack {
    /// See [`Stack::must_be_closed`].
    pub(super) fn must_be_closed(&self) -> bool {
        self.stack.must_be_closed()
    }

    /// See [`Stack::lost_snapshots`].
    pub(super) fn lost_snapshots(&self) -> impl Iterator<Item = Failure> + '_ {
        let lost = self.stack.lost_snapshots();
        lost.map(|text| Failure::new(ErrorKind::NoSpace, text))
    }
}

impl Session {
    /// Whether the volume of a name is opened through a stack.
    pub fn is_layered(&self, image: &Image, name: &ImageName) -> bool {
        let options = &self.options;
        options.verity.is_some() || !options.disks.is_empty() || image.is_layered(name)
    }

    /// The key for a name, for another process that will open it: from the key file, or from the
    /// terminal if the volume is known to be `encrypted`.
    pub fn key_for(&self, name: &ImageName, encrypted: bool) -> Result<Option<Secret>> {
        match self.keys.file()? {
            None if encrypted => self.keys.ask(&format!("Passphrase of {}: ", name.shown())),
            file => Ok(file),
        }
    }

    /// The stack with this disk.
    pub(super) fn stack_with(&self, disk: usize) -> Option<usize> {
        self.stacks
            .iter()
            .position(|slot| slot.as_ref().is_some_and(|open| open.disks.contains(&disk)))
    }

    /// Whether a volume lies on another one.
    pub fn lies_on(&self, upper: &BlockDevice, lower: &BlockDevice) -> bool {
        let mut stacks = self.stacks.iter().flatten();
        stacks.any(|open| open.stack.lies_on(upper, lower))
    }

    pub(super) fn stack(&self, index: usize) -> &Stack {
        let slot = self.stacks[index].as_ref();
        &slot.expect("a stack of disks that were not released").stack
    }

    /// The parts of disks that a node lies on.
    pub(super) fn parts_of_node(&self, stack: usize, node: usize) -> Vec<DiskPart> {
        let disks = self.disks_of_stack(stack);
        let parts = self.stack(stack).parts(node).into_iter();
        let found = parts.filter_map(|(number, range)| {
            let disk = *disks.get(number)?;
            Some(DiskPart { disk, range })
        });
        found.collect()
    }

    pub(super) fn disks_of_stack(&self, index: usize) -> Vec<usize> {
        let slot = self.stacks[index].as_ref();
        slot.map(|open| open.disks.clone()).unwrap_or_default()
    }

    fn is_read_only(&self, open: &OpenStack) -> bool {
        let writable = |&disk: &usize| self.open_disk(disk).writable;
        !open.disks.iter().all(writable)
    }

    /// Calls `work` with a stack and the resources that it needs.
    pub(super) fn with_stack<T>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Stack, &mut Context) -> Result<T>,
    ) -> Result<T> {
        let kernel = self.kernel(None)?;
        let mut open = self.stacks[index].take().expect("a stack in use");
        let mut context = Context {
            kernel: &kernel,
            read_only: self.is_read_only(&open),
            options: &self.options,
            keys: &mut self.keys,
            registered: &mut self.registered,
            spent: &mut open.spent,
        };
        let done = work(&mut open.stack, &mut context);
        self.stacks[index] = Some(open);
        done
    }

    /// Finds the stack of a disk, or creates it.
    pub(super) fn open_stack(&mut self, name: &ImageName, disk: usize) -> Result<usize> {
        if let Some(index) = self.stack_with(disk) {
            return Ok(index);
        }
        let mut disks = vec![(name.file.clone(), disk)];
        for file in self.options.disks.clone() {
            let further = self.further_disk(&file, self.open_disk(disk).writable)?;
            if disks.iter().all(|(_, known)| *known != further) {
                disks.push((file, further));
            }
        }
        // Operands may name several disks of one machine.
        let known = disks.iter().find_map(|(_, disk)| self.stack_with(*disk));
        let index = known.unwrap_or(self.stacks.len());
        if known.is_none() {
            self.stacks.push(Some(OpenStack {
                disks: Vec::new(),
                stack: Stack::new(index),
                spent: Vec::new(),
            }));
        }
        let opened = self.fill_stack(index, &disks);
        if opened.is_err() {
            self.stacks[index] = None;
        }
        opened.map(|()| index)
    }

    /// Adds disks to a stack.
    fn fill_stack(&mut self, index: usize, disks: &[(PathBuf, usize)]) -> Result<()> {
        for (file, disk) in disks {
            if self.stack_with(*disk).is_some() {
                continue;
            }
            let mut open = self.stacks[index].take().expect("a stack in use");
            let added = self.open_disk(*disk);
            let done = open.stack.add_disk(file, &added.image, &added.disk);
            open.disks.push(*disk);
            self.stacks[index] = Some(open);
            done?;
        }
        Ok(())
    }

    /// Adds a disk of --disk to the kernel, unless it was added.
    fn further_disk(&mut self, file: &Path, write: bool) -> Result<usize> {
        let image = self.image(file)?;
        if let Some(index) = self.find_disk(&image, write) {
            return Ok(index);
        }
        self.release(&image)?;
        let added = self.add_disk(image, file, write, None);
        added.map_err(|error| error.about(file.as_os_str().as_bytes().to_vec()))
    }

    /// Mounts the file system of a name inside of layers, unless it is mounted.
    pub(super) fn mount_layered(
        &mut self,
        name: &ImageName,
        disk: usize,
        write: bool,
    ) -> Result<usize> {
        let stack = self.open_stack(name, disk)?;
        let forced = self.options.kind.is_some();
        self.with_stack(stack, |stack, context| {
            stack.open_for(name, forced, context)
        })?;
        loop {
            let locked = match self.stack(stack).find(name, forced)? {
                Meaning::FileSystem(node) => {
                    self.note_volume(name, stack, node);
                    let shown = self.stack(stack).name(node);
                    return self.mount_node(&shown, stack, node, None, write);
                }
                Meaning::Locked(node) => node,
                Meaning::Subvolume(nodes, subvolume, locked) => {
                    let mounted = self.mount_subvolume(name, stack, &nodes, &subvolume, write)?;
                    if let Some(index) = mounted {
                        return Ok(index);
                    }
                    locked.ok_or_else(|| self.no_subvolume(name, stack, &nodes))?
                }
            };
            self.with_stack(stack, |stack, context| stack.unlock(locked, context))?;
        }
    }

    fn note_volume(&mut self, name: &ImageName, stack: usize, node: usize) {
        let found = self.stack(stack).image_name(node);
        if found != *name && name.partition.is_none() && name.volume.is_none() {
            self.note(format!(
                "note: {} has several parts; the only one with a file system is {}",
                name.shown(),
                found.shown()
            ));
        }
    }

    /// Mounts the subvolume of one of these file systems. `None`: no file system has it.
    fn mount_subvolume(
        &mut self,
        name: &ImageName,
        stack: usize,
        nodes: &[usize],
        subvolume: &OsStr,
        write: bool,
    ) -> Result<Option<usize>> {
        for &node in nodes {
            let index = self.mount_of_btrfs(stack, node, write)?;
            let list = self.subvolumes(index)?;
            if let Some(number) = subvolumes::find(&list, subvolume.as_bytes()) {
                let mounted = self.mount_node(&name.shown(), stack, node, Some(number), write);
                return mounted.map(Some);
            }
        }
        Ok(None)
    }

    /// A mount of a btrfs, of whatever subvolume of it, that lists its subvolumes.
    fn mount_of_btrfs(&mut self, stack: usize, node: usize, write: bool) -> Result<usize> {
        let number = self.stack(stack).nodes()[node].device.number();
        let is_one = |slot: &Option<MountedDevice>| {
            let good = slot
                .as_ref()
                .filter(|mounted| mounted.is_written() || !write);
            let device = good.and_then(|mounted| mounted.mount.device());
            device.is_some_and(|device| device.number() == number)
        };
        match self.mounts.iter().position(is_one) {
            Some(index) => Ok(index),
            None => {
                let shown = self.stack(stack).name(node);
                self.mount_node(&shown, stack, node, None, write)
            }
        }
    }

    /// The error that lists existing subvolumes.
    fn no_subvolume(&mut self, name: &ImageName, stack: usize, nodes: &[usize]) -> Error {
        let all = nodes
            .iter()
            .flat_map(|&node| self.volumes_of_btrfs(stack, node));
        let known: Vec<String> = all.map(|volume| volume.name.shown()).collect();
        let has = match known.len() {
            0 => "it has none".to_owned(),
            1..=SHOWN => format!("it has {}", known.join(", ")),
            count => format!("it has {count}, as {}", known[..SHOWN].join(", ")),
        };
        Error::known(
            ErrorKind::NotFound,
            format!(
                "{}: no subvolume or volume of this name: {has}",
                name.shown()
            ),
        )
    }

    /// Lists the volume of a name and all volumes inside of it that need no question for a key.
    pub fn volumes(&mut self, name: &ImageName) -> Result<Vec<ListedVolume>> {
        let disk = self.disk(name, false)?;
        let index = self.open_stack(name, disk)?;
        self.with_stack(index, |stack, context| stack.open_all(context))?;
        let stack = self.stack(index);
        let mut volumes = Vec::new();
        let mut file_systems = Vec::new();
        for node in stack.all_of(name) {
            volumes.extend(ListedVolume::of_node(stack, node));
            if stack.nodes()[node].holds("btrfs") && !stack.is_opened(node) {
                file_systems.push(node);
            }
        }
        for node in file_systems {
            volumes.extend(self.volumes_of_btrfs(index, node));
        }
        Ok(volumes)
    }

    /// The subvolumes of a btrfs; none if it cannot be mounted, which the caller reports when it
    /// measures usage.
    fn volumes_of_btrfs(&mut self, stack: usize, node: usize) -> Vec<ListedVolume> {
        let mounted = self.mount_of_btrfs(stack, node, false);
        let found = mounted.and_then(|index| self.subvolumes(index));
        let found = found.unwrap_or_default();
        found
            .iter()
            .map(|found| ListedVolume::of_subvolume(self.stack(stack), node, found))
            .collect()
    }

    /// The subvolumes of a mounted file system.
    pub fn subvolumes(&self, mount: usize) -> Result<Vec<Subvolume>> {
        let failed = |error| {
            let shown = self.mounts[mount]
                .as_ref()
                .map_or("", |mounted| &mounted.name);
            Error::failed(format!("cannot list the subvolumes of {shown}"), &error)
        };
        subvolumes::list(self.mounted(mount).root()).map_err(failed)
    }

    fn mount_node(
        &mut self,
        shown: &str,
        stack: usize,
        node: usize,
        subvolume: Option<u64>,
        write: bool,
    ) -> Result<usize> {
        let origin = MountSource::Node {
            stack,
            node,
            subvolume,
        };
        if let Some(index) = self.find_mount(shown, origin, write)? {
            return Ok(index);
        }
        self.with_stack(stack, |stack, context| stack.check(node, context, write))?;
        let found = &self.stack(stack).nodes()[node];
        if let Some(problem) = &found.problem {
            let kind = found.kind_of_problem();
            let failure = Failure::new(kind, format!("{shown}: {problem}"));
            let hint = found.incomplete.then_some(Hint::AddDisks);
            return Err(failure.with_hint(hint).into());
        }
        let probed = found.probe.as_ref();
        let mut options = Vec::from_iter(subvolume.map(|number| format!("subvolid={number}")));
        if let Some(lack) = &found.lack {
            warn(format!(
                "warning: {shown}: {lack}: only the data on these can be read (add the others{})",
                Hint::AddDisks
            ));
            options.push("degraded".to_owned());
        }
        let options = options.join(",");
        let uuid = self.uuid_of_new(shown, origin, &found.device, probed, write)?;
        let device = found.mountable();
        let (mount, older) = self.mount_device(shown, device, probed, &options, write, || None)?;
        let mut mounted = MountedDevice::new(shown.to_owned(), origin, mount);
        (mounted.uuid, mounted.older) = (uuid, older);
        Ok(self.add_mount(mounted))
    }
}
