// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod crash;
mod host_port;
pub mod hub;
pub mod interrupt;
pub mod nat;
pub mod sandbox;
pub mod tool;

pub use host_port::{HostPort, PassedSocket};
pub use sandbox::{HostAccess, Sandbox};
