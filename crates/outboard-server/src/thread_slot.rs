// SPDX-License-Identifier: GPL-2.0-only
//! The slot of a client's thread, and who serves it.

use outboard_slot::ServerSlot;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

/// The slot of a thread.
pub(crate) struct ThreadSlot {
    pub(crate) memory: ServerSlot,
    /// The connection over which it came.
    pub(crate) connection: u64,
    /// The thread's number; 0: it did not begin.
    number: AtomicI32,
}

impl ThreadSlot {
    /// Makes one. The file is for the client.
    pub(crate) fn new(size: usize, connection: u64) -> io::Result<(Arc<Self>, OwnedFd)> {
        let (memory, file) = ServerSlot::new(size)?;
        let slot = Self {
            memory,
            connection,
            number: AtomicI32::new(0),
        };
        Ok((Arc::new(slot), file))
    }

    /// The thread of this number serves it from now on.
    pub(crate) fn begin(&self, number: i32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// The number of its thread; 0: it did not begin.
    pub(crate) fn number(&self) -> i32 {
        self.number.load(Ordering::Relaxed)
    }
}
