// SPDX-License-Identifier: MIT
//! Answers of a server about itself.

use serde::{Deserialize, Serialize};

/// Most characters of a name in a [`ProcessRow`].
pub const LONGEST_NAME: usize = 64;

/// Most rows of one message.
pub const MOST_ROWS: usize = 1000;

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The version of the server's program.
    pub version: String,
    /// The release of the kernel, as uname(1) shows it.
    pub kernel: String,
    /// The number of its process on the host.
    pub host_process: u32,
    /// How long it has served, in seconds.
    pub seconds: u64,
    /// Clients at this moment.
    pub clients: u64,
    /// Programs at this moment that connections have started.
    pub programs: u64,
    /// Bytes of memory that the kernel, its programs and their files have.
    pub memory: u64,
}

/// The kind of a process of the kernel that somebody outside has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessKind {
    /// A program that the kernel runs.
    Program,
    /// A process outside, whose system calls come to the kernel.
    Client,
}

/// A program or a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Which of the two it is.
    pub kind: ProcessKind,
    /// The number of its process in the kernel.
    pub process: i32,
    /// The number of its user in the kernel.
    pub user: u32,
    /// The number of the process on the host that has it.
    pub host_process: i32,
    /// The number of the user of that process on the host.
    pub host_user: u32,
    /// The name of a client, or the words of a program: at most [`LONGEST_NAME`] characters.
    pub name: String,
    /// Threads of a client.
    pub threads: Option<u64>,
    /// System calls of a client so far.
    pub calls: Option<u64>,
}
