// SPDX-License-Identifier: GPL-2.0-only
//! The part of a session that owns what the kernel has open: disks, stacks of layers, mounts.
//!
//! Each has a number, by which the others refer to it. A number stays good until the thing is
//! taken; a mount lies on a disk or stack, and is taken before it.

use super::mounted::{MountSource, MountedDevice};
use super::open_disk::OpenDisk;
use super::open_stack::OpenStack;
use crate::image::Image;
use crate::layers::Stack;
use crate::scratch::Range;
use outboard::BlockDevice;
use outboard_error::Failure;
use std::mem::forget;

/// A part of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskPart {
    pub(super) disk: usize,
    pub(super) range: Range,
}

#[derive(Default)]
pub(super) struct Slots {
    /// The slots of a released disk and of its mounts are empty.
    disks: Vec<Option<OpenDisk>>,
    /// A slot is empty once one of its disks was released, and while its stack is in use.
    stacks: Vec<Option<OpenStack>>,
    mounts: Vec<Option<MountedDevice>>,
}

fn add<T>(slots: &mut Vec<Option<T>>, value: T) -> usize {
    slots.push(Some(value));
    slots.len() - 1
}

fn position<T>(slots: &[Option<T>], good: impl Fn(&T) -> bool) -> Option<usize> {
    slots
        .iter()
        .position(|slot| slot.as_ref().is_some_and(&good))
}

/// Disks.
impl Slots {
    pub(super) fn disks(&self) -> impl Iterator<Item = &OpenDisk> {
        self.disks.iter().flatten()
    }

    pub(super) fn disk(&self, index: usize) -> &OpenDisk {
        let slot = self.disks[index].as_ref();
        slot.expect("a disk that was not released")
    }

    /// The disk of this identity, however it was opened.
    pub(super) fn disk_of(&self, identity: (u64, u64)) -> Option<usize> {
        position(&self.disks, |open| open.image.identity == identity)
    }

    /// The same, if it can be written or need not be.
    pub(super) fn find_disk(&self, image: &Image, write: bool) -> Option<usize> {
        let index = self.disk_of(image.identity)?;
        (self.disk(index).writable || !write).then_some(index)
    }

    pub(super) fn written_disks(&self) -> Vec<usize> {
        let is_written = |index: &usize| {
            let slot = self.disks[*index].as_ref();
            slot.is_some_and(|open| open.writable)
        };
        (0..self.disks.len()).filter(is_written).collect()
    }

    pub(super) fn has_written_disk(&self) -> bool {
        self.disks().any(|open| open.writable)
    }

    pub(super) fn add_disk(&mut self, disk: OpenDisk) -> usize {
        add(&mut self.disks, disk)
    }

    pub(super) fn take_disk(&mut self, index: usize) -> Option<OpenDisk> {
        self.disks[index].take()
    }

    /// Returns what was lost of what the kernel did not flush itself.
    pub(super) fn flush_disks(&self) -> impl Iterator<Item = Failure> + '_ {
        self.disks().filter_map(OpenDisk::flush)
    }
}

/// Stacks of layers.
impl Slots {
    pub(super) fn stacks(&self) -> impl Iterator<Item = &OpenStack> {
        self.stacks.iter().flatten()
    }

    pub(super) fn has_stacks(&self) -> bool {
        !self.stacks.is_empty()
    }

    /// The stack with this disk.
    pub(super) fn stack_with(&self, disk: usize) -> Option<usize> {
        position(&self.stacks, |open| open.disks.contains(&disk))
    }

    pub(super) fn stack(&self, index: usize) -> &Stack {
        let slot = self.stacks[index].as_ref();
        &slot.expect("a stack of disks that were not released").stack
    }

    /// Adds an empty one.
    pub(super) fn add_stack(&mut self) -> usize {
        let index = self.stacks.len();
        let open = OpenStack {
            disks: Vec::new(),
            stack: Stack::new(index),
            spent: Vec::new(),
        };
        add(&mut self.stacks, open)
    }

    /// Takes a stack, to change it or to drop it.
    pub(super) fn take_stack(&mut self, index: usize) -> Option<OpenStack> {
        self.stacks[index].take()
    }

    pub(super) fn put_stack(&mut self, index: usize, open: OpenStack) {
        self.stacks[index] = Some(open);
    }

    /// Closes the stacks that a halt of the kernel would not close, the last one first.
    pub(super) fn close_stacks(&mut self) {
        for slot in self.stacks.iter_mut().rev() {
            drop(slot.take_if(|stack| stack.must_be_closed()));
        }
    }

    /// Whether a volume lies on another one.
    pub(super) fn lies_on(&self, upper: &BlockDevice, lower: &BlockDevice) -> bool {
        self.stacks().any(|open| open.stack.lies_on(upper, lower))
    }

    pub(super) fn disks_of_stack(&self, index: usize) -> &[usize] {
        let slot = self.stacks[index].as_ref();
        slot.map_or(&[], |open| &open.disks)
    }
}

/// Mounts.
impl Slots {
    pub(super) fn mounts(&self) -> impl Iterator<Item = &MountedDevice> {
        self.mounts.iter().flatten()
    }

    pub(super) fn mounted(&self, index: usize) -> &MountedDevice {
        let slot = self.mounts[index].as_ref();
        slot.expect("a mount of a disk that was not released")
    }

    pub(super) fn find_mount(&self, good: impl Fn(&MountedDevice) -> bool) -> Option<usize> {
        position(&self.mounts, good)
    }

    pub(super) fn add_mount(&mut self, mounted: MountedDevice) -> usize {
        add(&mut self.mounts, mounted)
    }

    pub(super) fn take_mount(&mut self, index: usize) -> Option<MountedDevice> {
        self.mounts[index].take()
    }

    /// Takes the mount that was made last.
    pub(super) fn take_last_mount(&mut self) -> Option<MountedDevice> {
        while let Some(slot) = self.mounts.pop() {
            if slot.is_some() {
                return slot;
            }
        }
        None
    }

    /// Takes the mounts of a disk that `chosen` picks, also those inside of layers.
    pub(super) fn take_mounts_of(
        &mut self,
        disk: usize,
        chosen: impl Fn(&MountedDevice) -> bool,
    ) -> Vec<MountedDevice> {
        let stack = self.stack_with(disk);
        let gone =
            |mounted: &mut MountedDevice| mounted.origin.is_in(disk, stack) && chosen(mounted);
        let slots = self.mounts.iter_mut();
        slots.filter_map(|slot| slot.take_if(gone)).collect()
    }

    /// Takes the mounts that no volume of a library uses, the last one first. Their numbers are
    /// used again: a disk may be open for long, with many volumes one after the other.
    pub(super) fn take_unused_mounts(&mut self) -> Vec<MountedDevice> {
        let is_unused = |mounted: &mut MountedDevice| !mounted.is_used();
        let slots = self.mounts.iter_mut().rev();
        let unused = slots.filter_map(|slot| slot.take_if(is_unused)).collect();
        let used = self.mounts.iter().rposition(Option::is_some);
        self.mounts.truncate(used.map_or(0, |last| last + 1));
        unused
    }

    /// The images that a mount lies on; none of a mount that a server has.
    pub(super) fn images_under(&self, origin: MountSource) -> Vec<&Image> {
        let disks = match origin {
            MountSource::Disk { disk, .. } => vec![disk],
            MountSource::Node { stack, .. } => self.disks_of_stack(stack).to_vec(),
            MountSource::Server { .. } | MountSource::Directory => Vec::new(),
        };
        let images = disks.into_iter().map(|disk| &self.disk(disk).image);
        images.collect()
    }

    /// The parts of disks that a mount lies on.
    pub(super) fn parts_under(&self, origin: MountSource) -> Vec<DiskPart> {
        match origin {
            MountSource::Server { .. } | MountSource::Directory => Vec::new(),
            MountSource::Disk { disk, partition } => {
                let range = self.disk(disk).image.range_of(partition);
                vec![DiskPart { disk, range }]
            }
            MountSource::Node { stack, node, .. } => {
                let disks = self.disks_of_stack(stack);
                let parts = self.stack(stack).parts(node).into_iter();
                let part = |(number, range): (usize, Range)| {
                    let disk = *disks.get(number)?;
                    Some(DiskPart { disk, range })
                };
                parts.filter_map(part).collect()
            }
        }
    }

    /// Forgets what would halt the kernel, or remove a disk of it, when it is dropped.
    pub(super) fn forget_kernel(self) {
        forget(self.mounts);
        let disks = self.disks.into_iter().flatten();
        disks.for_each(|open| forget(open.disk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_when_others_are_taken() {
        let mut slots = Vec::new();
        let numbers = ["a", "b", "c"].map(|name| add(&mut slots, name));
        assert_eq!(numbers, [0, 1, 2]);
        slots[1].take();
        assert_eq!(position(&slots, |name| *name == "c"), Some(2));
        assert_eq!(position(&slots, |name| *name == "b"), None);
        assert_eq!(add(&mut slots, "d"), 3);
    }

    #[test]
    fn an_empty_session_has_nothing() {
        let mut slots = Slots::default();
        assert!(slots.disk_of((0, 0)).is_none() && slots.stack_with(0).is_none());
        assert!(slots.take_last_mount().is_none() && slots.take_unused_mounts().is_empty());
        assert!(slots.written_disks().is_empty() && !slots.has_written_disk());
        let server = MountSource::Server { identity: (0, 1) };
        assert!(slots.images_under(server).is_empty() && slots.parts_under(server).is_empty());
        let stack = slots.add_stack();
        assert!(slots.has_stacks() && slots.disks_of_stack(stack).is_empty());
        assert!(slots
            .take_stack(stack)
            .is_some_and(|open| !open.must_be_closed()));
        assert!(slots.take_stack(stack).is_none());
    }
}
