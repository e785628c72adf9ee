// SPDX-License-Identifier: GPL-2.0-only
//! File systems of btrfs on several devices. After all devices are registered, the kernel can mount
//! any one of them. If devices are missing, data with a copy on the others can be read.

use super::{Context, Stack};
use outboard_sandbox::error::{Error, Result};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Registers the devices with the kernel. Writing needs all of them: the others would go on alone.
pub fn open(stack: &mut Stack, context: &mut Context) -> Result<()> {
    let mut file_systems: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for index in stack.holding("btrfs") {
        let probe = stack.nodes()[index].probe.as_ref();
        let several = probe.filter(|probe| !probe.detail.is_empty());
        if let Some(uuid) = several.and_then(|probe| probe.uuid.clone()) {
            file_systems.entry(uuid).or_default().push(index);
        }
    }
    for nodes in file_systems.into_values() {
        for &index in &nodes {
            let device = &stack.nodes()[index].device;
            context.kernel.register_btrfs(device).map_err(|error| {
                Error::failed(format!("cannot use {}", stack.name(index)), &error)
            })?;
        }
        let first = &stack.nodes()[nodes[0]];
        let wanted = first
            .probe
            .as_ref()
            .and_then(|probe| probe.detail.parse().ok());
        let (here, wanted) = (nodes.len(), wanted.unwrap_or(0));
        let words = format!("a btrfs on {wanted} devices, of which {here} are here");
        let incomplete = here < wanted;
        let (lack, problem) = match here.cmp(&wanted) {
            Ordering::Equal => (None, None),
            Ordering::Less if context.read_only => (Some(words), None),
            _ => (None, Some(format!("{words}: add the others with --disk"))),
        };
        for index in nodes {
            let node = stack.node_mut(index);
            node.lack.clone_from(&lack);
            node.problem.clone_from(&problem);
            node.incomplete = incomplete && problem.is_some();
        }
    }
    Ok(())
}
