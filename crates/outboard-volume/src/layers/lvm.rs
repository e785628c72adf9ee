// SPDX-License-Identifier: GPL-2.0-only
//! Volume groups of LVM: finds them in a stack, and adds the logical volumes that are wanted. The
//! devices of a volume are made by [`activation`].

mod activation;
pub mod made;

use super::{Context, Selector, Stack};
use activation::Activation;
use made::{GroupNodes, Made};
use outboard::image::lvm::{LogicalVolume, PhysicalVolume, Segment, SegmentKind, VolumeGroup};
use outboard_error::{reason, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

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
    let (place, made) = Made::take(&mut stack.groups, &group.id);
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
