// SPDX-License-Identifier: GPL-2.0-only
//! Opens and mounts file systems inside of layers ([`crate::layers`]).

use super::mounted::{MountSource, MountedDevice};
use super::open_stack::OpenStack;
use super::whole::Session;
use crate::address::ImageName;
use crate::image::Image;
use crate::layers::keys::Secret;
use crate::layers::listing::ListedVolume;
use crate::layers::names::Meaning;
use crate::layers::subvolumes::{self, Subvolume};
use crate::layers::{Context, Stack};
use outboard_error::{warn, Error, ErrorKind, Failure, Hint, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most subvolumes that a message lists.
const SHOWN: usize = 8;

impl Session {
    /// Whether the volume of a name is opened through a stack.
    pub fn is_layered(&self, image: &Image, name: &ImageName) -> bool {
        let options = self.options();
        options.verity.is_some() || !options.disks.is_empty() || image.is_layered(name)
    }

    /// The key for a name, for another process that will open it: from the key file, or from the
    /// terminal if the volume is known to be `encrypted`.
    pub fn key_for(&self, name: &ImageName, encrypted: bool) -> Result<Option<Secret>> {
        match self.host.keys().file()? {
            None if encrypted => self
                .host
                .keys()
                .ask(&format!("Passphrase of {}: ", name.shown())),
            file => Ok(file),
        }
    }

    fn is_read_only(&self, open: &OpenStack) -> bool {
        let writable = |&disk: &usize| self.slots.disk(disk).writable;
        !open.disks.iter().all(writable)
    }

    /// Calls `work` with a stack and the resources that it needs.
    pub(super) fn with_stack<T>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Stack, &mut Context) -> Result<T>,
    ) -> Result<T> {
        let kernel = self.kernel(None)?;
        let mut open = self.slots.take_stack(index).expect("a stack in use");
        let read_only = self.is_read_only(&open);
        let (options, keys) = self.host.options_and_keys();
        let mut context = Context {
            kernel: &kernel,
            read_only,
            options,
            keys,
            registered: &mut self.registered,
            spent: &mut open.spent,
        };
        let done = work(&mut open.stack, &mut context);
        self.slots.put_stack(index, open);
        done
    }

    /// Finds the stack of a disk, or creates it.
    pub(super) fn open_stack(&mut self, name: &ImageName, disk: usize) -> Result<usize> {
        if let Some(index) = self.slots.stack_with(disk) {
            return Ok(index);
        }
        let mut disks = vec![(name.file.clone(), disk)];
        for file in self.options().disks.clone() {
            let further = self.further_disk(&file, self.slots.disk(disk).writable)?;
            if disks.iter().all(|(_, known)| *known != further) {
                disks.push((file, further));
            }
        }
        // Operands may name several disks of one machine.
        let known = disks
            .iter()
            .find_map(|(_, disk)| self.slots.stack_with(*disk));
        let index = known.unwrap_or_else(|| self.slots.add_stack());
        let opened = self.fill_stack(index, &disks);
        if opened.is_err() {
            drop(self.slots.take_stack(index));
        }
        opened.map(|()| index)
    }

    /// Adds disks to a stack.
    fn fill_stack(&mut self, index: usize, disks: &[(PathBuf, usize)]) -> Result<()> {
        for (file, disk) in disks {
            if self.slots.stack_with(*disk).is_some() {
                continue;
            }
            let mut open = self.slots.take_stack(index).expect("a stack in use");
            let added = self.slots.disk(*disk);
            let done = open.stack.add_disk(file, &added.image, &added.disk);
            open.disks.push(*disk);
            self.slots.put_stack(index, open);
            done?;
        }
        Ok(())
    }

    /// Adds a disk of --disk to the kernel, unless it was added.
    fn further_disk(&mut self, file: &Path, write: bool) -> Result<usize> {
        let image = self.image(file)?;
        if let Some(index) = self.slots.find_disk(&image, write) {
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
        let forced = self.options().kind.is_some();
        self.with_stack(stack, |stack, context| {
            stack.open_for(name, forced, context)
        })?;
        loop {
            let locked = match self.slots.stack(stack).find(name, forced)? {
                Meaning::FileSystem(node) => {
                    self.note_volume(name, stack, node);
                    let shown = self.slots.stack(stack).name(node);
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
        let found = self.slots.stack(stack).image_name(node);
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
        let number = self.slots.stack(stack).nodes()[node].device.number();
        let is_one = |mounted: &MountedDevice| {
            let device = mounted.mount.device();
            let is_same = device.is_some_and(|device| device.number() == number);
            is_same && (mounted.is_written() || !write)
        };
        match self.slots.find_mount(is_one) {
            Some(index) => Ok(index),
            None => {
                let shown = self.slots.stack(stack).name(node);
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
        let stack = self.slots.stack(index);
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
            .map(|found| ListedVolume::of_subvolume(self.slots.stack(stack), node, found))
            .collect()
    }

    /// The subvolumes of a mounted file system.
    pub fn subvolumes(&self, mount: usize) -> Result<Vec<Subvolume>> {
        let failed = |error| {
            let shown = &self.slots.mounted(mount).name;
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
        let found = &self.slots.stack(stack).nodes()[node];
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
        Ok(self.slots.add_mount(mounted))
    }
}
