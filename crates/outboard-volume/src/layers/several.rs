// SPDX-License-Identifier: GPL-2.0-only
//! File systems of btrfs on several devices. After all devices are registered, the kernel can mount
//! any one of them. If devices are missing, data with a copy on the others can be read.
//!
//! The kernel tells devices apart by the UUID of the file system and their number in it alone.
//! Devices that are copies of each other, and devices that the others went on without, never reach
//! it. If the kernel knows another copy of the whole file system, overlays in memory give a copy
//! that is only read another UUID.

use super::overlay::overlay;
pub use super::stack::RegisteredDevices;
use super::{Context, Stack};
use crate::uuid;
use outboard::BlockDevice;
use outboard_error::{reason, warn, Error, ErrorKind, Failure, Hint, Result};
use outboard_image::btrfs::{superblock_with_uuid, BtrfsMember, SUPERBLOCK};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io;

/// The devices of one file system, with their nodes.
type Devices = Vec<(usize, BtrfsMember)>;

/// Registers the devices with the kernel. Writing needs all of them: the others would go on alone.
pub fn open(stack: &mut Stack, context: &mut Context) -> Result<()> {
    for mut devices in file_systems(stack) {
        leave_out_old(stack, &mut devices);
        match twice(stack, &devices) {
            Some(problem) => {
                for (node, _) in devices {
                    stack.node_mut(node).problem = Some(problem.clone());
                }
            }
            None => register(stack, context, &devices)?,
        }
    }
    Ok(())
}

/// The devices of each file system that has several.
fn file_systems(stack: &mut Stack) -> Vec<Devices> {
    let mut found: BTreeMap<String, Devices> = BTreeMap::new();
    for index in stack.holding("btrfs") {
        let node = &stack.nodes()[index];
        let has_several = node
            .probe
            .as_ref()
            .is_some_and(|probe| !probe.detail.is_empty());
        if !has_several {
            continue;
        }
        match node
            .device
            .source()
            .and_then(|source| BtrfsMember::read(&source))
        {
            Ok(Some(member)) => {
                let devices = found.entry(member.file_system.clone()).or_default();
                devices.push((index, member));
            }
            Ok(None) => {}
            Err(error) => stack.node_mut(index).problem = Some(reason(&error)),
        }
    }
    found.into_values().collect()
}

/// Takes out devices that the others went on without. A crash may have happened between the writes
/// of one transaction to two devices.
fn leave_out_old(stack: &mut Stack, devices: &mut Devices) {
    let newest = devices.iter().map(|(_, member)| member.generation).max();
    let newest = newest.unwrap_or(0);
    let is_old = |member: &BtrfsMember| member.generation.saturating_add(1) < newest;
    for (node, member) in devices.iter().filter(|(_, member)| is_old(member)) {
        let problem = format!(
            "an old device of its btrfs, which went on without it: its last transaction is {}, \
             that of the others {newest}",
            member.generation
        );
        if stack.nodes()[*node].problem.as_ref() != Some(&problem) {
            warn(format!("warning: {}: {problem}", stack.name(*node)));
            stack.node_mut(*node).problem = Some(problem);
        }
    }
    devices.retain(|(_, member)| !is_old(member));
}

/// Says so if two devices have the same number.
fn twice(stack: &Stack, devices: &Devices) -> Option<String> {
    let mut numbers = BTreeMap::new();
    devices.iter().find_map(|(node, member)| {
        let other = numbers.insert(member.number, *node)?;
        Some(format!(
            "{} and {} are both device {} of one btrfs: one is a copy of the other; {ADVICE}",
            stack.name(other),
            stack.name(*node),
            member.number
        ))
    })
}

/// Advice about two copies of one file system.
const ADVICE: &str = "use each copy in a command of its own, or give one another UUID with \
                      btrfstune -u";

/// The identity of a device for the kernel.
fn key(member: &BtrfsMember) -> (String, u64) {
    (member.file_system.clone(), member.number)
}

/// Whether the kernel knows a copy of these devices.
fn has_copy(stack: &Stack, context: &Context, devices: &Devices) -> bool {
    devices.iter().any(|(node, member)| {
        let known = context.registered.get(&key(member));
        known.is_some_and(|known| *known != stack.name(*node))
    })
}

/// A device with the contents of this one, but for another UUID of the file system: one for all of
/// its devices in this stack. `None`: the superblock cannot be changed.
fn stand_in(
    stack: &Stack,
    context: &Context,
    node: usize,
    member: &BtrfsMember,
) -> io::Result<Option<BlockDevice>> {
    let device = &stack.nodes()[node].device;
    let name = format!("{}\0{}", member.file_system, stack.number);
    let uuid = uuid::hash(name.as_bytes()).to_be_bytes();
    let Some(superblock) = superblock_with_uuid(&device.source()?, uuid)? else {
        return Ok(None);
    };
    let mapping = stack.mapping_name(&format!("-{node}"));
    let made = overlay(context.kernel, &mapping, device)?;
    made.open_as(true)?.write_all_at(&superblock, SUPERBLOCK)?;
    Ok(Some(made))
}

/// Makes the kernel take a file system that is only read for another one than its copy.
fn set_apart(stack: &mut Stack, context: &Context, devices: &Devices) -> Result<()> {
    for (node, member) in devices {
        if stack.nodes()[*node].stand_in.is_none() {
            let made = stand_in(stack, context, *node, member).map_err(|error| {
                Error::failed(format!("cannot use {}", stack.name(*node)), &error)
            })?;
            stack.node_mut(*node).stand_in = made;
        }
    }
    Ok(())
}

fn register(stack: &mut Stack, context: &mut Context, devices: &Devices) -> Result<()> {
    if context.read_only && has_copy(stack, context, devices) {
        set_apart(stack, context, devices)?;
    }
    for (node, member) in devices {
        let (shown, key) = (stack.name(*node), key(member));
        let node = &stack.nodes()[*node];
        let registered = context.kernel.register_btrfs(node.mountable());
        registered.map_err(|error| refused(&shown, context.registered.get(&key), &error))?;
        if node.stand_in.is_none() {
            context.registered.insert(key, shown);
        }
    }
    let Some((first, _)) = devices.first() else {
        return Ok(());
    };
    let probe = stack.nodes()[*first].probe.as_ref();
    let wanted = probe.and_then(|probe| probe.detail.parse().ok());
    let (here, wanted) = (devices.len(), wanted.unwrap_or(0));
    let words = format!("a btrfs on {wanted} devices, of which {here} are here");
    let incomplete = here < wanted;
    let (lack, problem) = match here.cmp(&wanted) {
        Ordering::Equal => (None, None),
        Ordering::Less if context.read_only => (Some(words), None),
        _ => (
            None,
            Some(format!("{words}: add the others{}", Hint::AddDisks)),
        ),
    };
    for (node, _) in devices {
        let node = stack.node_mut(*node);
        node.lack.clone_from(&lack);
        node.problem.clone_from(&problem);
        node.incomplete = incomplete && problem.is_some();
    }
    Ok(())
}

/// The error of a device that the kernel refuses. `known`: the device with the same identity that
/// it knows.
fn refused(shown: &str, known: Option<&String>, error: &io::Error) -> Error {
    if error.raw_os_error() != Some(libc::EEXIST) {
        return Error::failed(format!("cannot use {shown}"), error);
    }
    let other = known.map_or("another device of this command", String::as_str);
    let text = format!(
        "cannot use {shown} beside {other}: both are the same device of one btrfs, by its UUID, so \
         that one is a copy of the other; {ADVICE}"
    );
    Failure::of(error).with_text(ErrorKind::InUse, text).into()
}
