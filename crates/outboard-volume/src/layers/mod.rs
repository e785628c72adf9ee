// SPDX-License-Identifier: GPL-2.0-only
//! Layers between a disk and its file systems: encryption, volume groups, RAID, blocks that are checked.
//!
//! A [`Stack`] is all that is found in the disks of one machine. Its nodes are block devices of the kernel: first the
//! disks and their partitions, then what each kind of layer opens of what is there, until nothing new is found. A
//! node lies on others that came before it. Each kind of layer is a file here that has an [`Open`]; what names
//! mean is in [`names`].

mod ancestry;
mod hashes;
mod integrity;
pub mod keys;
pub mod listing;
mod luks;
mod lvm;
mod md;
pub mod names;
mod overlay;
mod partitions;
mod several;
pub mod subvolumes;
mod verity;

use crate::address::ImageName;
use crate::image::Image;
use crate::options::Options;
use ancestry::Ancestry;
use keys::Keys;
use names::Meaning;
use outboard::{BlockDevice, Disk, Kernel};
use outboard_image::Probe;
use outboard_sandbox::error::{reason, Error, Result};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

/// Most devices of a stack: images may hold many volumes, but none needs more.
const MOST: usize = 4096;

const DISK: &str = "disk";
const PARTITION: &str = "partition";
/// Kinds of nodes that keep nothing in memory of what was written to them.
const STATELESS: [&str; 4] = [DISK, PARTITION, luks::ENCRYPTED, verity::VERIFIED];

/// The result of what becomes a node's problem if it fails: why, in words.
type Attempt<T> = std::result::Result<T, String>;

/// Opens what the nodes of a stack hold, as far as that is one kind of layer, and adds it. It is called again when other
/// kinds have added something. What stays shut for a reason gets that as its `problem`.
type Open = fn(&mut Stack, &mut Context) -> Result<()>;

const KINDS: [Open; 7] = [
    md::open,
    lvm::open,
    several::open,
    integrity::open,
    luks::open,
    verity::open,
    partitions::open,
];

/// What kinds of layers work with.
pub struct Context<'a> {
    pub kernel: &'a Kernel,
    pub read_only: bool,
    pub options: &'a Options,
    pub keys: &'a mut Keys,
    /// Devices that are of no more use. To remove one takes longer than all else, so that is done at the end.
    pub spent: &'a mut Vec<BlockDevice>,
}

/// What a node is called, after an `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// It is all that the node below holds, and has that one's name.
    Same,
    /// A name in the node below, as the number of a partition.
    Within(String),
    /// A name that says all in its image, as "vg0/root".
    Whole(String),
}

/// A block device of a stack.
pub struct Node {
    pub selector: Selector,
    /// The nodes that it lies on; none for a disk.
    pub below: Vec<usize>,
    /// In words, as in "partition" or "logical volume".
    pub sort: &'static str,
    /// More of the layer, as in "LUKS2 aes-xts-plain64".
    pub details: String,
    pub device: BlockDevice,
    /// Bytes.
    pub size: u64,
    pub probe: Option<Probe>,
    /// What it holds can be opened with a key.
    pub locked: bool,
    /// Why what it holds is not opened.
    pub problem: Option<String>,
    /// What its file system is mounted without, for reading.
    pub lack: Option<String>,
    /// Of a disk: the image's file.
    file: Option<PathBuf>,
}

impl Node {
    /// Whether a probe has found this in it.
    pub fn holds(&self, kind: &str) -> bool {
        self.probe.as_ref().is_some_and(|probe| probe.kind == kind)
    }
}

/// What is found in the disks of one machine.
pub struct Stack {
    /// Distinguishes it from the kernel's others.
    number: usize,
    nodes: Vec<Node>,
    ancestry: Ancestry,
    /// What was made of groups of volumes.
    groups: Vec<lvm::Made>,
    /// Nothing more is found: what lacks a part now lacks it for good.
    complete: bool,
    /// What was asked for by names, and whether it is all.
    wanted: HashSet<Vec<u8>>,
    all: bool,
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
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    /// Nodes that hold this, as a probe found it.
    pub fn holding(&self, kind: &str) -> Vec<usize> {
        (0..self.nodes.len())
            .filter(|&index| self.nodes[index].holds(kind))
            .collect()
    }

    /// Whether this is asked for. Volumes of which there may be many are not opened all for the sake of one.
    pub fn wants(&self, selector: &str) -> bool {
        let is_part = |name: &Vec<u8>| {
            let name = [b"@", name.as_slice(), b"@"].concat();
            let part = [b"@", selector.as_bytes(), b"@"].concat();
            name.windows(part.len()).any(|window| window == part)
        };
        self.all || self.wanted.iter().any(is_part)
    }

    /// Whether there is a node of this name.
    pub fn has(&self, selector: &Selector) -> bool {
        self.nodes.iter().any(|node| node.selector == *selector)
    }

    /// Nodes that hold this, as a probe found it, and were not opened yet.
    pub fn unopened(&self, kind: &str) -> Vec<usize> {
        let mut found = self.holding(kind);
        found.retain(|&index| !self.is_opened(index));
        found
    }

    /// Whether there are nodes on this one.
    pub fn is_opened(&self, index: usize) -> bool {
        self.nodes.iter().any(|node| node.below.contains(&index))
    }

    /// Whether the stack must be closed before the kernel halts. A device that can be written may have data in memory after
    /// the file systems were unmounted and synced. With an array, md makes each halt wait a second. Other devices stay, since
    /// their removal takes long.
    pub fn must_be_closed(&self) -> bool {
        self.nodes.iter().any(|node| {
            node.sort == md::ARRAY || !node.device.is_read_only() && !STATELESS.contains(&node.sort)
        })
    }

    /// Snapshots that were lost by writing, in words. Everything was written and synced.
    pub fn lost_snapshots(&self) -> impl Iterator<Item = String> + '_ {
        self.groups.iter().flat_map(lvm::Made::lost)
    }

    /// Whether a node, or one that it lies on, is so.
    fn is_or_lies_on(&self, index: usize, so: fn(&Node) -> bool) -> bool {
        let lies_on = |&other: &usize| other == index || self.ancestry.is_above(index, other);
        let mut found = (0..=index).filter(lies_on);
        found.any(|other| so(&self.nodes[other]))
    }

    /// Refuses to mount what the user does not want.
    pub fn check(&self, index: usize, context: &Context, write: bool) -> Result<()> {
        verity::check(self, index, context, write)
    }

    /// Whether it is in a disk's own partition table.
    pub fn is_partition_of_disk(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        let on_disk = |&below: &usize| self.nodes[below].below.is_empty();
        node.sort == PARTITION && node.below.iter().all(on_disk)
    }

    /// A name for a mapping that the kernel does not have yet. `purpose`: where one node needs several.
    pub fn mapping_name(&self, purpose: &str) -> String {
        format!("outboard-{}-{}{purpose}", self.number, self.nodes.len())
    }

    /// Adds a disk and its partitions.
    pub fn add_disk(&mut self, file: &Path, image: &Image, disk: &Disk) -> Result<usize> {
        let failed =
            |error: io::Error| Error::failed(format!("cannot use {}", file.display()), &error);
        let root = self.nodes.len();
        let table = image.partitions();
        self.push(Node {
            selector: Selector::Same,
            below: Vec::new(),
            sort: DISK,
            details: table.map_or(String::new(), |table| table.kind.name().to_owned()),
            device: disk.device(None).map_err(failed)?,
            size: image.size(),
            probe: image.whole.clone().filter(|_| table.is_none()),
            locked: false,
            problem: None,
            lack: None,
            file: Some(file.to_owned()),
        })?;
        let partitions = table.iter().flat_map(|table| &table.partitions);
        for partition in partitions.filter(|partition| !partition.extended) {
            // Others are those that the kernel does not see, as they lie outside.
            let Ok(device) = disk.device(Some(partition.number)) else {
                continue;
            };
            self.push(Node {
                selector: Selector::Within(partition.number.to_string()),
                below: vec![root],
                sort: PARTITION,
                details: String::new(),
                device,
                size: partition.size,
                probe: image.probe_partition(partition),
                locked: false,
                problem: None,
                lack: None,
                file: None,
            })?;
        }
        Ok(root)
    }

    /// Adds what a layer has opened.
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
        self.push(Node {
            selector,
            below: below.to_vec(),
            sort,
            details,
            device,
            size,
            probe: probed.ok().flatten(),
            locked: false,
            problem,
            lack: None,
            file: None,
        })
    }

    fn push(&mut self, node: Node) -> Result<usize> {
        if self.nodes.len() >= MOST {
            return Err(Error::Failed(format!("more than {MOST} volumes")));
        }
        self.ancestry.push(&node.below);
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    /// Opens what a name may mean, as far as that needs no question. `forced`: the user named the file system's type.
    pub fn open_for(
        &mut self,
        name: &ImageName,
        forced: bool,
        context: &mut Context,
    ) -> Result<()> {
        let selectors = names::selectors(name);
        if self.all || self.wanted.contains(&selectors) {
            return Ok(());
        }
        if !selectors.is_empty() {
            self.wanted.insert(selectors);
            self.open(context)?;
            let found = self.find(name, forced);
            if matches!(found, Ok(Meaning::FileSystem(_) | Meaning::Locked(_))) {
                return Ok(());
            }
        }
        self.open_all(context)
    }

    /// Opens all that can be opened without a question.
    pub fn open_all(&mut self, context: &mut Context) -> Result<()> {
        self.all = true;
        self.open(context)
    }

    fn open(&mut self, context: &mut Context) -> Result<()> {
        self.complete = false;
        loop {
            let before = self.nodes.len();
            for open in KINDS {
                open(self, context)?;
            }
            if self.nodes.len() > before {
                continue;
            }
            if self.complete {
                return Ok(());
            }
            self.complete = true;
        }
    }

    /// Asks for the key of a locked node, and opens what is in it.
    pub fn unlock(&mut self, index: usize, context: &mut Context) -> Result<()> {
        luks::unlock(self, index, context)?;
        self.open(context)
    }
}

impl Drop for Stack {
    /// What lies above goes first.
    fn drop(&mut self) {
        while self.nodes.pop().is_some() {}
        while self.groups.pop().is_some() {}
    }
}
