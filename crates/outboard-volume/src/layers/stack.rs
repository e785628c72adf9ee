// SPDX-License-Identifier: GPL-2.0-only
//! The volumes in the disks of one machine, and which lie on which.

use super::ancestry::Ancestry;
use super::keys::Keys;
use super::lvm::made::Made;
use crate::image::Image;
use crate::options::Options;
use crate::scratch::Range;
use outboard::{BlockDevice, DiskPartition, Kernel, KernelDisk};
use outboard_error::{reason, Error, ErrorKind, Result};
use outboard_image::partition::Partition;
use outboard_image::Probe;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

/// Most devices of a stack: images may hold many volumes, but none needs more.
const MOST: usize = 4096;

pub(super) const DISK: &str = "disk";

pub(super) const PARTITION: &str = "partition";

/// A result whose error, a text, becomes the problem of a node.
pub(super) type Attempt<T> = std::result::Result<T, String>;

/// The names of devices that the kernel knows, by the UUID of the file system and the number in it.
pub type RegisteredDevices = HashMap<(String, u64), String>;

/// The resources that layers use.
pub struct Context<'a> {
    pub kernel: &'a Kernel,
    pub read_only: bool,
    pub options: &'a Options,
    pub keys: &'a mut Keys,
    pub registered: &'a mut RegisteredDevices,
    /// Unused devices. Removal takes long, so it is left for the end.
    pub spent: &'a mut Vec<BlockDevice>,
}

/// The name of a node, after an `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The whole contents of the node below; has that node's name.
    Same,
    /// A name inside the node below, such as the number of a partition.
    Within(String),
    /// A name that is unique in the disks of its machine, such as "vg0/root".
    Whole(String),
}

/// A block device of a stack.
pub struct StackNode {
    pub selector: Selector,
    /// The nodes directly below; none for a disk.
    pub below: Vec<usize>,
    /// The kind, in words: "partition", "logical volume".
    pub sort: &'static str,
    /// Details of the layer: "LUKS2 aes-xts-plain64".
    pub details: String,
    pub device: BlockDevice,
    /// The device to mount in its place, if a copy of it is mounted.
    pub(super) stand_in: Option<BlockDevice>,
    /// Bytes.
    pub size: u64,
    pub probe: Option<Probe>,
    /// Its contents can be opened with a key.
    pub locked: bool,
    /// Why its contents cannot be opened.
    pub problem: Option<String>,
    /// A disk is missing for it: that is the problem.
    pub incomplete: bool,
    /// The missing devices of its file system, as text, if it is mounted without them for reading.
    pub lack: Option<String>,
    /// The image file, if the node is a disk.
    pub(super) file: Option<PathBuf>,
    /// The range of a disk, or of a partition in its table, in the image.
    pub(super) range: Option<Range>,
}

impl StackNode {
    /// The kind of its problem, for programs.
    pub fn kind_of_problem(&self) -> ErrorKind {
        if self.incomplete {
            ErrorKind::Incomplete
        } else {
            ErrorKind::Damaged
        }
    }

    /// The device to mount.
    pub fn mountable(&self) -> &BlockDevice {
        self.stand_in.as_ref().unwrap_or(&self.device)
    }

    /// Whether a probe has found this in it.
    pub fn holds(&self, kind: &str) -> bool {
        self.probe.as_ref().is_some_and(|probe| probe.kind == kind)
    }
}

/// All volumes in the disks of one machine.
pub struct Stack {
    /// The number of this stack in the kernel.
    pub(super) number: usize,
    pub(super) nodes: Vec<StackNode>,
    pub(super) ancestry: Ancestry,
    /// Devices of volume groups.
    pub(super) groups: Vec<Made>,
    /// No more nodes appear: a part that is missing now stays missing.
    pub(super) complete: bool,
    /// The requested names, and whether all volumes are requested.
    pub(super) wanted: HashSet<Vec<u8>>,
    pub(super) all: bool,
}

impl Stack {
    pub fn new(number: usize) -> Self {
        Self {
            number,
            nodes: Vec::new(),
            ancestry: Ancestry::default(),
            groups: Vec::new(),
            complete: false,
            wanted: HashSet::new(),
            all: false,
        }
    }

    /// All nodes, by their index.
    pub fn nodes(&self) -> &[StackNode] {
        &self.nodes
    }

    pub fn node_mut(&mut self, index: usize) -> &mut StackNode {
        &mut self.nodes[index]
    }

    /// Nodes with contents of this kind.
    pub fn holding(&self, kind: &str) -> Vec<usize> {
        (0..self.nodes.len())
            .filter(|&index| self.nodes[index].holds(kind))
            .collect()
    }

    /// Whether this volume is requested. A group may have many volumes, so only requested ones are
    /// opened.
    pub fn wants(&self, selector: &str) -> bool {
        let is_part = |name: &Vec<u8>| {
            let name = [b"@", name.as_slice(), b"@"].concat();
            let part = [b"@", selector.as_bytes(), b"@"].concat();
            name.windows(part.len()).any(|window| window == part)
        };
        self.all || self.wanted.iter().any(is_part)
    }

    /// Whether a node has this name.
    pub fn has(&self, selector: &Selector) -> bool {
        self.nodes.iter().any(|node| node.selector == *selector)
    }

    /// Nodes with contents of this kind that are not opened yet.
    pub fn unopened(&self, kind: &str) -> Vec<usize> {
        let mut found = self.holding(kind);
        found.retain(|&index| !self.is_opened(index));
        found
    }

    /// Whether nodes lie on this one.
    pub fn is_opened(&self, index: usize) -> bool {
        self.nodes.iter().any(|node| node.below.contains(&index))
    }

    /// Messages about snapshots that writing has destroyed. Call this after everything is synced.
    pub fn lost_snapshots(&self) -> impl Iterator<Item = String> + '_ {
        self.groups.iter().flat_map(Made::lost)
    }

    /// Whether a device of this stack lies on another one of it.
    pub fn lies_on(&self, upper: &BlockDevice, lower: &BlockDevice) -> bool {
        let index = |device: &BlockDevice| {
            let number = device.number();
            let mut nodes = self.nodes.iter();
            nodes.position(|node| node.device.number() == number)
        };
        let found = index(upper).zip(index(lower));
        found.is_some_and(|(upper, lower)| self.ancestry.is_above(upper, lower))
    }

    /// The parts of disks that a node lies on, each with the disk's number in the order in which
    /// disks were added.
    pub fn parts(&self, index: usize) -> Vec<(usize, Range)> {
        let is_under = |&other: &usize| other == index || self.ancestry.is_above(index, other);
        let under: Vec<usize> = (0..=index).filter(is_under).collect();
        // A disk counts where something lies on it, and not on one of its partitions.
        let is_whole = |disk: usize| {
            let uses = |&other: &usize| self.nodes[other].below.contains(&disk);
            let mut users = under.iter().filter(|other| uses(other));
            disk == index || users.any(|&other| !self.is_partition_of_disk(other))
        };
        let mut parts = Vec::new();
        for &other in &under {
            let Some(range) = self.nodes[other].range else {
                continue;
            };
            match self.nodes[other].below.first() {
                Some(&disk) => parts.push((self.disk_number(disk), range)),
                None if is_whole(other) => parts.push((self.disk_number(other), range)),
                None => {}
            }
        }
        parts
    }

    /// How many disks were added before this one.
    fn disk_number(&self, disk: usize) -> usize {
        let before = self.nodes[..disk].iter();
        before.filter(|node| node.below.is_empty()).count()
    }

    /// Whether a node lies on another one, is the same file system, or lies on a partition that
    /// overlaps one of the other. Volumes of one group have a partition in common, but no bytes.
    pub fn have_common_bytes(&self, one: usize, other: usize) -> bool {
        let is_above = |upper, lower| self.ancestry.is_above(upper, lower);
        if one == other || is_above(one, other) || is_above(other, one) {
            return true;
        }
        let [first, second] = [one, other].map(|index| self.nodes[index].probe.as_ref());
        let has_others = |probe: &Probe| probe.kind == "btrfs" && probe.uuid.is_some();
        let is_one = |(first, second): (&Probe, &Probe)| {
            has_others(first) && second.kind == first.kind && second.uuid == first.uuid
        };
        if first.zip(second).is_some_and(is_one) {
            return true;
        }
        let others = self.parts(other);
        let mut parts = self.parts(one).into_iter();
        parts.any(|(disk, range)| {
            let overlaps = |&(second, part): &(usize, Range)| {
                disk == second && part != range && part.overlaps(range)
            };
            others.iter().any(overlaps)
        })
    }

    /// Whether `so` holds for a node or one below it.
    pub(super) fn is_or_lies_on(&self, index: usize, so: fn(&StackNode) -> bool) -> bool {
        let lies_on = |&other: &usize| other == index || self.ancestry.is_above(index, other);
        let mut found = (0..=index).filter(lies_on);
        found.any(|other| so(&self.nodes[other]))
    }

    /// Whether the node is in the partition table of a disk.
    pub fn is_partition_of_disk(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        let on_disk = |&below: &usize| self.nodes[below].below.is_empty();
        node.sort == PARTITION && node.below.iter().all(on_disk)
    }

    /// An unused name for a mapping. `purpose` distinguishes several mappings of one node.
    pub fn mapping_name(&self, purpose: &str) -> String {
        format!("outboard-{}-{}{purpose}", self.number, self.nodes.len())
    }

    /// Adds a disk and its partitions.
    pub fn add_disk(&mut self, file: &Path, image: &Image, disk: &KernelDisk) -> Result<usize> {
        let failed =
            |error: io::Error| Error::failed(format!("cannot use {}", file.display()), &error);
        let root = self.nodes.len();
        let table = image.partitions();
        self.push(StackNode {
            selector: Selector::Same,
            below: Vec::new(),
            sort: DISK,
            details: table.map_or(String::new(), |table| table.kind.name().to_owned()),
            device: disk.device(None).map_err(failed)?,
            stand_in: None,
            size: image.size(),
            probe: image.whole.clone().filter(|_| table.is_none()),
            locked: false,
            problem: None,
            incomplete: false,
            lack: None,
            file: Some(file.to_owned()),
            range: Some(Range {
                start: 0,
                size: image.size(),
            }),
        })?;
        let partitions = table.iter().flat_map(|table| &table.partitions);
        for partition in partitions.filter(|partition| !partition.extended) {
            let device = match open_partition(disk, partition) {
                Ok(device) => device,
                // It lies beyond the end of the disk.
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => continue,
                Err(error) => {
                    let (number, why) = (partition.number, reason(&error));
                    let problem = format!("partition {number} cannot be used: {why}");
                    self.node_mut(root).problem = Some(problem);
                    continue;
                }
            };
            let (probe, problem) = match image.probe_partition(partition) {
                Ok(found) => (found, None),
                Err(error) => (None, error.message().map(str::to_owned)),
            };
            self.push(StackNode {
                selector: Selector::Within(partition.number.to_string()),
                below: vec![root],
                sort: PARTITION,
                details: String::new(),
                device,
                stand_in: None,
                size: partition.size,
                probe,
                locked: false,
                problem,
                incomplete: false,
                lack: None,
                file: None,
                range: Some(Range {
                    start: partition.start,
                    size: partition.size,
                }),
            })?;
        }
        Ok(root)
    }

    /// Adds the node that a layer has opened.
    pub fn add(
        &mut self,
        below: &[usize],
        sort: &'static str,
        selector: Selector,
        details: String,
        device: BlockDevice,
    ) -> Result<usize> {
        let size = device.size().unwrap_or(0);
        let probed = device.probe();
        let problem = probed.as_ref().err().map(reason);
        self.push(StackNode {
            selector,
            below: below.to_vec(),
            sort,
            details,
            device,
            stand_in: None,
            size,
            probe: probed.ok().flatten(),
            locked: false,
            problem,
            incomplete: false,
            lack: None,
            file: None,
            range: None,
        })
    }

    fn push(&mut self, node: StackNode) -> Result<usize> {
        if self.nodes.len() >= MOST {
            return Err(Error::known(
                ErrorKind::Damaged,
                format!("more than {MOST} volumes"),
            ));
        }
        self.ancestry.push(&node.below);
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }
}

/// The kernel's device of a partition that our own reader of tables has found.
pub fn open_partition(disk: &KernelDisk, partition: &Partition) -> io::Result<BlockDevice> {
    disk.partition(DiskPartition {
        number: partition.number,
        start: partition.start,
        size: partition.size,
    })
}

impl Drop for Stack {
    /// Upper nodes are removed first.
    fn drop(&mut self) {
        while self.nodes.pop().is_some() {}
        while self.groups.pop().is_some() {}
    }
}
