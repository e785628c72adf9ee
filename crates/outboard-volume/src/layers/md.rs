// SPDX-License-Identifier: GPL-2.0-only
//! RAID arrays of md: the members of an array become one block device.
//!
//! An array is opened once all its members are found, or with missing members once no more nodes
//! are found. Writing needs as many members as the last use had. Otherwise a disk that was only
//! forgotten on the command line would be outdated, and need a rebuild. Reading writes nothing: a
//! member with a log, which the kernel would write, gets an overlay (see [`overlay`]).
//!
//! An outdated member, without which the others went on, is never opened, not even alone.

use super::names::selector_of;
use super::overlay::overlay;
use super::{Attempt, Context, Selector, Stack};
use outboard::image::md::{ArrayMember, MemberRole};
use outboard::BlockDevice;
use outboard_error::format::escaped;
use outboard_error::{reason, warn, Hint, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

pub const ARRAY: &str = "RAID array";

/// Members of one array with their nodes: current ones, the newest first, and outdated ones.
struct ArrayMembers {
    members: Vec<(usize, ArrayMember)>,
    old: Vec<usize>,
}

/// Opens the requested arrays. The kernel writes to members with logs as soon as a writable array
/// runs.
pub fn open(stack: &mut Stack, context: &mut Context) -> Result<()> {
    for found in arrays(stack) {
        found.leave_out_old(stack);
        let nodes: Vec<usize> = found.members.iter().map(|(node, _)| *node).collect();
        let missing = found.missing();
        let wait = !missing.is_empty() && !stack.complete;
        let open = nodes.iter().any(|&node| stack.is_opened(node));
        let selector = found.selector(stack);
        if wait || open || !stack.wants(&selector) {
            continue;
        }
        match found.assemble(stack, context, &missing) {
            Ok(device) => {
                let (selector, details) = (Selector::Whole(selector), found.details());
                stack.add(&nodes, ARRAY, selector, details, device)?;
            }
            Err(problem) => {
                let node = stack.node_mut(nodes[0]);
                node.problem = Some(problem);
                node.incomplete = !missing.is_empty();
            }
        }
    }
    for (kind, owner) in [
        ("isw_raid_member", "Intel's firmware (IMSM)"),
        ("ddf_raid_member", "the firmware (DDF)"),
    ] {
        for index in stack.unopened(kind) {
            stack.node_mut(index).problem =
                Some(format!("a RAID of {owner}, which cannot be opened"));
        }
    }
    Ok(())
}

/// Members by array, also of open arrays.
fn arrays(stack: &mut Stack) -> Vec<ArrayMembers> {
    let mut arrays: BTreeMap<(String, &str), Vec<(usize, ArrayMember)>> = BTreeMap::new();
    for index in stack.holding("linux_raid_member") {
        let source = stack.nodes()[index].device.source();
        match source.and_then(|source| ArrayMember::read(&source)) {
            Ok(Some(member)) => {
                let key = (member.uuid.clone(), member.version.name());
                arrays.entry(key).or_default().push((index, member));
            }
            Ok(None) => {}
            Err(error) => stack.node_mut(index).problem = Some(reason(&error)),
        }
    }
    let found = |mut members: Vec<(usize, ArrayMember)>| {
        members.sort_by_key(|(_, member)| std::cmp::Reverse(member.events));
        let newest = members[0].1.events;
        // A crash may have happened between the writes to two members.
        let current =
            |(_, member): &(usize, ArrayMember)| member.events.saturating_add(1) >= newest;
        let (members, old): (Vec<_>, Vec<_>) = members.into_iter().partition(current);
        // A spare has no contents; a member marked faulty needs no warning.
        let in_use =
            |(_, member): &(usize, ArrayMember)| matches!(member.role, MemberRole::Active(_));
        let old = old
            .into_iter()
            .filter(in_use)
            .map(|(node, _)| node)
            .collect();
        ArrayMembers { members, old }
    };
    arrays.into_values().map(found).collect()
}

impl ArrayMembers {
    fn newest(&self) -> &ArrayMember {
        &self.members[0].1
    }

    /// Warns once about members that are not opened.
    fn leave_out_old(&self, stack: &mut Stack) {
        let problem = format!(
            "an old member of {}: the array went on without it",
            self.name()
        );
        for &node in &self.old {
            if stack.nodes()[node].problem.is_none() && !stack.is_opened(node) {
                warn(format!("warning: {}: {problem}", stack.name(node)));
                stack.node_mut(node).problem = Some(problem.clone());
            }
        }
    }

    /// The roles of present members.
    fn present(&self) -> BTreeSet<u32> {
        let place = |(_, member): &(usize, ArrayMember)| match member.role {
            MemberRole::Active(place) => Some(place),
            _ => None,
        };
        self.members.iter().filter_map(place).collect()
    }

    /// The roles whose members were present at the array's last use, and are missing now.
    fn missing(&self) -> BTreeSet<u32> {
        let present = self.present();
        self.newest().active.difference(&present).copied().collect()
    }

    fn name(&self) -> String {
        escaped(self.newest().array_name().as_bytes())
    }

    fn selector(&self, stack: &Stack) -> String {
        let name = selector_of(&self.newest().array_name());
        if stack.has(&Selector::Whole(name.clone())) {
            // Arrays of two machines may have the same name.
            format!("{name}-{}", self.newest().uuid)
        } else {
            name
        }
    }

    /// Two disks with the same place in the array.
    fn twice(&self) -> Option<(usize, usize, u32)> {
        let mut places = BTreeMap::new();
        self.members.iter().find_map(|(node, member)| {
            let MemberRole::Active(place) = member.role else {
                return None;
            };
            let other = places.insert(place, *node)?;
            Some((other, *node, place))
        })
    }

    fn details(&self) -> String {
        let newest = self.newest();
        format!(
            "RAID{}, {} of {} members",
            newest.level,
            self.present().len(),
            newest.places
        )
    }

    /// Why the array cannot be opened, as far as superblocks show that.
    fn check(&self, missing: &BTreeSet<u32>, read_only: bool) -> Attempt<()> {
        let (newest, name) = (self.newest(), self.name());
        if !matches!(newest.level, 0 | 1 | 4 | 5 | 6 | 10) {
            let level = newest.level;
            return Err(format!(
                "the array {name} is of level {level}, which is not supported"
            ));
        }
        if newest.clustered {
            return Err(format!(
                "the array {name} is shared by a cluster of machines"
            ));
        }
        if newest.reshaping && !read_only {
            return Err(format!(
                "the array {name} is being reshaped: let its machine finish that, or {}",
                Hint::ReadOnly
            ));
        }
        let present = self.present();
        let few = format!(
            "the array {name} has {} of {} members here: add the other disks{}",
            present.len(),
            newest.places,
            Hint::AddDisks
        );
        if !newest.works_with(&present) {
            return Err(few);
        }
        if !missing.is_empty() && !read_only {
            return Err(format!("{few}, or {}", Hint::ReadOnly));
        }
        Ok(())
    }

    fn assemble(
        &self,
        stack: &Stack,
        context: &Context,
        missing: &BTreeSet<u32>,
    ) -> Attempt<BlockDevice> {
        self.check(missing, context.read_only)?;
        if let Some((one, other, place)) = self.twice() {
            return Err(format!(
                "{} and {} are both member {place} of the array {}: one is a copy of the other; \
                 use them in commands of their own",
                stack.name(one),
                stack.name(other),
                self.name()
            ));
        }
        let useful = |(_, member): &&(usize, ArrayMember)| {
            matches!(member.role, MemberRole::Active(_) | MemberRole::Journal)
        };
        let overlaid = context.read_only && self.newest().logs;
        let members = self.members.iter().filter(useful).map(|(node, _)| {
            let device = &stack.nodes()[*node].device;
            if overlaid {
                overlay(
                    context.kernel,
                    &stack.mapping_name(&format!("-{node}")),
                    device,
                )
            } else {
                Ok(device.clone())
            }
        });
        let version = self.newest().version.numbers();
        let device = members
            .collect::<io::Result<Vec<BlockDevice>>>()
            .and_then(|members| {
                context
                    .kernel
                    .assemble(version, &members, context.read_only)
            })
            .map_err(|error| format!("cannot run the array {}: {}", self.name(), reason(&error)))?;
        if self.present().len() < self.newest().places as usize {
            warn(format!(
                "warning: the array {} is degraded: {}",
                self.name(),
                self.details()
            ));
        }
        Ok(device)
    }
}
