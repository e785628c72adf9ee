// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod certificates;
mod identity;
mod relay;

pub use certificates::make_certificates;
pub use identity::{TlsIdentity, SERVER_NAME};
