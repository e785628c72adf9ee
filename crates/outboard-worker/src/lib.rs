// SPDX-License-Identifier: GPL-2.0-only
//! One way to run a second process: a copy of this one, or a program.
//!
//! | module | has |
//! |---|---|
//! | [`WorkerProcess`] | a process that takes requests, and sends replies, a result and reports |
//! | [`Parent`] | the other side of that, in the second process |
//! | [`Launch`] | a program to start: arguments, pipes, rights, which process ends first |
//! | [`Process`] | a started process: signals, its end |
//! | `channel` | messages with a limit of their length, over a socket |
//!
//! The crate prints nothing and installs no handler of signals. Restrictions come from the caller:
//! a copy restricts itself in its work, a program in [`Launch::rights`].

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
