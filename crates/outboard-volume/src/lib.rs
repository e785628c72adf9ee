// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
// A name such as `laptop.qcow2@3@@home` (address) leads to an image file (image_file, held), the
// disk in it (containers: qcow2 and others), its partitions (image), the layers in those (layers:
// LUKS, LVM, MD, dm-verity, dm-integrity, subvolumes), and a mounted file system. A session does
// all of this with one kernel, in the sandbox. A name such as `nfs://server/export` (remote) leads
// to a server. Tools of the distribution get a volume as a file (tool_volume, export); what they
// change in place can be undone (scratch, undo).
#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod address;
mod aside;
#[doc(hidden)]
pub mod container_image;
#[doc(hidden)]
pub mod containers;
#[doc(hidden)]
pub mod control_socket;
#[doc(hidden)]
pub mod destination;
mod disk;
mod disk_contents;
#[cfg(feature = "export")]
#[doc(hidden)]
pub mod export;
#[doc(hidden)]
pub mod held;
#[doc(hidden)]
pub mod host_bind;
#[doc(hidden)]
pub mod host_mounts;
#[doc(hidden)]
pub mod image;
#[doc(hidden)]
pub mod image_file;
#[doc(hidden)]
pub mod image_lock;
#[doc(hidden)]
pub mod layers;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod loop_devices;
mod memory_disk;
#[doc(hidden)]
pub mod new_image;
#[doc(hidden)]
pub mod new_overlay;
#[doc(hidden)]
pub mod octal;
mod opened_disk;
#[doc(hidden)]
pub mod options;
pub mod overlay_file;
mod port_gates;
#[doc(hidden)]
pub mod program;
#[doc(hidden)]
pub mod remote;
#[doc(hidden)]
pub mod scratch;
#[doc(hidden)]
pub mod server_ends;
#[doc(hidden)]
pub mod servers;
#[doc(hidden)]
pub mod session;
#[doc(hidden)]
pub mod snapshots;
#[doc(hidden)]
pub mod standard_input;
#[doc(hidden)]
pub mod stream_output;
#[doc(hidden)]
pub mod temporary;
#[cfg(feature = "export")]
#[doc(hidden)]
pub mod tool_volume;
#[doc(hidden)]
pub mod undo;
#[doc(hidden)]
pub mod uuid;
mod volume;
mod volume_options;

pub use disk::Disk;
pub use disk_contents::VolumeEntry;
pub use opened_disk::Result;
#[doc(inline)]
pub use options::RootHash;
#[doc(inline)]
pub use outboard::{
    AnyTree, Cancel, Deadline, DirEntry, File, FileType, Files, HostTree, Metadata, OpenOptions,
    ReadDir, Space, Stopped, Tree, WalkEntry,
};
#[doc(inline)]
pub use outboard_error::{ErrorKind, Failure as Error, Hint};
#[doc(inline)]
pub use outboard_image::partition::{Partition, Table, TableKind};
pub use volume::Volume;
pub use volume_options::Options;
