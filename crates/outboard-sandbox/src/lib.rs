// SPDX-License-Identifier: GPL-2.0-only
//! Keeps code that works on the bytes of strangers away from the host.
//!
//! [`sandbox`] restricts this process: namespaces, Landlock, seccomp, capabilities. [`hub`] works
//! for virtual machines in a copy of the process. [`tool`] runs programs of the distribution with
//! the same restrictions. [`interrupt`] asks all of them to stop; [`crash`] reports a kernel that
//! panics. `outboard-worker` starts the processes.

#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod crash;
pub mod hub;
pub mod interrupt;
pub mod sandbox;
pub mod tool;

pub use sandbox::{HostAccess, Sandbox};
