// SPDX-License-Identifier: GPL-2.0-only
//! liboutboard for Rust, and the Linux system calls that the crates above need.
//!
//! This is the only crate of Outboard that contains `unsafe`. It has three layers:
//!
//! * [`ffi`]: the C functions of `outboard/outboard.h`, as they are;
//! * [`kernel`] and [`component`]: boot, halt, disks and modules as safe functions;
//! * [`System`] and [`Fd`]: Linux system calls as safe functions. A [`System`] is
//!   the host's kernel or the one in this process; both speak the same language,
//!   so code above is written once and works on either.

pub mod component;
pub mod ffi;
pub mod kernel;

mod entries;
mod fd;
mod inode_flags;
mod maintenance;
mod path;
mod pattern;
mod storage;
mod system;
mod xattr;

pub use entries::{Entries, Entry};
pub use fd::Fd;
pub use libc;
pub use path::PathFd;
pub use pattern::matches;
pub use storage::{FileLock, Storage};
pub use system::{StatFs, System};
