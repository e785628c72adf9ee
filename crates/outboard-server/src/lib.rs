// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod connection;
mod keeper;
mod limits;
mod peer;
mod process;
mod random;
mod server;
mod shared;
mod thread;
mod thread_slot;
mod tickets;

pub use limits::ClientLimits;
pub use peer::{ClientPeer, InsideUser};
pub use server::{ClientRow, ClientServer};
