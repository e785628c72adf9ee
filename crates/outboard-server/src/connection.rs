// SPDX-License-Identifier: GPL-2.0-only
//! The connection of a client, from its first message on.

use crate::answers::FAILED;
use crate::frame_calls::FrameWriter;
use crate::peer::ClientPeer;
use crate::process::{ClientProcess, ProcessOwner};
use crate::random;
use crate::shared::Shared;
use crate::task_slot::TaskSlot;
use crate::thread::{FirstThread, NewThread};
use crate::waits::Waits;
use outboard::send_with_fd;
use outboard_protocol::call_frame::CallFrame;
use outboard_protocol::client::{ClientAnswer, ClientNote, ClientRequest, Ticket, VERSION};
use outboard_protocol::frames::{Frame, FrameKind};
use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Most bytes of a name that Linux keeps.
const NAME_LENGTH: usize = 15;
/// Between two looks whether a thread has taken its new slot.
const INTERVAL: Duration = Duration::from_millis(1);

/// A connection that has become a process, or, without slots, a further thread of one.
pub(crate) struct AttachedClient {
    shared: Arc<Shared>,
    number: u64,
    socket: UnixStream,
    writer: FrameWriter,
    process: Arc<ClientProcess>,
    /// The process ends with the connection.
    is_process: bool,
    /// Calls come in slots.
    has_slots: bool,
    /// The slot of calls in frames.
    frames: OnceLock<Arc<TaskSlot>>,
}

/// The slot of a thread that serves it, for the client.
struct ServedSlot {
    thread: i32,
    file: OwnedFd,
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// A name as Linux keeps it.
fn task_name(name: &str) -> CString {
    let bytes = name.bytes().filter(|&byte| byte != 0).take(NAME_LENGTH);
    CString::new(bytes.collect::<Vec<u8>>()).unwrap_or_default()
}

fn failed(reason: &str) -> ClientAnswer {
    ClientAnswer::Failed {
        reason: reason.to_owned(),
        code: FAILED,
    }
}

/// Serves a client until its connection ends.
pub(crate) fn serve(
    shared: &Arc<Shared>,
    socket: UnixStream,
    peer: &ClientPeer,
    asked: &ClientRequest,
) {
    // A client that reads no answers holds nothing up for long.
    let prepared = socket
        .set_write_timeout(Some(shared.limits.answer))
        .and_then(|()| socket.set_read_timeout(None));
    if prepared.is_err() {
        return;
    }
    let answer = match begin(shared, &socket, peer, asked) {
        Ok(connection) => return connection.attend(),
        Err(Refused::Because(reason)) => failed(reason),
        Err(Refused::By(error)) => failed(&format!("no process for this client: {error}")),
    };
    // Nobody may be left to tell.
    let _ = Frame::send(&mut &socket, &answer);
}

/// Why a client is not served.
enum Refused {
    Because(&'static str),
    By(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::By(error)
    }
}

fn begin(
    shared: &Arc<Shared>,
    socket: &UnixStream,
    peer: &ClientPeer,
    asked: &ClientRequest,
) -> Result<AttachedClient, Refused> {
    if asked.version != VERSION {
        return Err(Refused::Because(
            "the server speaks version 1 of the protocol: use a client of the same release",
        ));
    }
    let (process, waits) = match &asked.ticket {
        None => (new_process(shared, peer)?, None),
        Some(ticket) => {
            let redeemed = shared.keeper.tickets.redeem(ticket, peer.user);
            let (process, waits) = redeemed.ok_or(Refused::Because(
                "the ticket is not good, or no longer: fork or exec again",
            ))?;
            (process, Some(waits))
        }
    };
    let connection = AttachedClient {
        shared: Arc::clone(shared),
        number: shared.next_connection(),
        socket: socket.try_clone()?,
        writer: FrameWriter::new(socket)?,
        process,
        is_process: waits != Some(Waits::Thread),
        has_slots: asked.slots,
        frames: OnceLock::new(),
    };
    match connection.attach(peer, asked, waits) {
        Ok(()) => Ok(connection),
        Err(error) => {
            connection.end();
            Err(error.into())
        }
    }
}

fn new_process(shared: &Shared, peer: &ClientPeer) -> io::Result<Arc<ClientProcess>> {
    shared.check_room()?;
    let number = shared.instance.new_process()?;
    let process = shared.keeper.add(number, peer.user, number)?;
    match shared.groups.join(peer.user, number) {
        Ok(group) => process.set_group(group),
        Err(error) => {
            process.kill();
            return Err(error);
        }
    }
    Ok(process)
}

impl AttachedClient {
    fn attach(
        &self,
        peer: &ClientPeer,
        asked: &ClientRequest,
        waits: Option<Waits>,
    ) -> io::Result<()> {
        if self.is_process {
            let owner = ProcessOwner {
                connection: self.number,
                socket: self.socket.try_clone()?,
            };
            self.process.own(owner, &asked.name, peer.process);
        }
        let first = |user| FirstThread {
            name: task_name(&asked.name),
            user,
        };
        let served = match waits {
            None => self.start_thread(Some(first(Some(peer.inside))))?,
            Some(Waits::Copy) => self.start_thread(Some(first(None)))?,
            Some(Waits::Thread) => self.start_thread(None)?,
            Some(Waits::Program) => self.start_program()?,
        };
        let answer = ClientAnswer::Attached {
            version: VERSION,
            process: self.process.number,
            thread: served.thread,
            slot_size: self.shared.limits.slot_size as u64,
        };
        self.send_slot(&answer, &served)
    }

    fn send(&self, answer: &ClientAnswer) -> io::Result<()> {
        Frame::send(&mut *self.writer.lock(), answer)
    }

    /// Sends a message whose first byte carries the file of a slot, if the client has slots.
    fn send_slot(&self, answer: &ClientAnswer, served: &ServedSlot) -> io::Result<()> {
        if !self.has_slots {
            return self.send(answer);
        }
        let mut bytes = Vec::new();
        Frame::send(&mut bytes, answer)?;
        let mut socket = self.writer.lock();
        let sent = send_with_fd(&*socket, &bytes, served.file.as_fd())?;
        socket.write_all(&bytes[sent..])
    }

    fn new_slot(&self) -> io::Result<(Arc<TaskSlot>, OwnedFd)> {
        let frames = (!self.has_slots).then(|| self.writer.clone());
        let made = TaskSlot::new(self.shared.limits.slot_size, self.number, frames)?;
        // The only one, if calls come in frames.
        let _ = self.frames.set(Arc::clone(&made.0));
        Ok(made)
    }

    /// Starts a thread of the process.
    fn start_thread(&self, first: Option<FirstThread>) -> io::Result<ServedSlot> {
        let (slot, file) = self.new_slot()?;
        let _beginning = self.process.begin_thread();
        let task = self
            .process
            .take_seed()
            .ok_or_else(|| error(libc::EAGAIN))?;
        let new = NewThread {
            shared: Arc::clone(&self.shared),
            process: Arc::clone(&self.process),
            slot,
            task,
            first,
        };
        let thread = new.start()?;
        Ok(ServedSlot { thread, file })
    }

    /// The thread that has asked for an exec goes on with a new slot.
    fn start_program(&self) -> io::Result<ServedSlot> {
        let gone = || error(libc::ESRCH);
        let (slot, file) = self.new_slot()?;
        let next = self.process.take_next_program().ok_or_else(gone)?;
        self.process.add_thread(&slot, self.shared.limits.threads)?;
        if next.slots.send(Arc::clone(&slot)).is_err() {
            self.process.remove_thread(&slot);
            return Err(gone());
        }
        let begin = Instant::now();
        while slot.number() == 0 {
            if begin.elapsed() > self.shared.limits.attach {
                self.process.remove_thread(&slot);
                return Err(error(libc::ETIMEDOUT));
            }
            next.old.close();
            sleep(INTERVAL);
        }
        let thread = slot.number();
        Ok(ServedSlot { thread, file })
    }

    /// Serves the client's frames until its end.
    fn attend(self) {
        while let Ok(Some(frame)) = Frame::read(&mut &self.socket) {
            let answered = match frame.kind {
                FrameKind::Call => self.pass(&frame),
                _ => frame.message().and_then(|note| self.answer(note)),
            };
            if let Err(error) = answered {
                // Nobody may be left to tell.
                let _ = self.send(&failed(&format!("the connection ends: {error}")));
                break;
            }
        }
        self.end();
    }

    /// Passes a call in a frame on.
    fn pass(&self, frame: &Frame) -> io::Result<()> {
        let slot = self.frames.get().filter(|_| !self.has_slots);
        let calls = slot.and_then(|slot| slot.frames.as_ref());
        let passed = CallFrame::parse(&frame.bytes).zip(calls);
        let (call, calls) = passed.ok_or(io::ErrorKind::InvalidData)?;
        calls.pass(call)
    }

    fn answer(&self, note: ClientNote) -> io::Result<()> {
        match note {
            ClientNote::Thread => self.add_thread(),
            ClientNote::Interrupt { thread, request } => {
                self.interrupt(thread, request);
                Ok(())
            }
            ClientNote::Cancel { ticket } => {
                self.cancel(&ticket);
                Ok(())
            }
        }
    }

    fn add_thread(&self) -> io::Result<()> {
        let added = if self.has_slots {
            self.start_thread(None).and_then(|served| {
                let thread = served.thread;
                self.send_slot(&ClientAnswer::Thread { thread }, &served)
            })
        } else {
            random::ticket().and_then(|ticket| {
                let (tickets, time) = (&self.shared.keeper.tickets, self.shared.limits.attach);
                tickets.add(ticket, &self.process, Waits::Thread, time)?;
                self.send(&ClientAnswer::Ticket { ticket })
            })
        };
        added.or_else(|error| {
            self.send(&failed(&format!(
                "no further thread for this client: {error}"
            )))
        })
    }

    fn interrupt(&self, thread: i32, request: u32) {
        if let Some(slot) = self.process.thread(thread) {
            if slot.current() == request {
                // A thread without a call is not an error, nor one that has ended.
                let _ = self.shared.instance.interrupt(thread);
            }
        }
    }

    /// The copy, or the next program, does not come.
    fn cancel(&self, ticket: &Ticket) {
        let redeemed = self.shared.keeper.tickets.redeem(ticket, self.process.user);
        if let Some((process, waits)) = redeemed {
            process.give_up(waits);
        }
    }

    /// Ends the process, unless it goes on with its next program; or the thread.
    fn end(&self) {
        let ends = self.is_process && self.process.disown(self.number);
        if ends {
            self.process.kill();
        }
        let interrupt = |thread| {
            if !self.is_process {
                let _ = self.shared.instance.interrupt(thread);
            }
        };
        self.process.close_slots(self.number, interrupt);
        if ends {
            self.shared.keeper.remove(&self.process);
        }
    }
}
