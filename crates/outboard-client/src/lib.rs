// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]

mod c_api;
mod client;
mod connection;
mod error;
mod frame_calls;
mod marshal;
mod pointer;
mod process;
mod session;
mod socket;
mod threads;
mod way;

/// For fuzz targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::marshal::{make_call, CallEnd, Carrier, ProgramMemory};
}

pub use client::{Client, Reconnect};
pub use error::ClientError;
pub use process::ForkSide;
pub use session::{SERVER_VARIABLE, SESSION_VARIABLE};
