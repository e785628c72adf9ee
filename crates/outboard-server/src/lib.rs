// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod client_root;
mod connection;
mod frame_calls;
mod keeper;
mod limits;
mod peer;
mod process;
mod random;
mod server;
mod shared;
mod task_slot;
mod thread;
mod tickets;
mod waits;

pub use limits::ClientLimits;
pub use peer::{ClientPeer, InsideUser};
pub use server::{ClientRow, ClientServer};
