// SPDX-License-Identifier: GPL-2.0-only
//! Volume groups of LVM: finds them in a stack, and adds the logical volumes that are wanted. The
//! devices of a volume are made by [`activation`].

mod activation;

use super::{Context, Selector, Stack};
use activation::Activation;
use outboard::image::lvm::{LogicalVolume, PhysicalVolume, Segment, SegmentKind, VolumeGroup};
use outboard::BlockDevice;
use outboard_error::{reason, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A group, and the nodes of its physical volumes.
struct GroupNodes {
    group: VolumeGroup,
    /// Its unique name here: another group may have the same name.
    name: String,
    /// Nodes by the names of physical volumes in segments.
    nodes: BTreeMap<String, usize>,
}

/// Devices that were created for one group. Each volume is mapped once: a second mapping would not
/// see writes of the first one, and a second thin pool would undo them.
#[derive(Default)]
pub struct Made {
    group: String,
    /// Devices by the names in segments.
    volumes: HashMap<String, BlockDevice>,
    snapshots: HashMap<String, BlockDevice>,
    /// All devices, each after the ones below it.
    order: Vec<BlockDevice>,
    /// Number of mapping names used.
    count: usize,
}

impl Made {
    /// Takes the devices of a group out of a stack. Also returns their place there.
    fn take(stack: &mut Stack, group: &str) -> (usize, Self) {
        let known = stack.groups.iter().position(|made| made.group == group);
        let place = known.unwrap_or(stack.groups.len());
        if known.is_none() {
            stack.groups.push(Self::default());
        }
        let mut made = std::mem::take(&mut stack.groups[place]);
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

/// Opens the logical volumes of all groups.
pub fn open(stack: &mut Stack, context: &mut Context) -> Result<()> {
    for found in groups(stack) {
        open_group(stack, context, &found)?;
    }
    Ok(())
}

/// Reads the physical volumes, and takes the newest description of each group.
fn groups(stack: &mut Stack) -> Vec<GroupNodes> {
    let mut nodes = HashMap::new();
    let mut newest: BTreeMap<String, VolumeGroup> = BTreeMap::new();
    for index in stack.holding("LVM2_member") {
        let source = stack.nodes()[index].device.source();
        let volume = match source.and_then(|source| PhysicalVolume::read(&source)) {
            Ok(Some(volume)) => volume,
            Ok(None) => continue,
            Err(error) => {
                stack.node_mut(index).problem = Some(reason(&error));
                continue;
            }
        };
        if let Some(&other) = nodes.get(&volume.id) {
            let other = stack.name(other);
            let problem = format!("{other} has the same identifier: one is a copy of the other");
            stack.node_mut(index).problem = Some(problem);
            continue;
        }
        if volume.group.is_none() && volume.damaged {
            stack.node_mut(index).problem = Some("its LVM metadata is damaged".to_owned());
        }
        nodes.insert(volume.id, index);
        let Some(group) = volume.group else { continue };
        match newest.get(&group.id) {
            Some(known) if known.sequence >= group.sequence => {}
            _ => drop(newest.insert(group.id.clone(), group)),
        }
    }
    let mut names = BTreeSet::new();
    let found = |group: VolumeGroup| GroupNodes {
        name: if names.insert(group.name.clone()) {
            group.name.clone()
        } else {
            format!("{}-{}", group.name, group.id)
        },
        nodes: group
            .physical
            .iter()
            .filter(|(_, place)| !place.missing)
            .filter_map(|(name, place)| Some((name.clone(), *nodes.get(&place.id)?)))
            .collect(),
        group,
    };
    newest.into_values().map(found).collect()
}

/// Whether a volume is visible to users. A snapshot has the name of its store, the volume with its
/// changes.
fn is_offered(stores: &HashSet<&str>, name: &str, volume: &LogicalVolume) -> bool {
    let is_inner = |segment: &Segment| match &segment.kind {
        SegmentKind::ThinPool { .. } | SegmentKind::Snapshot { .. } => true,
        SegmentKind::Other(kind) => kind.contains("-pool"),
        _ => false,
    };
    let is_inner = volume.segments.iter().any(is_inner);
    !is_inner && volume.visible || stores.contains(name)
}

fn open_group(stack: &mut Stack, context: &Context, found: &GroupNodes) -> Result<()> {
    let group = &found.group;
    let is_whole = found.nodes.len() == group.physical.len();
    if !is_whole && !stack.complete {
        return Ok(());
    }
    let stores = group.snapshots().map(|(_, segment)| segment.kind.store());
    let stores: HashSet<&str> = stores.flatten().collect();
    let (place, made) = Made::take(stack, &group.id);
    let mut activation = Activation::new(stack, context, found, place, made);
    let mut opened = Vec::new();
    let mut problems = Vec::new();
    for (name, volume) in &group.logical {
        let full_name = format!("{}/{name}", found.name);
        let wanted = is_offered(&stores, name, volume) && stack.wants(&full_name);
        let selector = Selector::Whole(full_name);
        if !wanted || stack.has(&selector) {
            continue;
        }
        match activation.shown(name) {
            Ok(device) => opened.push((name, selector, device)),
            Err(problem) => problems.push(format!("{}/{name}: {problem}", found.name)),
        }
    }
    stack.groups[place] = activation.made;
    for (name, selector, device) in opened {
        let mut below: Vec<usize> = group
            .physical_below(name)
            .iter()
            .filter_map(|name| found.nodes.get(*name).copied())
            .collect();
        if below.is_empty() {
            below.extend(found.nodes.values().next());
        }
        let details = kind_of(group, name).to_owned();
        stack.add(&below, "logical volume", selector, details, device)?;
    }
    let problem = (!problems.is_empty()).then(|| problems.join("\n  "));
    if let Some(&first) = found.nodes.values().next() {
        let node = stack.node_mut(first);
        node.incomplete = !is_whole && problem.is_some();
        node.problem = problem;
    }
    Ok(())
}

fn kind_of<'a>(group: &'a VolumeGroup, name: &str) -> &'a str {
    if group.snapshot_stored_in(name).is_some() {
        return "snapshot";
    }
    let segments = group.logical.get(name).map(|volume| &volume.segments);
    let first = segments.and_then(|segments| segments.first());
    first.map_or("", |segment| segment.kind.name())
}

/// The message about a snapshot that is lost, because its store is full.
pub fn lost(store: &str, snapshot: &BlockDevice) -> Option<String> {
    let status = snapshot.status().unwrap_or_default();
    let lost = status.starts_with("Invalid") || status.starts_with("Overflow");
    lost.then(|| format!("the snapshot {store} had no more room, and is lost"))
}
