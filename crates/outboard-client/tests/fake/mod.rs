// SPDX-License-Identifier: MIT
//! A server without a kernel: it attaches clients, and a function answers their calls.

mod far;

use outboard_client::Client;
use outboard_protocol::client::{ClientAnswer, ClientNote, Ticket, VERSION};
use outboard_protocol::frames::{Frame, FrameKind, Request};
use outboard_protocol::{check, CallRequest, Data};
use outboard_slot::{layout, ServerSlot, SlotRequest};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Bytes of data of a slot.
pub const SLOT: usize = 64 << 10;
/// The result of a fork.
pub const COPY: i32 = 4000;

pub type Answerer = fn(&Call) -> i64;

/// A call of a client's thread.
pub struct Call<'a> {
    pub server: &'a Shared,
    pub slot: &'a ServerSlot,
    pub request: CallRequest,
    pub process: i32,
    pub thread: i32,
    /// The number of the request in the slot.
    pub number: u32,
}

impl Call<'_> {
    pub fn bytes(&self, argument: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.slot.read(self.request.arguments[argument], &mut bytes);
        bytes
    }
}

/// The part that tests look at.
#[derive(Default)]
pub struct Seen {
    /// Threads that have left.
    pub left: Vec<i32>,
    /// Threads and requests that were interrupted.
    pub interrupted: Vec<(i32, u32)>,
    pub cancelled: usize,
    pub statuses: Vec<u64>,
    pub names: Vec<String>,
    /// Processes whose connection has ended.
    pub ended: Vec<i32>,
    pub streams: Vec<UnixStream>,
}

pub struct Shared {
    pub answer: Answerer,
    pub seen: Mutex<Seen>,
    pub changed: Condvar,
    next: AtomicI32,
}

impl Shared {
    fn new(answer: Answerer) -> Arc<Self> {
        Arc::new(Self {
            answer,
            seen: Mutex::default(),
            changed: Condvar::new(),
            next: AtomicI32::new(100),
        })
    }

    /// Waits until the condition is true, for 10 s at most.
    pub fn wait(&self, condition: impl Fn(&Seen) -> bool) {
        let seen = self.seen.lock().unwrap();
        let time = Duration::from_secs(10);
        let (_seen, waited) = self
            .changed
            .wait_timeout_while(seen, time, |seen| !condition(seen))
            .unwrap();
        assert!(!waited.timed_out(), "it does not happen");
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap());
        self.changed.notify_all();
    }

    fn number(&self) -> i32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// A server; it ends with the test.
pub struct FakeServer {
    pub shared: Arc<Shared>,
    pub url: String,
    _directory: TempDir,
}

impl FakeServer {
    pub fn new(answer: Answerer) -> Self {
        let shared = Shared::new(answer);
        let (directory, path, listener) = listen();
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                thread::spawn(move || serve(&shared, stream));
            }
        });
        Self {
            shared,
            url: format!("unix:{}", path.display()),
            _directory: directory,
        }
    }

    /// One behind a network, with TLS.
    pub fn far(answer: Answerer) -> Self {
        let shared = Shared::new(answer);
        let directory = TempDir::new().unwrap();
        let url = far::listen(&shared, &directory.path().join("keys"));
        Self {
            shared,
            url,
            _directory: directory,
        }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.url).unwrap()
    }

    /// Ends all connections, as the server's end would.
    pub fn break_connections(&self) {
        for stream in self.shared.seen.lock().unwrap().streams.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

pub fn listen() -> (TempDir, PathBuf, UnixListener) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    (directory, path, listener)
}

/// Sends a message, with a descriptor beside its first byte.
pub fn send(stream: &UnixStream, answer: &ClientAnswer, file: Option<BorrowedFd>) {
    let mut bytes = Vec::new();
    Frame::send(&mut bytes, answer).unwrap();
    send_bytes(stream, &bytes, file);
}

pub fn send_bytes(stream: &UnixStream, bytes: &[u8], file: Option<BorrowedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd> = file.into_iter().collect();
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    let _ = sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    );
}

fn serve(shared: &Arc<Shared>, mut stream: UnixStream) {
    let Ok(Some(frame)) = Frame::read(&mut stream) else {
        return;
    };
    assert_eq!(frame.kind, FrameKind::Message);
    let Request::Client(request) = frame.message().unwrap() else {
        panic!("the client asks for something else");
    };
    assert_eq!(request.version, VERSION);
    let process = match request.ticket {
        Some(ticket) => i32::from_ne_bytes(ticket.0[..4].try_into().unwrap()),
        None => shared.number(),
    };
    shared.note(|seen| {
        seen.names.push(request.name);
        seen.streams.push(stream.try_clone().unwrap());
    });
    let attached = ClientAnswer::Attached {
        version: VERSION,
        process,
        thread: process,
        slot_size: SLOT as u64,
    };
    let mut slots = vec![start_thread(shared, &stream, &attached, (process, process))];
    while let Ok(Some(frame)) = Frame::read(&mut stream) {
        match frame.message().unwrap() {
            ClientNote::Thread => {
                let thread = shared.number();
                let answer = ClientAnswer::Thread { thread };
                slots.push(start_thread(shared, &stream, &answer, (process, thread)));
            }
            ClientNote::Interrupt { thread, request } => {
                shared.note(|seen| seen.interrupted.push((thread, request)));
            }
            ClientNote::Cancel { ticket: Ticket(_) } => shared.note(|seen| seen.cancelled += 1),
        }
    }
    for slot in slots {
        slot.close();
    }
    shared.note(|seen| seen.ended.push(process));
}

fn start_thread(
    shared: &Arc<Shared>,
    stream: &UnixStream,
    answer: &ClientAnswer,
    (process, thread): (i32, i32),
) -> Arc<ServerSlot> {
    let (slot, file) = ServerSlot::new(SLOT).unwrap();
    let slot = Arc::new(slot);
    send(stream, answer, Some(file.as_fd()));
    let (shared, taken) = (Arc::clone(shared), Arc::clone(&slot));
    thread::spawn(move || take(&shared, &taken, process, thread));
    slot
}

fn take(shared: &Shared, slot: &ServerSlot, process: i32, thread: i32) {
    let mut taker = slot.taker();
    while let Some(request) = taker.take() {
        let number = slot.current();
        let Some(result) = operate(shared, slot, &request, (process, thread, number)) else {
            shared.note(|seen| seen.left.push(thread));
            return;
        };
        taker.finish(result);
    }
}

/// `None`: the thread leaves.
fn operate(
    shared: &Shared,
    slot: &ServerSlot,
    request: &SlotRequest,
    (process, thread, number): (i32, i32, u32),
) -> Option<i64> {
    let arguments = request.call.arguments;
    let ticket_of = |process: i32| {
        let mut ticket = [0; layout::TICKET_BYTES];
        ticket[..4].copy_from_slice(&process.to_ne_bytes());
        ticket
    };
    Some(match request.operation {
        layout::CALL => {
            check(&request.call, slot).unwrap();
            (shared.answer)(&Call {
                server: shared,
                slot,
                request: request.call,
                process,
                thread,
                number,
            })
        }
        layout::FORK => {
            slot.write(arguments[0] as usize, &ticket_of(COPY));
            COPY.into()
        }
        layout::EXEC => {
            let mut name = [0; layout::NAME_BYTES];
            slot.read(arguments[0], &mut name);
            slot.write(arguments[1] as usize, &ticket_of(process));
            let name = String::from_utf8_lossy(&name)
                .trim_end_matches('\0')
                .to_owned();
            shared.note(|seen| seen.names.push(name));
            0
        }
        layout::EXIT => {
            shared.note(|seen| seen.statuses.push(arguments[0]));
            0
        }
        _ => return None,
    })
}
