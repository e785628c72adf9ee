// SPDX-License-Identifier: MIT
//! How the calls of one thread reach the server: by memory of both, or in frames.

use crate::frame_calls::FrameThread;
use outboard_protocol::CallRequest;
use outboard_slot::{ClientSlot, Peer};

/// See above.
#[derive(Debug)]
pub(crate) enum CallWay {
    Slot(ClientSlot),
    Frames(FrameThread),
}

impl CallWay {
    /// Bytes of data.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Slot(slot) => slot.size(),
            Self::Frames(frames) => frames.size(),
        }
    }

    /// Copies bytes into the data. Panics if they do not fit.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        match self {
            Self::Slot(slot) => slot.write(offset, bytes),
            Self::Frames(frames) => frames.write(offset, bytes),
        }
    }

    /// Copies bytes out of the data. Panics if they do not lie inside.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        match self {
            Self::Slot(slot) => slot.read(offset, bytes),
            Self::Frames(frames) => frames.read(offset, bytes),
        }
    }

    /// Asks for something as this thread of the kernel, and waits for its end. `None`: the server
    /// has gone. Blocks.
    pub(crate) fn call(
        &mut self,
        operation: u32,
        request: &CallRequest,
        thread: i32,
        peer: &impl Peer,
    ) -> Option<i64> {
        match self {
            Self::Slot(slot) => slot.call(operation, request, peer),
            Self::Frames(frames) => frames.call(operation, request, thread),
        }
    }

    /// The thread ends. In frames, the end of its connection says so.
    pub(crate) fn leave(&mut self) {
        match self {
            Self::Slot(slot) => slot.leave(),
            Self::Frames(_) => {}
        }
    }
}
