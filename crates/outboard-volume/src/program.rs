// SPDX-License-Identifier: GPL-2.0-only
//! A program of a volume or of a directory of the host. The kernel that mounts this root runs the
//! program. The program's standard input, output and error are the ones of this process (`streams`,
//! `outside`). A run in the background has a log in their place, and other commands reach it
//! (`control`).
//!
//! | thread | does |
//! |---|---|
//! | of the children (`children`) | waits for all programs without a parent, as init does |
//! | the caller | waits for the first program, and passes on signals that ask this process to end |

mod children;
mod command;
mod connected_program;
mod connection;
mod control;
mod ends;
mod first_program;
mod first_run;
mod idle;
mod log_output;
mod network;
mod outside;
mod patience;
mod ready_root;
mod root_source;
mod server_programs;
mod serving;
mod start;
mod streams;

pub use command::{FindLogin, IdleExit, Login, ProgramCommand, FAILED};
pub use root_source::RootSource;
pub use serving::{ServerRequest, VolumePlace};
