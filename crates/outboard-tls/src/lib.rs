// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod certificates;
mod dial;
mod dialed;
mod identity;
mod keepalive;
mod listen;
mod reason;
mod relay;
mod token;

pub use certificates::make_certificates;
pub use dial::{connect, dial};
pub use dialed::Dialed;
pub use identity::{TlsIdentity, TlsServer, SERVER_NAME};
pub use listen::{NetworkConnection, NetworkListener};
