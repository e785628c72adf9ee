// SPDX-License-Identifier: GPL-2.0-only
//! A server for tests, and a client that fills its slot by hand.

// Each test file uses a part of it.
#![allow(dead_code)]

use outboard::{receive_with_fd, Kernel};
use outboard_protocol::client::{ClientAnswer, ClientNote, ClientRequest, Ticket, VERSION};
use outboard_protocol::frames::{Frame, Request};
use outboard_protocol::CallRequest;
use outboard_server::{ClientLimits, ClientPeer, ClientServer, InsideUser};
use outboard_slot::layout::{CALL, FORK, LEAVE, TICKET_BYTES};
use outboard_slot::{ClientSlot, Peer as SlotPeer};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// The user of the host whom clients have.
pub const USER: u32 = 1234;
/// Most bytes of the kernel's memory for a client with its copies.
pub const MEMORY: u64 = 32 << 20;
/// The place in a slot that the tests use.
pub const PLACE: u64 = 64;

/// The server of all tests of a file.
pub fn server() -> &'static Arc<ClientServer> {
    static SERVER: OnceLock<Arc<ClientServer>> = OnceLock::new();
    SERVER.get_or_init(|| {
        let kernel = Kernel::builder().boot().unwrap();
        let limits = ClientLimits {
            threads: 20,
            clients: 2000,
            files: 64,
            memory: Some(MEMORY),
            tasks: 200,
            attach: Duration::from_secs(1),
            ..ClientLimits::default()
        };
        Arc::new(ClientServer::start(&kernel, limits).unwrap())
    })
}

/// Waits for something that has to happen.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{what}: it did not happen"
        );
        sleep(Duration::from_millis(2));
    }
}

/// The connection, for a thread's slot.
struct Alive(Arc<UnixStream>);

impl SlotPeer for Alive {
    fn is_alive(&self) -> bool {
        is_connected(&self.0)
    }
    fn interrupt(&self, _request: u32) {}
}

/// Whether the other end has not closed it.
fn is_connected(socket: &UnixStream) -> bool {
    let own = outboard::Fd::from(OwnedFd::from(socket.try_clone().unwrap()));
    let hung_up = own.poll(libc::POLLRDHUP, Some(Duration::ZERO)).unwrap();
    hung_up & (libc::POLLRDHUP | libc::POLLHUP) == 0
}

/// A thread of a client.
pub struct Client {
    socket: Arc<UnixStream>,
    slot: ClientSlot,
    file: Arc<OwnedFd>,
    pub process: i32,
    pub thread_number: i32,
}

/// Connects, as a user of the host who is somebody inside.
pub fn connect(user: u32, inside: InsideUser) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = Arc::clone(server());
    thread::spawn(move || {
        let Ok(Some(frame)) = Frame::read(&mut &theirs) else {
            return;
        };
        let Ok(Request::Client(request)) = frame.message() else {
            return;
        };
        let process = 77;
        let peer = ClientPeer {
            process,
            user,
            inside,
        };
        server.serve(theirs, &peer, &request);
    });
    ours
}

/// An answer, and the file that comes with its first byte. `None`: it failed.
fn receive(mut socket: &UnixStream) -> Option<(ClientAnswer, Option<OwnedFd>)> {
    let mut first = [0];
    let file = receive_with_fd(socket, &mut first)
        .ok()
        .map(|(_, file)| file);
    let mut whole = (&first[..]).chain(&mut socket);
    let answer = Frame::read(&mut whole).unwrap()?.message().unwrap();
    match answer {
        ClientAnswer::Failed { .. } => None,
        answer => Some((answer, file)),
    }
}

impl Client {
    /// A process that is root.
    pub fn new() -> Self {
        Self::inside(InsideUser::ROOT)
    }

    pub fn inside(inside: InsideUser) -> Self {
        Self::attach(USER, inside, None).unwrap()
    }

    pub fn with_ticket(ticket: Option<Ticket>, user: u32) -> Option<Self> {
        Self::attach(user, InsideUser::ROOT, ticket)
    }

    fn attach(user: u32, inside: InsideUser, ticket: Option<Ticket>) -> Option<Self> {
        let socket = connect(user, inside);
        let request = ClientRequest {
            version: VERSION,
            name: "test".to_owned(),
            ticket,
            slots: true,
        };
        Frame::send(&mut &socket, &Request::Client(request)).unwrap();
        let (answer, file) = receive(&socket)?;
        let ClientAnswer::Attached {
            process,
            thread,
            slot_size,
            ..
        } = answer
        else {
            panic!("{answer:?}");
        };
        let file = Arc::new(file.unwrap());
        Some(Self {
            socket: Arc::new(socket),
            slot: ClientSlot::new(&*file, slot_size as usize).unwrap(),
            file,
            process,
            thread_number: thread,
        })
    }

    /// A further thread.
    pub fn thread(&mut self) -> Self {
        self.try_thread().unwrap()
    }

    pub fn try_thread(&mut self) -> Option<Self> {
        self.note(ClientNote::Thread);
        let (answer, file) = receive(&self.socket)?;
        let ClientAnswer::Thread { thread } = answer else {
            panic!("{answer:?}");
        };
        let file = Arc::new(file.unwrap());
        Some(Self {
            socket: Arc::clone(&self.socket),
            slot: ClientSlot::new(&*file, self.slot.size()).unwrap(),
            file,
            process: self.process,
            thread_number: thread,
        })
    }

    pub fn note(&self, note: ClientNote) {
        Frame::send(&mut &*self.socket, &note).unwrap();
    }

    /// The answer to the last note; `None`: it failed.
    pub fn answer(&self) -> Option<ClientAnswer> {
        receive(&self.socket).map(|(answer, _)| answer)
    }

    pub fn send_bytes(&self, bytes: &[u8]) {
        (&*self.socket).write_all(bytes).unwrap();
    }

    /// Reads what comes until the connection ends.
    pub fn skip_answer(&self) {
        let _ = io::copy(&mut &*self.socket, &mut io::sink());
    }

    /// Ends the connection, for all threads.
    pub fn disconnect(self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
    }

    pub fn is_connected(&self) -> bool {
        is_connected(&self.socket)
    }

    /// Bytes of data.
    pub fn size(&self) -> usize {
        self.slot.size()
    }

    pub fn write(&mut self, place: u64, bytes: &[u8]) {
        self.slot.write(place as usize, bytes);
    }

    pub fn read(&self, place: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.slot.read(place as usize, &mut bytes);
        bytes
    }

    /// Asks for an operation. `None`: the server has gone.
    pub fn ask(&mut self, operation: u32, a: [u64; 3]) -> Option<i64> {
        let call = CallRequest {
            number: a[0],
            arguments: [a[0], a[1], a[2], 0, 0, 0],
        };
        self.slot
            .call(operation, &call, &Alive(Arc::clone(&self.socket)))
    }

    /// A system call of at most three arguments, which are numbers and places.
    pub fn numbers(&mut self, number: i64, a: [u64; 3]) -> i64 {
        self.four(number, [a[0], a[1], a[2], 0])
    }

    /// The same with four arguments.
    pub fn four(&mut self, number: i64, a: [u64; 4]) -> i64 {
        let call = CallRequest {
            number: number as u64,
            arguments: [a[0], a[1], a[2], a[3], 0, 0],
        };
        let alive = Alive(Arc::clone(&self.socket));
        self.slot.call(CALL, &call, &alive).unwrap_or(-107)
    }

    /// Asks for a call, and does not wait for it.
    pub fn begin(&mut self, number: i64, a: [u64; 3]) {
        self.begin_with(CALL, number, a);
    }

    pub fn begin_operation(&mut self, operation: u32, a: [u64; 3]) {
        self.begin_with(operation, 0, a);
    }

    pub fn begin_with(&mut self, operation: u32, number: i64, a: [u64; 3]) {
        let call = CallRequest {
            number: number as u64,
            arguments: [a[0], a[1], a[2], 0, 0, 0],
        };
        self.slot.send(operation, &call);
    }

    /// A second user of the same memory, as no honest client has.
    pub fn same_slot(&self) -> Self {
        Self {
            socket: Arc::clone(&self.socket),
            slot: ClientSlot::new(&*self.file, self.slot.size()).unwrap(),
            file: Arc::clone(&self.file),
            process: self.process,
            thread_number: self.thread_number,
        }
    }

    pub fn open(&mut self, path: &str, flags: i32) -> i64 {
        self.write(PLACE, format!("{path}\0").as_bytes());
        self.numbers(libc::SYS_open, [PLACE, flags as u64, 0o644])
    }

    pub fn fork(&mut self) -> (i64, Ticket) {
        let copy = self.ask(FORK, [PLACE, 0, 0]).unwrap();
        assert!(copy > 0, "{copy}");
        (copy, self.ticket(PLACE))
    }

    pub fn ticket(&self, place: u64) -> Ticket {
        let mut bytes = [0; TICKET_BYTES];
        self.slot.read(place as usize, &mut bytes);
        Ticket(bytes)
    }

    pub fn leave(mut self) {
        self.begin_operation(LEAVE, [0; 3]);
    }
}
