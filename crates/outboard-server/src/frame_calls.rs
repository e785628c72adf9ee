// SPDX-License-Identifier: GPL-2.0-only
//! Calls of a client without shared memory. The slot is this process's own: the thread that reads
//! the connection hands a frame over, and the thread that makes the call lays it out and replies.

use outboard_protocol::call_frame::{CallFrame, ReplyFrame, WantedPart, PART_MOST};
use outboard_protocol::frames::{Frame, FrameKind};
use outboard_protocol::Data;
use outboard_slot::{ServerSlot, SlotRequest};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The writing end of a connection, which several threads have.
#[derive(Clone)]
pub(crate) struct FrameWriter(Arc<Mutex<UnixStream>>);

impl FrameWriter {
    pub(crate) fn new(socket: &UnixStream) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(socket.try_clone()?))))
    }

    /// The connection, for one frame.
    pub(crate) fn lock(&self) -> MutexGuard<'_, UnixStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of frames to the thread that makes the calls.
pub(crate) struct FrameCalls {
    /// `None`: it was closed.
    calls: Mutex<Option<SyncSender<CallFrame>>>,
    arrived: Mutex<Receiver<CallFrame>>,
    writer: FrameWriter,
    /// The number of the request that is under way, or was the last.
    current: AtomicU32,
}

impl FrameCalls {
    pub(crate) fn new(writer: FrameWriter) -> Self {
        // A client sends the next call after the reply to the last one.
        let (calls, arrived) = sync_channel(1);
        Self {
            calls: Mutex::new(Some(calls)),
            arrived: Mutex::new(arrived),
            writer,
            current: AtomicU32::new(0),
        }
    }

    /// Hands a call over. An error: the client did not wait for a reply, or the way is closed.
    pub(crate) fn pass(&self, call: CallFrame) -> io::Result<()> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match &*calls {
            Some(calls) => calls.try_send(call),
            None => Err(TrySendError::Disconnected(call)),
        };
        sent.map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// No call comes any more.
    pub(crate) fn close(&self) {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn current(&self) -> u32 {
        self.current.load(Ordering::Relaxed)
    }
}

/// The thread that makes the calls.
pub(crate) struct FrameTaker<'a> {
    memory: &'a ServerSlot,
    calls: &'a FrameCalls,
    wanted: Vec<WantedPart>,
}

impl<'a> FrameTaker<'a> {
    pub(crate) fn new(memory: &'a ServerSlot, calls: &'a FrameCalls) -> Self {
        Self {
            memory,
            calls,
            wanted: Vec::new(),
        }
    }

    /// Waits for the next request. `None`: no call comes any more. Blocks.
    pub(crate) fn take(&mut self) -> Option<SlotRequest> {
        loop {
            let arrived = &self.calls.arrived;
            let call = arrived
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv();
            let call = call.ok()?;
            self.calls.current.store(call.request, Ordering::Relaxed);
            if self.fits(&call) {
                for part in &call.parts {
                    self.memory.write(part.offset as usize, &part.bytes);
                }
                self.wanted = call.wanted;
                return Some(SlotRequest {
                    operation: call.operation,
                    call: call.call,
                });
            }
            self.wanted = Vec::new();
            self.finish(-i64::from(libc::EFAULT));
        }
    }

    /// Whether all parts lie in the data, and what comes back fits in a frame.
    fn fits(&self, call: &CallFrame) -> bool {
        let lies_inside = |offset: u32, length: usize| {
            let end = u64::from(offset) + length as u64;
            end <= self.memory.size()
        };
        let mut parts = call.parts.iter();
        let mut wanted = call.wanted.iter();
        let total: usize = call.wanted.iter().map(|part| part.length as usize).sum();
        parts.all(|part| lies_inside(part.offset, part.bytes.len()))
            && wanted.all(|part| lies_inside(part.offset, part.length as usize))
            && total <= PART_MOST
    }

    /// Sends the reply. A client that does not read it loses its connection.
    pub(crate) fn finish(&mut self, result: i64) {
        let part = |part: &WantedPart| {
            let mut bytes = vec![0; part.length_for(result) as usize];
            self.memory.read(part.offset.into(), &mut bytes);
            bytes
        };
        let reply = ReplyFrame {
            request: self.calls.current(),
            result,
            parts: self.wanted.iter().map(part).collect(),
        };
        let mut socket = self.calls.writer.lock();
        if Frame::write(&mut *socket, FrameKind::Reply, &reply.bytes()).is_err() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
