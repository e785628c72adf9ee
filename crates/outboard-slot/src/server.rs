// SPDX-License-Identifier: MIT
//! The server's half of a slot.

use crate::layout::{
    ARGUMENTS, CLIENT_PROCESSOR, CLIENT_SLEEPS, NUMBER, OPERATION, REPLY, REQUEST, RESULT,
    SERVER_PROCESSOR, SERVER_SLEEPS,
};
use crate::memory::{make, SlotMemory};
use crate::placement::Placement;
use crate::spin::{look, TIME, WAKING_TIME};
use crate::word;
use outboard_protocol::{CallRequest, Data};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A thread that sleeps looks again after this time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A request, copied out of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The operation: see [`crate::layout`].
    pub operation: u32,
    /// The system call, or the arguments of another operation.
    pub call: CallRequest,
}

/// The server's half of a slot. One thread takes requests; others may [`close`](Self::close) it.
#[derive(Debug)]
pub struct ServerSlot {
    memory: SlotMemory,
    closed: AtomicBool,
    /// The number of the request that is under way, or was the last.
    current: AtomicU32,
}

/// The thread that takes requests of a slot.
pub struct SlotTaker<'a> {
    slot: &'a ServerSlot,
    last: u32,
    placement: Placement,
    /// The client slept when it got its last reply.
    has_woken: bool,
}

impl ServerSlot {
    /// Makes a slot with so many bytes of data: a multiple of 4096 within
    /// [`DATA_SIZES`](crate::layout::DATA_SIZES). The file is for the client.
    pub fn new(size: usize) -> io::Result<(Self, OwnedFd)> {
        let file = make(size)?;
        let memory = SlotMemory::map(&file, size)?;
        let slot = Self {
            memory,
            closed: AtomicBool::new(false),
            current: AtomicU32::new(0),
        };
        Ok((slot, file))
    }

    /// The calling thread takes the requests from now on.
    pub fn taker(&self) -> SlotTaker<'_> {
        SlotTaker {
            slot: self,
            last: 0,
            placement: Placement::new(),
            has_woken: false,
        }
    }

    /// The taker gets no further request. If it sleeps, it wakes up: but it may just be about to,
    /// so repeat this until it has ended.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        word::wake(self.memory.word(REQUEST));
    }

    /// The number of the request that is under way, or was the last.
    pub fn current(&self) -> u32 {
        self.current.load(Ordering::Relaxed)
    }

    /// The address of the first byte of data, which is mapped for as long as this lives.
    /// [`outboard_protocol::GUARD`] bytes behind the data are not mapped.
    pub fn address(&self) -> *mut u8 {
        self.memory.data()
    }

    /// Copies bytes into the data. Panics if they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.memory.write(offset, bytes);
    }
}

impl Data for ServerSlot {
    fn size(&self) -> u64 {
        self.memory.size() as u64
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        self.memory.read(offset as usize, bytes);
    }
}

impl SlotTaker<'_> {
    /// Waits for the next request. `None`: the slot was closed. Blocks.
    pub fn take(&mut self) -> Option<SlotRequest> {
        let memory = &self.slot.memory;
        let request = memory.word(REQUEST);
        let peer = memory.word(CLIENT_PROCESSOR).load(Ordering::Relaxed);
        let (own, is_apart) = self.placement.before_wait(peer);
        memory.word(SERVER_PROCESSOR).store(own, Ordering::Relaxed);
        let time = if self.has_woken { WAKING_TIME } else { TIME };
        if !(is_apart && look(request, self.last, time)) {
            if is_apart {
                self.placement.join(peer);
            }
            self.sleep(request)?;
            self.placement.after_sleep();
        }
        if self.slot.closed.load(Ordering::SeqCst) {
            return None;
        }
        self.last = request.load(Ordering::Acquire);
        self.slot.current.store(self.last, Ordering::Relaxed);
        let argument = |index| memory.number(ARGUMENTS + 8 * index);
        Some(SlotRequest {
            operation: memory.word(OPERATION).load(Ordering::Relaxed),
            call: CallRequest {
                number: memory.number(NUMBER),
                arguments: std::array::from_fn(argument),
            },
        })
    }

    fn sleep(&self, request: &AtomicU32) -> Option<()> {
        let sleeps = self.slot.memory.word(SERVER_SLEEPS);
        sleeps.store(1, Ordering::SeqCst);
        let woken = loop {
            if self.slot.closed.load(Ordering::SeqCst) {
                break None;
            }
            if request.load(Ordering::SeqCst) != self.last {
                break Some(());
            }
            word::wait(request, self.last, PATIENCE);
        };
        sleeps.store(0, Ordering::Relaxed);
        woken
    }

    /// Tells the client that its request is done.
    pub fn finish(&mut self, result: i64) {
        let memory = &self.slot.memory;
        memory.set_number(RESULT, result as u64);
        let reply = memory.word(REPLY);
        reply.store(self.last, Ordering::SeqCst);
        self.has_woken = memory.word(CLIENT_SLEEPS).load(Ordering::SeqCst) != 0;
        if self.has_woken {
            word::wake(reply);
        }
    }
}
