// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]

pub mod argument;
pub mod call_frame;
mod check;
pub mod choice;
pub mod client;
pub mod frames;
pub mod message;
pub mod reason;
pub mod row;
pub mod server;
pub mod table;
pub mod url;

pub use check::{check, CallRequest, Checked, Data, Form, Refusal, SlotSpan, GUARD, SPANS_MOST};
