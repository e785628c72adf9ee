// SPDX-License-Identifier: GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
// The front prints, not the engine.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod channel;
mod error;
mod launch;
mod line_relay;
mod process;
mod starter;
mod worker;

pub use error::WorkerError;
pub use launch::{Launch, Started};
pub use process::{Process, ProcessEnd, PANIC_CODE};
pub use worker::{CopyOptions, Descriptors, OnStop, Parent, WorkerProcess};
