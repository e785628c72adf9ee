// SPDX-License-Identifier: GPL-2.0-only
//! Servers of a session: file systems of NFS, SMB and 9p, disks of NBD.
//!
//! | file | has |
//! |---|---|
//! | `network` | the kernel's interface, the addresses of servers |
//! | `clients` | mounts and disks by the kernel's clients |
//! | `relay` | the connection of 9p, with a limit for each answer |
//! | `watch` | the thread that ends waits for NFS and SMB |
//! | `thread` | the end of the threads of `relay` and `watch` |
//! | `state`, `silent` | whether a server answers in time; the reports about it |

mod clients;
mod network;
mod relay;
mod silent;
mod state;
mod thread;
mod watch;

pub(super) use network::Network;
pub(super) use state::ServerState;
