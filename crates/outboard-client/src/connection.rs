// SPDX-License-Identifier: MIT
//! A connection: this process as a process of the kernel. Slots of its threads come by it, or,
//! over a network, the tickets for connections of their own.

use crate::error::ClientError;
use crate::frame_calls::FrameThread;
use crate::session::ServerPlace;
use crate::socket::ServerSocket;
use crate::way::CallWay;
use outboard_protocol::client::{ClientAnswer, ClientNote, ClientRequest, Ticket, VERSION};
use outboard_protocol::frames::{Frame, Request};
use outboard_slot::layout::DATA_SIZES;
use outboard_slot::{ClientSlot, Peer};
use rustix::fd::OwnedFd;
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A thread of the kernel, and the way by which it is asked for calls.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) thread: i32,
    pub(crate) way: CallWay,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct ServerConnection {
    place: ServerPlace,
    socket: ServerSocket,
    /// Held while a frame is written.
    writing: Mutex<()>,
    /// Held while an answer is waited for.
    asking: Mutex<()>,
    is_lost: AtomicBool,
    /// Children that may not have attached yet.
    copies: Mutex<Vec<Copy>>,
    /// How often the kernel has ended all threads but one, whose slots nobody serves then.
    execs: AtomicU32,
    slot_size: usize,
    pub(crate) process: i32,
    /// The first thread, for the first that asks. Over a network, no thread makes its calls by this
    /// connection: while it waits for a reply, others ask for threads.
    first: Mutex<Option<Attachment>>,
}

/// A child that was made with a copy of the process.
#[derive(Debug)]
struct Copy {
    host: libc::pid_t,
    ticket: Ticket,
    /// The ticket is good until then.
    until: Instant,
}

/// How long a server waits for a copy.
const ATTACH: Duration = Duration::from_secs(10);

/// Whether a child has ended. The program can still wait for it, or has done so.
fn has_ended(child: libc::pid_t) -> bool {
    // SAFETY: all-zero is valid for the structure.
    let mut status: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the structure outlives the call.
    let found = unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &mut status, flags) };
    // SAFETY: waitid(2) sets the field: 0 if the child runs.
    found != 0 || unsafe { status.si_pid() } != 0
}

/// The name that Linux shows for this process.
fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    match name.trim_end() {
        "" => "client".to_owned(),
        name => name.to_owned(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No thread leaves such data half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server sends {what}"),
    )
}

impl ServerConnection {
    /// Becomes a process of the kernel: a new one, or that of a ticket. Blocks for 10 s at most in
    /// each step.
    pub(crate) fn open(place: &ServerPlace, ticket: Option<Ticket>) -> Result<Self, ClientError> {
        let what = format!("cannot connect to {}", place.shown());
        let of_io = |error| ClientError::of_io(&what, &error);
        let attached = attach_to(place, ticket, &what)?;
        let mut first = None;
        if place.has_slots() {
            let made = attachment(attached.thread, attached.file, attached.size);
            first = Some(made.map_err(of_io)?);
        }
        Ok(Self {
            place: place.clone(),
            socket: attached.socket,
            writing: Mutex::default(),
            asking: Mutex::default(),
            is_lost: AtomicBool::new(false),
            copies: Mutex::default(),
            execs: AtomicU32::new(0),
            slot_size: attached.size,
            process: attached.process,
            first: Mutex::new(first),
        })
    }

    fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let _writing = lock(&self.writing);
        Frame::send(&mut &self.socket, message)
    }

    /// A thread for the calling thread: the first one, if no other has it, or a further one. Blocks
    /// for 10 s at most.
    pub(crate) fn attach(&self) -> Result<Attachment, ClientError> {
        if let Some(first) = lock(&self.first).take() {
            return Ok(first);
        }
        let what = "cannot get a thread of the kernel";
        let of_io = |error| {
            // The next answer could be the one to this question.
            self.lose();
            ClientError::of_io(what, &error)
        };
        // One thread after the other, to the end: a server keeps few tickets of a process.
        let _asking = lock(&self.asking);
        let asked = self.send(&ClientNote::Thread);
        match asked.and_then(|()| receive(&self.socket)).map_err(of_io)? {
            (ClientAnswer::Thread { thread }, file) => {
                attachment(thread, file, self.slot_size).map_err(of_io)
            }
            (ClientAnswer::Ticket { ticket }, _) if !self.place.has_slots() => {
                let attached = attach_to(&self.place, Some(ticket), what);
                let attached = attached.inspect_err(|error| self.lose_unless_refused(error))?;
                let (thread, size) = (attached.thread, attached.size);
                let way = CallWay::Frames(FrameThread::new(attached.socket, size));
                Ok(Attachment { thread, way })
            }
            (ClientAnswer::Failed { reason, .. }, _) => Err(ClientError::refused(
                libc::EAGAIN,
                format!("{what}: {reason}"),
            )),
            (ClientAnswer::Attached { .. } | ClientAnswer::Ticket { .. }, _) => {
                Err(of_io(wrong("an answer to nothing")))
            }
        }
    }

    /// A server that has ended gives no answer at a further connection. The next one knows no
    /// ticket of it.
    fn lose_unless_refused(&self, error: &ClientError) {
        if !error.is_final() || !self.socket.is_open() {
            self.lose();
        }
    }

    /// A copy of this process, or its next program, does not come.
    pub(crate) fn cancel(&self, ticket: Ticket) {
        let _ = self.send(&ClientNote::Cancel { ticket });
    }

    /// A child of the host's attaches with this ticket.
    pub(crate) fn expect_copy(&self, host: libc::pid_t, ticket: Ticket) {
        let mut copies = lock(&self.copies);
        copies.retain(|copy| copy.until > Instant::now());
        copies.push(Copy {
            host,
            ticket,
            until: Instant::now() + ATTACH,
        });
    }

    /// A child that has ended before it attached does not come: a call may wait for its copy. The
    /// server ignores a ticket that was used.
    fn cancel_ended_copies(&self) {
        let mut copies = lock(&self.copies);
        copies.retain(|copy| copy.until > Instant::now());
        copies.retain(|copy| {
            let has_ended = has_ended(copy.host);
            if has_ended {
                self.cancel(copy.ticket);
            }
            !has_ended
        });
    }

    /// Ends the process of the kernel: also the calls under way.
    pub(crate) fn close(&self) {
        self.lose();
        self.socket.shut_down();
    }

    /// How often an exec has ended the other threads in the kernel.
    pub(crate) fn execs(&self) -> u32 {
        self.execs.load(Ordering::Relaxed)
    }

    /// An exec has ended the other threads in the kernel.
    pub(crate) fn count_exec(&self) {
        self.execs.fetch_add(1, Ordering::Relaxed);
    }

    /// No thread uses the connection any more.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// Whether it was lost, as far as somebody has noticed.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

fn attachment(thread: i32, file: Option<OwnedFd>, size: usize) -> io::Result<Attachment> {
    let file = file.ok_or_else(|| wrong("no slot"))?;
    let way = CallWay::Slot(ClientSlot::new(&file, size)?);
    Ok(Attachment { thread, way })
}

/// The answer of a server to a new connection.
struct Attached {
    socket: ServerSocket,
    process: i32,
    thread: i32,
    file: Option<OwnedFd>,
    /// Bytes of a slot's data.
    size: usize,
}

/// Makes a connection: a new process, or the process or thread of a ticket.
fn attach_to(
    place: &ServerPlace,
    ticket: Option<Ticket>,
    what: &str,
) -> Result<Attached, ClientError> {
    let of_io = |error| ClientError::of_io(what, &error);
    let socket = ServerSocket::connect(&place.url).map_err(of_io)?;
    let request = Request::Client(ClientRequest {
        version: VERSION,
        name: own_name(),
        ticket,
        slots: place.has_slots(),
    });
    // The other end may refuse a connection before it has read the request.
    let sent = Frame::send(&mut &socket, &request);
    let received = receive(&socket).map_err(|error| of_io(sent.err().unwrap_or(error)));
    let (answer, file) = received?;
    let (process, thread, size) = match answer {
        ClientAnswer::Attached {
            version: VERSION,
            process,
            thread,
            slot_size,
        } => (process, thread, slot_size),
        ClientAnswer::Attached { version, .. } => {
            let reason = format!("{what}: it has version {version} of the protocol");
            return Err(ClientError::refused(libc::EPROTO, reason));
        }
        ClientAnswer::Failed { reason, .. } => {
            let reason = format!("{what}: {reason}");
            return Err(ClientError::refused(libc::ECONNREFUSED, reason));
        }
        ClientAnswer::Thread { .. } | ClientAnswer::Ticket { .. } => {
            return Err(of_io(wrong("an answer to nothing")))
        }
    };
    let size = usize::try_from(size)
        .ok()
        .filter(|size| DATA_SIZES.contains(size));
    let size = size.ok_or_else(|| of_io(wrong("a slot of a wrong size")))?;
    Ok(Attached {
        socket,
        process,
        thread,
        file,
        size,
    })
}

/// Reads an answer, and the descriptor that comes with it.
fn receive(socket: &ServerSocket) -> io::Result<(ClientAnswer, Option<OwnedFd>)> {
    let mut reader = socket.reader();
    let frame = Frame::read(&mut reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((frame.message()?, reader.received))
}

/// The server, as a thread sees it that waits for a call.
pub(crate) struct ServerPeer<'a> {
    pub(crate) connection: &'a ServerConnection,
    pub(crate) thread: i32,
}

impl Peer for ServerPeer<'_> {
    fn is_alive(&self) -> bool {
        self.connection.cancel_ended_copies();
        !self.connection.is_lost() && self.connection.socket.is_open()
    }

    fn interrupt(&self, request: u32) {
        let thread = self.thread;
        let note = ClientNote::Interrupt { thread, request };
        // An error means that the server has gone, which the wait notices.
        let _ = self.connection.send(&note);
    }
}
