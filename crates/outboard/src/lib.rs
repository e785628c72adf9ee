// SPDX-License-Identifier: GPL-2.0-only
//! Linux kernel code as a library, safely: boot kernels in this process, add
//! disk images, mount their file systems and use the files in them.
//!
//! ```no_run
//! use std::io::Read;
//! # fn main() -> std::io::Result<()> {
//! let kernel = outboard::Kernel::builder().boot()?;
//! let disk = kernel.add_disk("disk.img".as_ref(), outboard::DiskOptions::read_only())?;
//! let mount = disk.device(None)?.mount(&outboard::MountOptions::default())?;
//! let mut text = String::new();
//! mount.open("/etc/hostname")?.read_to_string(&mut text)?;
//! mount.unmount()?;
//! kernel.halt()
//! # }
//! ```
//!
//! This crate works with raw disks, and with partitions by their numbers. The crate
//! `outboard-volume` has all the rest of a disk image behind one type: qcow2, LUKS, LVM, RAID.
//!
//! Everything can be used from any thread. Errors are [`std::io::Error`] with the
//! errno that the kernel returned, or have the name of a [`KernelError`]. A process can have
//! several kernels, and boot again after a halt.

#![warn(missing_docs)]

mod array;
mod capacity;
mod contents;
mod device;
mod device_mapper;
mod directory;
mod disk;
mod file;
mod file_systems;
mod host_tree;
mod interface;
mod invalid;
mod kernel;
mod kernel_files;
mod log;
mod metadata;
mod mount;
mod mount_table;
mod nbd;
pub mod net;
mod path;
mod readiness;
mod server_requests;
mod share_requests;
mod sysctl;
mod tree;
#[doc(hidden)]
pub mod walk;

pub use contents::{Files, WalkEntry};
pub use device::{BlockDevice, DeviceSource};
pub use device_mapper::Target;
pub use directory::{DirEntry, ReadDir};
pub use disk::{DiskOptions, DiskPartition, KernelDisk};
pub use file::{File, OpenOptions};
pub use host_tree::{AnyTree, HostTree};
pub use interface::{needs_shared_memory, Interface};
pub use kernel::{option, profile, release, version, Builder, Kernel};
pub use log::{Level, LogRing};
pub use metadata::{FileType, Metadata};
pub use mount::{Mount, MountOptions, Space};
pub use outboard_image as image;
pub use outboard_sys::component::{list as components, Component, Loaded};
pub use outboard_sys::HubServer;
pub use outboard_sys::{errno, FileLock, KernelError, Secret, Storage};
pub use server_requests::{RequestCounts, ServerRequests};
pub use share_requests::ShareState;
pub use tree::Tree;

// The layer below, and helpers of the crates above: not for other programs.
#[doc(hidden)]
pub use capacity::capacity;
#[doc(hidden)]
pub use directory::Listing;
#[doc(hidden)]
pub use file_systems::component_of;
#[doc(hidden)]
pub use kernel::{forget_unused, remembered, Remembered};
#[doc(hidden)]
pub use mount_table::file_system_type;
#[doc(hidden)]
pub use outboard_sys::signals;
#[doc(hidden)]
pub use outboard_sys::{
    default_memory, end_at_once, explained, has_no_output, ignore, is_ignored, load_libslirp,
    log_to_stderr, process_end, receive_fd, send_fd, set_name, tolerating_no_memory, Allocator,
    BtrfsKey, Control, Entries, Fd, FileHandle, Inherited, PathFd, RawEntry, SecretFile,
    StandardNumbers, System, CONTROL_SIZE,
};
