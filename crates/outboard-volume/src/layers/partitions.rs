// SPDX-License-Identifier: GPL-2.0-only
//! Partition tables inside of volumes, arrays and encrypted disks. The kernel looks for tables on
//! disks only.

use super::{Attempt, Context, Selector, Stack, PARTITION};
use outboard::{BlockDevice, Target};
use outboard_error::{reason, Result};
use outboard_image::partition::{read_table, Partition};
use outboard_image::Source;
use std::io;

/// The device mapper's unit.
const SECTOR: u64 = 512;

/// The partitions of a device that lie inside of it.
fn partitions(device: &BlockDevice) -> io::Result<Vec<Partition>> {
    let source = device.source()?;
    let lies_inside = |partition: &Partition| {
        let end = partition.start.checked_add(partition.size);
        partition.size >= SECTOR && end.is_some_and(|end| end <= source.size())
    };
    let table = read_table(&source)?;
    let all = table.into_iter().flat_map(|table| table.partitions);
    let usable = all.filter(|partition| !partition.extended);
    Ok(usable.filter(lies_inside).collect())
}

fn map(
    stack: &Stack,
    on: &BlockDevice,
    partition: &Partition,
    context: &Context,
) -> Attempt<BlockDevice> {
    let table = [Target {
        start: 0,
        size: partition.size / SECTOR,
        kind: "linear",
        parameters: format!("{} {}", on.number(), partition.start / SECTOR),
    }];
    let name = stack.mapping_name("");
    let mapped = context
        .kernel
        .map(&name, context.read_only, &table, std::slice::from_ref(on));
    mapped.map_err(|error| {
        let why = reason(&error);
        format!("partition {} cannot be used: {why}", partition.number)
    })
}

/// Whether a node may have a partition table that is not read yet.
fn may_have_some(stack: &Stack, index: usize) -> bool {
    let node = &stack.nodes()[index];
    let is_disk = node.below.is_empty();
    !is_disk && node.probe.is_none() && node.problem.is_none() && !stack.is_opened(index)
}

pub fn open(stack: &mut Stack, context: &mut Context) -> Result<()> {
    for index in 0..stack.nodes().len() {
        if !may_have_some(stack, index) {
            continue;
        }
        let device = stack.nodes()[index].device.clone();
        let found = match partitions(&device) {
            Ok(found) => found,
            Err(error) => {
                stack.node_mut(index).problem = Some(reason(&error));
                continue;
            }
        };
        for partition in found {
            let selector = Selector::Within(partition.number.to_string());
            match map(stack, &device, &partition, context) {
                Ok(mapped) => {
                    stack.add(&[index], PARTITION, selector, String::new(), mapped)?;
                }
                Err(problem) => stack.node_mut(index).problem = Some(problem),
            }
        }
    }
    Ok(())
}
