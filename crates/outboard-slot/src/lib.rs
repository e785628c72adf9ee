// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]

mod client;
#[doc(hidden)]
pub mod forks;
pub mod layout;
mod memory;
mod placement;
mod processor;
mod server;
mod spin;
mod word;

pub use client::{ClientSlot, Peer};
pub use server::{ServerSlot, SlotRequest, SlotTaker};
