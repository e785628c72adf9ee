// SPDX-License-Identifier: GPL-2.0-only
//! How much clients may take.

use std::time::Duration;

/// ClientLimits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Clients at a time, with copies that did not attach yet.
    pub clients: usize,
    /// Threads of a client.
    pub threads: usize,
    /// Open files of a client: its soft and hard limit.
    pub files: u64,
    /// Most bytes of the kernel's memory that a client has, with its copies; `None`: a quarter of
    /// the kernel's. All clients of a user have a half at most, and all clients three quarters.
    pub memory: Option<u64>,
    /// Threads of a client, with those of its copies. Each process counts for one more.
    pub tasks: usize,
    /// Bytes of data of a slot.
    pub slot_size: usize,
    /// How long a copy or a new program of a client may take until it attaches.
    pub attach: Duration,
    /// How long a client may take to read an answer.
    pub answer: Duration,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            clients: 4096,
            threads: 512,
            files: 4096,
            memory: None,
            tasks: 2048,
            slot_size: 256 << 10,
            attach: Duration::from_secs(10),
            answer: Duration::from_secs(10),
        }
    }
}
