// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
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
