// SPDX-License-Identifier: MIT
//! The slots of the calling thread: one for each client that it has used.

use crate::connection::{Attachment, ServerConnection, ServerPeer};
use crate::marshal::{CallEnd, Carrier};
use crate::way::CallWay;
use outboard_protocol::CallRequest;
use outboard_slot::forks::forks;
use outboard_slot::layout;
use std::cell::RefCell;
use std::sync::Arc;

/// A slot, and the connection that it belongs to.
#[derive(Debug)]
pub(crate) struct AttachedSlot {
    /// The number of the client.
    client: u64,
    /// Of this process: see [`forks`].
    forks: u64,
    connection: Arc<ServerConnection>,
    /// Of the connection, when the thread was attached.
    execs: u32,
    thread: i32,
    way: CallWay,
}

thread_local! {
    static SLOTS: RefCell<Vec<AttachedSlot>> = const { RefCell::new(Vec::new()) };
}

impl AttachedSlot {
    fn new(client: u64, connection: Arc<ServerConnection>, attachment: Attachment) -> Self {
        Self {
            client,
            forks: forks(),
            execs: connection.execs(),
            connection,
            thread: attachment.thread,
            way: attachment.way,
        }
    }

    fn is_usable(&self) -> bool {
        self.forks == forks() && !self.connection.is_lost() && self.execs == self.connection.execs()
    }

    /// An exec of this thread has ended the others in the kernel.
    pub(crate) fn outlive_others(&mut self) {
        self.connection.count_exec();
        self.execs = self.connection.execs();
        // The only thread has the number of its process.
        self.thread = self.connection.process;
    }

    /// Asks for an operation of the slot's layout that is no call.
    pub(crate) fn operate(&mut self, operation: u32, arguments: [u64; 6]) -> Option<i64> {
        let request = CallRequest {
            number: 0,
            arguments,
        };
        self.ask(operation, &request)
    }

    fn ask(&mut self, operation: u32, request: &CallRequest) -> Option<i64> {
        let peer = ServerPeer {
            connection: &self.connection,
            thread: self.thread,
        };
        let result = self.way.call(operation, request, self.thread, &peer);
        if result.is_none() {
            self.connection.lose();
        }
        // Over a network, the calls under way get an error of their own.
        result.filter(|_| !self.connection.is_lost())
    }

    pub(crate) fn connection(&self) -> &Arc<ServerConnection> {
        &self.connection
    }
}

impl Carrier for AttachedSlot {
    fn size(&self) -> usize {
        self.way.size()
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.way.write(offset, bytes);
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.way.read(offset, bytes);
    }

    fn call(&mut self, request: &CallRequest) -> Option<i64> {
        self.ask(layout::CALL, request)
    }
}

impl Drop for AttachedSlot {
    fn drop(&mut self) {
        // In a child, the slot is that of the parent's thread.
        if self.is_usable() {
            self.way.leave();
        }
    }
}

/// Does something with the calling thread's slot of a client. `attach` makes one, if there is none
/// or its connection was lost. `EDEADLK`: a signal handler has interrupted a call of its thread.
/// `ESRCH`: the thread is about to end.
pub(crate) fn with_slot<T>(
    client: u64,
    attach: impl FnOnce() -> Result<(Arc<ServerConnection>, Attachment), CallEnd>,
    work: impl FnOnce(&mut AttachedSlot) -> Result<T, CallEnd>,
) -> Result<T, CallEnd> {
    let done = SLOTS.try_with(|slots| {
        let Ok(mut slots) = slots.try_borrow_mut() else {
            return Err(CallEnd::Refused(libc::EDEADLK));
        };
        let index = find(&mut slots, client, attach)?;
        work(&mut slots[index])
    });
    done.unwrap_or(Err(CallEnd::Refused(libc::ESRCH)))
}

/// The same for a thread that ends, or has been interrupted in a call: with a slot for this alone.
pub(crate) fn with_own_slot<T>(
    client: u64,
    attach: impl FnOnce() -> Result<(Arc<ServerConnection>, Attachment), CallEnd>,
    work: impl FnOnce(&mut AttachedSlot) -> Result<T, CallEnd>,
) -> Result<T, CallEnd> {
    let (connection, attachment) = attach()?;
    work(&mut AttachedSlot::new(client, connection, attachment))
}

fn find(
    slots: &mut Vec<AttachedSlot>,
    client: u64,
    attach: impl FnOnce() -> Result<(Arc<ServerConnection>, Attachment), CallEnd>,
) -> Result<usize, CallEnd> {
    let known = slots
        .iter()
        .position(|slot| slot.client == client && slot.is_usable());
    if let Some(index) = known {
        return Ok(index);
    }
    slots.retain(AttachedSlot::is_usable);
    let (connection, attachment) = attach()?;
    slots.push(AttachedSlot::new(client, connection, attachment));
    Ok(slots.len() - 1)
}

/// The calling thread makes no further call for a client.
pub(crate) fn leave(client: u64) {
    let _ = SLOTS.try_with(|slots| {
        if let Ok(mut slots) = slots.try_borrow_mut() {
            slots.retain(|slot| slot.client != client);
        }
    });
}
