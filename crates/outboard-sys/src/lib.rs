// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod component;
pub mod ffi;
pub mod kernel;
pub mod signals;

mod allocator;
mod assembly;
mod btrfs;
mod cancel;
mod child;
mod client_process;
mod control;
mod credentials;
mod deadline;
mod device_mapper;
mod end_of_file;
mod entries;
mod explained;
mod fd;
mod file_lock;
mod halt_hook;
mod handle;
mod host_event;
mod hub_server;
mod inode_flags;
mod instance;
mod kernel_error;
mod kernel_log;
mod listening;
mod maintenance;
mod mount_copy;
mod nat;
mod network;
mod new_name;
mod partitions;
mod path;
mod process;
mod program;
mod secret;
mod signal_mask;
mod slot_call;
mod socket;
mod standard;
mod stopped;
mod storage;
mod system;
mod terminal;
mod xattr;

pub use allocator::{tolerating_no_memory, Allocator};
pub use btrfs::BtrfsKey;
pub use cancel::{limited, stopped, Cancel, LimitScope, Limits};
pub use child::{
    close_of_parent, end_with_parent, fork, fork_apart, make_files_private, process_end, Child,
};
pub use client_process::NewTask;
pub use control::{Control, CONTROL_SIZE};
pub use deadline::{Deadline, Timer};
pub use device_mapper::{MapperRequest, MAPPER_HEADER_SIZE};
pub use entries::{Entries, RawEntry};
pub use explained::{errno, explained};
pub use fd::Fd;
pub use file_lock::FileLock;
pub use halt_hook::HaltHook;
pub use handle::FileHandle;
pub use host_event::HostEvent;
pub use hub_server::HubServer;
pub use instance::{EmptyInstance, Instance};
pub use kernel_error::KernelError;
pub use libc;
pub use listening::ListeningSocket;
pub use mount_copy::MountCopy;
pub use nat::{Nat, NatOptions};
pub use network::{Epoll, EpollEvent, RawAddress, SocketOption};
pub use path::PathFd;
pub use process::{
    default_memory, end_at_once, has_no_output, ignore, is_ignored, load_libslirp, log_to_stderr,
    set_name, Inherited,
};
pub use secret::{Secret, SecretFile};
pub use signal_mask::without_signals;
pub use socket::{
    accept, peer_credentials, receive_fd, receive_with_fd, send_fd, send_with_fd, PeerCredentials,
};
pub use standard::StandardNumbers;
pub use stopped::Stopped;
pub use storage::Storage;
pub use system::{StatFs, System};
pub use terminal::{restore_terminal, RawTerminal, TerminalSettings, WindowSize};
