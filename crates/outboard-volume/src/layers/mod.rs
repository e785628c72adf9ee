// SPDX-License-Identifier: GPL-2.0-only
//! Layers between a disk and its file systems: encryption, volume groups, RAID, checked blocks.
//!
//! A [`Stack`] has all volumes in the disks of one machine. Its nodes are block devices of the
//! kernel: first disks and their partitions, then the devices that each kind of layer opens, until
//! no new node appears. A node lies on earlier nodes. Each kind of layer is a module with a
//! function of type `Open`. [`names`] finds the node of a name.

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
pub mod several;
mod stack;
pub mod subvolumes;
mod verity;

pub use stack::{open_partition, Context, Selector, Stack, StackNode};

use crate::address::ImageName;
use names::Meaning;
use outboard_error::Result;
use stack::{Attempt, DISK, PARTITION};

/// Kinds of nodes that have no written data in memory.
const STATELESS: [&str; 4] = [DISK, PARTITION, luks::ENCRYPTED, verity::VERIFIED];

/// Opens one kind of layer in the nodes of a stack, and adds the new nodes. It is called again when
/// other kinds have added nodes. A node that cannot be opened gets the reason as its `problem`.
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

impl Stack {
    /// Whether the stack must be closed before the kernel halts. A writable device may have data in
    /// memory after the file systems were unmounted and synced. An open array makes each halt wait
    /// a second. Other devices stay, because their removal takes long.
    pub fn must_be_closed(&self) -> bool {
        self.nodes.iter().any(|node| {
            node.sort == md::ARRAY || !node.device.is_read_only() && !STATELESS.contains(&node.sort)
        })
    }

    /// Refuses to mount data that the root hash of --verity does not cover.
    pub fn check(&self, index: usize, context: &Context, write: bool) -> Result<()> {
        verity::check(self, index, context, write)
    }

    /// Opens the volumes that a name may mean, without asking for keys. `forced`: the user named
    /// the file system's type.
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

    /// Opens all volumes that need no question for a key.
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

    /// Asks for the key of a locked node, and opens its contents.
    pub fn unlock(&mut self, index: usize, context: &mut Context) -> Result<()> {
        luks::unlock(self, index, context)?;
        self.open(context)
    }
}
