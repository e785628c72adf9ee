// SPDX-License-Identifier: MIT
//! The client's half of a slot.

use crate::layout::{
    ARGUMENTS, CLIENT_PROCESSOR, CLIENT_SLEEPS, LEAVE, NUMBER, OPERATION, REPLY, REQUEST, RESULT,
    SERVER_PROCESSOR, SERVER_SLEEPS,
};
use crate::memory::SlotMemory;
use crate::spin::{look, TIME};
use crate::{processor, word};
use outboard_protocol::CallRequest;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a client that sleeps looks whether its server lives.
const INTERVAL: Duration = Duration::from_millis(100);

/// How a client learns of the server's end, and tells it of signals.
pub trait Peer {
    /// Whether the server lives. Called now and then while a request is under way.
    fn is_alive(&self) -> bool;
    /// A signal handler has run while the request of this number is under way.
    fn interrupt(&self, request: u32);
}

/// The client's half of a slot, for one thread.
#[derive(Debug)]
pub struct ClientSlot {
    memory: SlotMemory,
    last: u32,
}

impl ClientSlot {
    /// Maps a slot that came from a server, with so many bytes of data. `InvalidData`: the server
    /// could make it shorter, or it has another size.
    pub fn new(file: &impl AsFd, size: usize) -> io::Result<Self> {
        let memory = SlotMemory::map(file, size)?;
        Ok(Self { memory, last: 0 })
    }

    /// Bytes of data.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Copies bytes into the data. Panics if they do not fit.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.memory.write(offset, bytes);
    }

    /// Copies bytes out of the data. Panics if they do not lie inside.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.memory.read(offset, bytes);
    }

    /// Asks for something, and waits for its end. `None`: the server has gone. Blocks.
    pub fn call(&mut self, operation: u32, call: &CallRequest, peer: &impl Peer) -> Option<i64> {
        let request = self.begin(operation, call);
        let memory = &self.memory;
        let reply = memory.word(REPLY);
        let own = memory.word(CLIENT_PROCESSOR).load(Ordering::Relaxed);
        let is_apart = memory.word(SERVER_PROCESSOR).load(Ordering::Relaxed) != own;
        let is_awake = memory.word(SERVER_SLEEPS).load(Ordering::Relaxed) == 0;
        let before = request.wrapping_sub(1);
        if !(is_apart && is_awake && look(reply, before, TIME)) {
            self.sleep(request, peer)?;
        }
        Some(memory.number(RESULT) as i64)
    }

    /// The thread ends, which has no reply.
    pub fn leave(&mut self) {
        let nothing = CallRequest {
            number: 0,
            arguments: [0; 6],
        };
        self.send(LEAVE, &nothing);
    }

    /// Asks for something whose reply nobody waits for.
    pub fn send(&mut self, operation: u32, call: &CallRequest) {
        self.begin(operation, call);
    }

    fn begin(&mut self, operation: u32, call: &CallRequest) -> u32 {
        self.last = self.last.wrapping_add(1);
        let memory = &self.memory;
        let own = processor::current();
        memory.word(CLIENT_PROCESSOR).store(own, Ordering::Relaxed);
        memory.word(OPERATION).store(operation, Ordering::Relaxed);
        memory.set_number(NUMBER, call.number);
        for (index, &argument) in call.arguments.iter().enumerate() {
            memory.set_number(ARGUMENTS + 8 * index, argument);
        }
        let request = memory.word(REQUEST);
        request.store(self.last, Ordering::SeqCst);
        if memory.word(SERVER_SLEEPS).load(Ordering::SeqCst) != 0 {
            word::wake(request);
        }
        self.last
    }

    fn sleep(&self, request: u32, peer: &impl Peer) -> Option<()> {
        let (reply, sleeps) = (self.memory.word(REPLY), self.memory.word(CLIENT_SLEEPS));
        sleeps.store(1, Ordering::SeqCst);
        let done = loop {
            let seen = reply.load(Ordering::SeqCst);
            if seen == request {
                break Some(());
            }
            if word::wait(reply, seen, INTERVAL) == word::Woken::Signal {
                peer.interrupt(request);
            } else if reply.load(Ordering::SeqCst) == seen && !peer.is_alive() {
                break None;
            }
        };
        sleeps.store(0, Ordering::Relaxed);
        done
    }
}
