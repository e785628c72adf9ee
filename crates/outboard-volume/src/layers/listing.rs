// SPDX-License-Identifier: GPL-2.0-only
//! Volumes, for lists that users see.

use super::luks::ENCRYPTED;
use super::subvolumes::Subvolume;
use super::Stack;
use crate::address::ImageName;
use outboard_image::Probe;

/// A volume, or a locked one.
pub struct ListedVolume {
    pub name: ImageName,
    /// In words, as in "logical volume".
    pub sort: &'static str,
    pub details: String,
    /// The names of the volumes below.
    pub on: Vec<ImageName>,
    /// Bytes; `None` for a subvolume, which has no size of its own.
    pub size: Option<u64>,
    pub probe: Option<Probe>,
    pub locked: bool,
    /// Why the volume, or its contents, cannot be opened.
    pub problem: Option<String>,
}

impl ListedVolume {
    /// `None`: a disk or partition without a problem, which the partition table lists.
    pub(crate) fn of_node(stack: &Stack, index: usize) -> Option<Self> {
        let node = &stack.nodes()[index];
        let outer = node.below.is_empty() || stack.is_partition_of_disk(index);
        let shut = node.locked || node.problem.is_some();
        if outer && !shut {
            return None;
        }
        let on = node.below.iter().map(|&below| stack.image_name(below));
        Some(Self {
            name: stack.image_name(index),
            sort: match (&node.probe, outer) {
                _ if node.locked => ENCRYPTED,
                (Some(probe), true) => probe.kind,
                _ => node.sort,
            },
            details: node.details.clone(),
            on: on.collect(),
            size: Some(node.size),
            probe: node.probe.clone().filter(|_| !outer),
            locked: node.locked,
            problem: node.problem.clone(),
        })
    }

    pub(crate) fn of_subvolume(stack: &Stack, node: usize, subvolume: &Subvolume) -> Self {
        Self {
            name: stack.subvolume_name(node, subvolume),
            sort: if subvolume.snapshot {
                "snapshot"
            } else {
                "subvolume"
            },
            details: if subvolume.read_only {
                "read-only".to_owned()
            } else {
                String::new()
            },
            on: vec![stack.image_name(node)],
            size: None,
            probe: None,
            locked: false,
            problem: None,
        }
    }
}
