// SPDX-License-Identifier: GPL-2.0-only
//! A volume group in a stack, and the devices that were created for it.

use outboard::image::lvm::VolumeGroup;
use outboard::BlockDevice;
use std::collections::{BTreeMap, HashMap};

/// A group, and the nodes of its physical volumes.
pub struct GroupNodes {
    pub group: VolumeGroup,
    /// Its unique name here: another group may have the same name.
    pub name: String,
    /// Nodes by the names of physical volumes in segments.
    pub nodes: BTreeMap<String, usize>,
}

/// Devices that were created for one group. Each volume is mapped once: a second mapping would not
/// see writes of the first one, and a second thin pool would undo them.
#[derive(Default)]
pub struct Made {
    pub group: String,
    /// Devices by the names in segments.
    pub volumes: HashMap<String, BlockDevice>,
    pub snapshots: HashMap<String, BlockDevice>,
    /// All devices, each after the ones below it.
    pub order: Vec<BlockDevice>,
    /// Number of mapping names used.
    pub count: usize,
}

impl Made {
    /// Takes the devices of a group out of those of a stack. Also returns their place there.
    pub fn take(groups: &mut Vec<Self>, group: &str) -> (usize, Self) {
        let known = groups.iter().position(|made| made.group == group);
        let place = known.unwrap_or(groups.len());
        if known.is_none() {
            groups.push(Self::default());
        }
        let mut made = std::mem::take(&mut groups[place]);
        group.clone_into(&mut made.group);
        (place, made)
    }

    /// Messages about lost snapshots.
    pub fn lost(&self) -> impl Iterator<Item = String> + '_ {
        self.snapshots
            .iter()
            .filter_map(|(name, device)| lost(name, device))
    }
}

impl Drop for Made {
    /// Upper devices are removed first.
    fn drop(&mut self) {
        self.volumes.clear();
        self.snapshots.clear();
        while self.order.pop().is_some() {}
    }
}

/// The message about a snapshot that is lost, because its store is full.
pub fn lost(store: &str, snapshot: &BlockDevice) -> Option<String> {
    let status = snapshot.status().unwrap_or_default();
    let lost = status.starts_with("Invalid") || status.starts_with("Overflow");
    lost.then(|| format!("the snapshot {store} had no more room, and is lost"))
}
