// SPDX-License-Identifier: GPL-2.0-only
//! The slot of a client's thread, and who serves it.
//!
//! A client on this host has the memory of the slot, too. Another one has none: its calls come in
//! frames.

use crate::frame_calls::{FrameCalls, FrameTaker, FrameWriter};
use outboard_slot::{ServerSlot, SlotRequest, SlotTaker};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

/// The slot of a thread.
pub(crate) struct TaskSlot {
    pub(crate) memory: ServerSlot,
    /// `None`: the client shares the memory.
    pub(crate) frames: Option<FrameCalls>,
    /// The connection over which it came.
    pub(crate) connection: u64,
    /// The thread's number; 0: it did not begin.
    number: AtomicI32,
}

/// The taker of a slot's requests.
pub(crate) enum Taker<'a> {
    Shared(SlotTaker<'a>),
    Frames(FrameTaker<'a>),
}

impl TaskSlot {
    /// Makes one. The file is for a client that shares the memory. `frames`: where replies go to
    /// one that does not.
    pub(crate) fn new(
        size: usize,
        connection: u64,
        frames: Option<FrameWriter>,
    ) -> io::Result<(Arc<Self>, OwnedFd)> {
        let (memory, file) = ServerSlot::new(size)?;
        let slot = Self {
            memory,
            frames: frames.map(FrameCalls::new),
            connection,
            number: AtomicI32::new(0),
        };
        Ok((Arc::new(slot), file))
    }

    /// The calling thread takes the requests from now on.
    pub(crate) fn taker(&self) -> Taker<'_> {
        match &self.frames {
            None => Taker::Shared(self.memory.taker()),
            Some(calls) => Taker::Frames(FrameTaker::new(&self.memory, calls)),
        }
    }

    /// The taker gets no further request. To be repeated until it has left.
    pub(crate) fn close(&self) {
        match &self.frames {
            None => self.memory.close(),
            Some(calls) => calls.close(),
        }
    }

    /// The number of the request that is under way, or was the last.
    pub(crate) fn current(&self) -> u32 {
        match &self.frames {
            None => self.memory.current(),
            Some(calls) => calls.current(),
        }
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

impl Taker<'_> {
    /// Waits for the next request. `None`: the slot was closed. Blocks.
    pub(crate) fn take(&mut self) -> Option<SlotRequest> {
        match self {
            Self::Shared(taker) => taker.take(),
            Self::Frames(taker) => taker.take(),
        }
    }

    /// The last request is done.
    pub(crate) fn finish(&mut self, result: i64) {
        match self {
            Self::Shared(taker) => taker.finish(result),
            Self::Frames(taker) => taker.finish(result),
        }
    }
}
