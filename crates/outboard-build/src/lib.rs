// SPDX-License-Identifier: GPL-2.0-only
//! Makes and changes disk images: file systems, partition tables, checks, sizes.
//!
//! The distribution's own tools do the work, each in a sandbox with the files that it needs, and
//! our kernel fills what they have made. A result takes the place of the image, or of a part of it,
//! only when it is complete.

// `plan` has as a value what is to be made. `mkfs` makes file systems, `part` partition tables, by
// the distribution's sfdisk (`sfdisk`). `fsck` checks a file system, `resize` changes its size with
// that of what holds it.

#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

#[doc(hidden)]
pub mod fsck;
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
