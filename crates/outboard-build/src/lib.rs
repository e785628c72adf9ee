// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
// `build` is for programs of any kind. `plan` has as a value what is to be made. `mkfs` makes file
// systems, `part` partition tables. `table_writer` writes tables: by the distribution's sfdisk
// (`sfdisk`), or itself where sfdisk cannot (`gpt`). `fsck` checks a file system, `resize` changes
// its size with that of what holds it. `oci` makes file systems (`erofs`) of images of containers.
#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod build;
mod erofs;
#[doc(hidden)]
pub mod fsck;
mod gpt;
mod megabytes;
mod mkfs;
#[doc(hidden)]
pub mod oci;
#[doc(hidden)]
pub mod part;
mod plan;
#[doc(hidden)]
pub mod resize;
mod sfdisk;
mod table_writer;

pub use build::{Build, Result};
pub use fsck::{CheckMode, CheckOutcome, CheckPlan, CheckedVolume};
pub use mkfs::VolumePlan;
#[doc(inline)]
pub use outboard::Cancel;
#[doc(inline)]
pub use outboard_error::{ErrorKind, Failure as Error};
#[doc(inline)]
pub use outboard_image::partition::TableKind;
#[doc(inline)]
pub use outboard_transfer::Count;
#[doc(inline)]
pub use outboard_volume::Options;
pub use part::{NewPartition, NewTable, TablePlan};
pub use plan::DiskPlan;
pub use resize::{ResizedVolume, SizeChange};
