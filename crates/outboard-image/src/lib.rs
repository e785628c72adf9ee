// SPDX-License-Identifier: GPL-2.0-only
//! Finds the contents of a disk image from its bytes alone: no kernel is needed.
//!
//! [`probe`] recognises what is in a disk or partition by its superblock;
//! [`partition::read_table`] reads a partition table. Images come from strangers: every read is
//! bounds-checked, every loop has a limit, and nothing panics.

#![warn(missing_docs)]

mod block;
pub mod btrfs;
mod crc;
mod fault;
pub mod hfsplus;
pub mod integrity;
pub mod luks;
pub mod lvm;
pub mod md;
pub mod ntfs;
pub mod partition;
mod probe;
pub mod qcow2;
mod source;
pub mod vdi;
pub mod verity;
pub mod vhd;

pub use fault::Fault;
pub use probe::{file_format, leading_format, probe, Class, Probe, State};
pub use source::{FileSource, Slice, Source};
