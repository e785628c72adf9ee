// SPDX-License-Identifier: GPL-2.0-only
//! The connection of a client, from its first message on.

use crate::peer::ClientPeer;
use crate::process::{ClientProcess, ProcessOwner};
use crate::shared::Shared;
use crate::thread::{FirstThread, NewThread};
use crate::thread_slot::ThreadSlot;
use crate::tickets::Waits;
use outboard::send_with_fd;
use outboard_protocol::client::{ClientAnswer, ClientNote, ClientRequest, Ticket, VERSION};
use outboard_protocol::frames::Frame;
use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The exit code of a refused client.
const FAILED: u8 = 125;
/// Most bytes of a name that Linux keeps.
const NAME_LENGTH: usize = 15;
/// Between two looks whether a thread has taken its new slot.
const INTERVAL: Duration = Duration::from_millis(1);

/// A connection that has become a process.
pub(crate) struct AttachedClient {
    shared: Arc<Shared>,
    number: u64,
    socket: UnixStream,
    process: Arc<ClientProcess>,
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
        process,
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
    shared.keeper.add(number, peer.user, number)
}

impl AttachedClient {
    fn attach(
        &self,
        peer: &ClientPeer,
        asked: &ClientRequest,
        waits: Option<Waits>,
    ) -> io::Result<()> {
        let owner = ProcessOwner {
            connection: self.number,
            socket: self.socket.try_clone()?,
        };
        self.process.own(owner, &asked.name, peer.process);
        let served = if waits == Some(Waits::Program) {
            self.start_program()?
        } else {
            self.start_thread(Some(FirstThread {
                name: task_name(&asked.name),
                user: waits.is_none().then_some(peer.inside),
            }))?
        };
        let answer = ClientAnswer::Attached {
            version: VERSION,
            process: self.process.number,
            thread: served.thread,
            slot_size: self.shared.limits.slot_size as u64,
        };
        self.send_slot(&answer, &served)
    }

    /// Sends a message whose first byte carries the file of a slot.
    fn send_slot(&self, answer: &ClientAnswer, served: &ServedSlot) -> io::Result<()> {
        let mut bytes = Vec::new();
        Frame::send(&mut bytes, answer)?;
        let sent = send_with_fd(&self.socket, &bytes, served.file.as_fd())?;
        (&self.socket).write_all(&bytes[sent..])
    }

    /// Starts a thread of the process.
    fn start_thread(&self, first: Option<FirstThread>) -> io::Result<ServedSlot> {
        let (slot, file) = ThreadSlot::new(self.shared.limits.slot_size, self.number)?;
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
        let (slot, file) = ThreadSlot::new(self.shared.limits.slot_size, self.number)?;
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
            next.old.memory.close();
            sleep(INTERVAL);
        }
        let thread = slot.number();
        Ok(ServedSlot { thread, file })
    }

    /// Serves the client's messages until its end.
    fn attend(self) {
        while let Ok(Some(frame)) = Frame::read(&mut &self.socket) {
            let answered = match frame.message() {
                Ok(note) => self.answer(note),
                Err(error) => {
                    let reason = format!("a message makes no sense: {error}");
                    let _ = Frame::send(&mut &self.socket, &failed(&reason));
                    break;
                }
            };
            if answered.is_err() {
                break;
            }
        }
        self.end();
    }

    fn answer(&self, note: ClientNote) -> io::Result<()> {
        match note {
            ClientNote::Thread => match self.start_thread(None) {
                Ok(served) => {
                    let thread = served.thread;
                    self.send_slot(&ClientAnswer::Thread { thread }, &served)
                }
                Err(error) => {
                    let reason = format!("no further thread for this client: {error}");
                    Frame::send(&mut &self.socket, &failed(&reason))
                }
            },
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

    fn interrupt(&self, thread: i32, request: u32) {
        if let Some(slot) = self.process.thread(thread) {
            if slot.memory.current() == request {
                // A thread without a call is not an error, nor one that has ended.
                let _ = self.shared.instance.interrupt(thread);
            }
        }
    }

    /// The copy, or the next program, does not come.
    fn cancel(&self, ticket: &Ticket) {
        let redeemed = self.shared.keeper.tickets.redeem(ticket, self.process.user);
        if let Some((process, _)) = redeemed {
            process.give_up();
        }
    }

    /// Ends the process, unless it goes on with its next program.
    fn end(&self) {
        let ends = self.process.disown(self.number);
        if ends {
            self.process.kill();
        }
        self.process.close_slots(self.number);
        if ends {
            self.shared.keeper.remove(&self.process);
        }
    }
}
