// SPDX-License-Identifier: GPL-2.0-only
//! File systems of btrfs on several devices: the kernel is told of all, and then any one of them can be mounted.

use super::{Context, Stack};
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// Tells the kernel of the devices. Those that lack others are not mounted.
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
        let wanted = first.probe.as_ref().map_or("", |probe| &probe.detail);
        let problem = (wanted.parse() != Ok(nodes.len())).then(|| {
            let here = nodes.len();
            format!(
                "a btrfs on {wanted} devices, of which {here} are here: add the others with --disk"
            )
        });
        for index in nodes {
            stack.node_mut(index).problem.clone_from(&problem);
        }
    }
    Ok(())
}
