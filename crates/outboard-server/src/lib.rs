// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod answers;
mod client_root;
mod connection;
mod connections;
mod frame_calls;
mod groups;
mod keeper;
mod kernel_server;
mod limits;
mod listener;
mod parting;
mod peer;
mod peer_rules;
mod process;
mod random;
mod requests;
mod server;
mod shared;
mod socket_file;
mod task_slot;
mod thread;
mod tickets;
mod waits;

pub use kernel_server::KernelServer;
pub use limits::ClientLimits;
pub use peer::{ClientPeer, InsideUser};
pub use peer_rules::PeerRules;
pub use server::{ClientRow, ClientServer};

// For the command `outboard server`, which serves programs, too: not for other programs.
#[doc(hidden)]
pub use answers::{failed, FAILED};
#[doc(hidden)]
pub use connections::{Connections, Service};
#[doc(hidden)]
pub use listener::{NewConnection, ServerListener};
#[doc(hidden)]
pub use parting::send_last;
#[doc(hidden)]
pub use requests::{KernelService, NoPrograms, ServerPrograms};
#[doc(hidden)]
pub use socket_file::{BoundSocket, SocketFile};
