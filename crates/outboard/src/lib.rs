// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod array;
mod capacity;
mod command;
mod contents;
mod control_group;
mod device;
mod device_mapper;
mod directory;
mod disk;
mod file;
mod file_systems;
mod host_directory;
mod host_tree;
mod interface;
mod invalid;
mod kernel;
mod kernel_files;
mod log;
mod metadata;
mod mount;
mod mount_place;
mod mount_table;
mod nbd;
pub mod net;
mod network_use;
mod path;
mod program_leftovers;
mod program_root;
mod readiness;
mod root_entry;
mod server_requests;
mod share_requests;
mod sysctl;
mod tree;
#[doc(hidden)]
pub mod walk;

pub use command::{Command, ProgramUser, RunningProgram};
pub use contents::{Files, WalkEntry};
pub use control_group::ControlGroup;
pub use device::{BlockDevice, DeviceSource};
pub use device_mapper::Target;
pub use directory::{DirEntry, ReadDir};
pub use disk::{DiskOptions, DiskPartition, KernelDisk};
pub use file::{File, OpenOptions};
pub use host_directory::{HostDirectory, HostDirectoryOptions};
pub use host_tree::{AnyTree, HostTree};
pub use interface::{needs_shared_memory, Interface};
pub use kernel::{option, profile, release, version, Builder, Kernel};
pub use log::{Level, LogRing};
pub use metadata::{FileType, Metadata};
pub use mount::{Mount, MountOptions, Space};
pub use mount_place::MountPlace;
pub use outboard_image as image;
pub use outboard_sys::component::{list as components, Component, Loaded};
pub use outboard_sys::kernel::DirectoryCache;
pub use outboard_sys::{errno, Cancel, Deadline, FileLock, KernelError, Secret, Stopped, Storage};
pub use outboard_sys::{HubServer, Nat, NatOptions};
pub use program_root::ProgramRoot;
pub use root_entry::RootEntry;
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
pub use kernel::{forget_unused, memory_in_use, process_user, remembered, Remembered};
#[doc(hidden)]
pub use mount_table::file_system_type;
#[doc(hidden)]
pub use network_use::NetworkUse;
#[doc(hidden)]
pub use outboard_sys::{
    accept, default_memory, end_at_once, explained, has_no_output, ignore, is_ignored,
    load_libslirp, log_to_stderr, peer_credentials, process_end, receive_fd, receive_with_fd,
    restore_terminal, send_fd, send_with_fd, set_name, stopped, tolerating_no_memory,
    without_signals, Allocator, BtrfsKey, Control, Entries, Epoll, EpollEvent, Fd, FileHandle,
    HaltHook, Inherited, Instance, LimitScope, Limits, ListeningSocket, NewTask, PathFd,
    PeerCredentials, RawEntry, RawTerminal, SecretFile, StandardNumbers, System, TerminalSettings,
    Timer, WindowSize, CONTROL_SIZE,
};
#[doc(hidden)]
pub use outboard_sys::{ffi, signals};
