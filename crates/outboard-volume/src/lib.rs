// SPDX-License-Identifier: GPL-2.0-only
//! Disk images as programs use them: [`Volume`] opens a file system in an image by its name,
//! whatever lies between the two.
//!
//! ```no_run
//! use outboard_volume::{Options, Volume};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let disk = Volume::open_writable("laptop.qcow2@3@@home", Options::new().key_file("key"))?;
//! let motd = disk.read_to_string("/etc/motd")?;
//! disk.write("/etc/motd", motd + "Hello\n")?;
//! disk.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Disk`] is an image that is opened once: it lists its partitions and volumes, and several of
//! them can be open at a time, in one kernel.
//!
//! Images are raw, compressed (gzip, xz, zstd), qcow2, vhd, vmdk, vdi or vhdx. In them can be
//! partitions, LUKS, LVM, MD RAID, dm-verity, dm-integrity and subvolumes of btrfs. The kernel's
//! own code, which runs in this process, does the rest. No root, no daemon, no device of the host
//! is needed.
//!
//! Errors of opening, syncing and closing are [`Error`]. Those of files are [`std::io::Error`];
//! [`ErrorKind::of`] returns their kind, and each converts into the other.
//!
//! A kernel that works on an image of a stranger can be taken over by it, and with it the process:
//! the program `outboard` sandboxes itself, this library does not. Run such work in a process of
//! its own that has no more rights than it needs.

// A name such as `laptop.qcow2@3@@home` (address) leads to an image file (image_file, held), the
// disk in it (containers: qcow2 and others), its partitions (image), the layers in those (layers:
// LUKS, LVM, MD, dm-verity, dm-integrity, subvolumes), and a mounted file system. A session does
// all of this with one kernel, in the sandbox. Tools of the distribution get a volume as a file
// (tool_volume, export); what they change in place can be undone (scratch, undo).

#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod address;
#[doc(hidden)]
pub mod containers;
#[doc(hidden)]
pub mod destination;
mod disk;
mod disk_contents;
#[doc(hidden)]
pub mod export;
#[doc(hidden)]
pub mod held;
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
#[doc(hidden)]
pub mod new_image;
#[doc(hidden)]
pub mod octal;
mod opened_disk;
#[doc(hidden)]
pub mod options;
#[doc(hidden)]
pub mod remote;
#[doc(hidden)]
pub mod scratch;
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
#[doc(hidden)]
pub mod tool_volume;
#[doc(hidden)]
pub mod undo;
#[doc(hidden)]
pub mod uuid;
mod volume;
#[doc(hidden)]
pub mod warnings;

pub use disk::Disk;
pub use disk_contents::VolumeEntry;
pub use opened_disk::Result;
pub use options::{Options, RootHash};
#[doc(inline)]
pub use outboard::{
    AnyTree, DirEntry, File, FileType, Files, HostTree, Metadata, OpenOptions, ReadDir, Space,
    Tree, WalkEntry,
};
#[doc(inline)]
pub use outboard_error::{ErrorKind, Failure as Error, Hint};
#[doc(inline)]
pub use outboard_image::partition::{Partition, Table, TableKind};
pub use volume::Volume;
