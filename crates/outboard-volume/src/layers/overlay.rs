// SPDX-License-Identifier: GPL-2.0-only
//! Writable devices over devices that must not change: written blocks stay in memory, and vanish
//! with the overlay.
//!
//! Some drivers write even when the user only reads. They write little.

use crate::memory_disk::MemoryDisk;
use outboard::{BlockDevice, DiskOptions, Kernel, Target};
use std::io;
use std::sync::Arc;

/// Most bytes of the changes of one overlay.
const MOST: u64 = 64 << 20;
/// Size of the disk that holds the changes.
const SIZE: u64 = 1 << 30;
/// Sectors of a chunk of the snapshot target.
const CHUNK: u64 = 8;

/// A writable device with the contents of `below`.
pub fn overlay(kernel: &Kernel, name: &str, below: &BlockDevice) -> io::Result<BlockDevice> {
    let changes = kernel
        .add_served_disk(
            Arc::new(MemoryDisk::empty(SIZE, MOST)),
            DiskOptions::read_write(),
        )?
        .device(None)?;
    let target = Target {
        start: 0,
        size: below.size()? / 512,
        kind: "snapshot",
        parameters: format!("{} {} N {CHUNK}", below.number(), changes.number()),
    };
    kernel.map(name, false, &[target], &[below.clone(), changes])
}
