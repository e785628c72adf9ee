// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
// `plan` has as a value what is to be made. `mkfs` makes file systems, `part` partition tables, by
// the distribution's sfdisk (`sfdisk`). `fsck` checks a file system, `resize` changes its size with
// that of what holds it.
#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

#[doc(hidden)]
pub mod fsck;
mod megabytes;
mod mkfs;
#[doc(hidden)]
pub mod part;
mod plan;
#[doc(hidden)]
pub mod resize;
mod sfdisk;

pub use mkfs::VolumePlan;
pub use part::{NewPartition, NewTable, TablePlan};
pub use plan::DiskPlan;
