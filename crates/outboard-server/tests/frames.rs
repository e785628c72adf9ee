// SPDX-License-Identifier: GPL-2.0-only
//! Clients of a real kernel that share no memory with the server. Needs the real library.

mod support;

use libc::{SYS_close, SYS_getpid, SYS_kill, SYS_open, SYS_pipe2, SYS_read, SYS_write};
use outboard_protocol::call_frame::{CallFrame, CallPart, ReplyFrame, WantedPart};
use outboard_protocol::client::{ClientAnswer, ClientNote, ClientRequest, Ticket, VERSION};
use outboard_protocol::frames::{Frame, FrameKind, Request};
use outboard_protocol::CallRequest;
use outboard_server::InsideUser;
use outboard_slot::layout::{CALL, FORK, TICKET_BYTES};
use std::os::unix::net::UnixStream;
use std::thread::{self, sleep};
use std::time::Duration;
use support::{connect, eventually, Client, PLACE, USER};

/// A thread of a client whose calls travel in frames.
struct FrameClient {
    socket: UnixStream,
    process: i32,
    thread: i32,
    request: u32,
}

impl FrameClient {
    fn new() -> Self {
        Self::with_ticket(None).unwrap()
    }

    fn with_ticket(ticket: Option<Ticket>) -> Option<Self> {
        let socket = connect(USER, InsideUser::ROOT);
        let request = ClientRequest {
            version: VERSION,
            name: "frames".to_owned(),
            ticket,
            slots: false,
        };
        Frame::send(&mut &socket, &Request::Client(request)).unwrap();
        let answer = Frame::read(&mut &socket).unwrap()?.message().unwrap();
        let ClientAnswer::Attached {
            process, thread, ..
        } = answer
        else {
            return None;
        };
        Some(Self {
            socket,
            process,
            thread,
            request: 0,
        })
    }

    fn send(&mut self, frame: &CallFrame) {
        Frame::write(&mut &self.socket, FrameKind::Call, &frame.bytes()).unwrap();
    }

    fn frame(&mut self, number: i64, a: [u64; 3]) -> CallFrame {
        self.request += 1;
        CallFrame {
            request: self.request,
            operation: CALL,
            call: CallRequest {
                number: number as u64,
                arguments: [a[0], a[1], a[2], 0, 0, 0],
            },
            parts: Vec::new(),
            wanted: Vec::new(),
        }
    }

    fn reply(&mut self) -> ReplyFrame {
        let frame = Frame::read(&mut &self.socket).unwrap().unwrap();
        assert_eq!(frame.kind, FrameKind::Reply);
        let reply = ReplyFrame::parse(&frame.bytes).unwrap();
        assert_eq!(reply.request, self.request);
        reply
    }

    fn ask(&mut self, frame: &CallFrame) -> ReplyFrame {
        self.send(frame);
        self.reply()
    }

    fn numbers(&mut self, number: i64, a: [u64; 3]) -> i64 {
        let frame = self.frame(number, a);
        self.ask(&frame).result
    }

    fn note(&self, note: ClientNote) {
        Frame::send(&mut &self.socket, &note).unwrap();
    }

    fn ticket(&self) -> Ticket {
        self.note(ClientNote::Thread);
        let answer = Frame::read(&mut &self.socket).unwrap().unwrap();
        let ClientAnswer::Ticket { ticket } = answer.message().unwrap() else {
            panic!("no ticket");
        };
        ticket
    }

    fn thread(&self) -> Self {
        Self::with_ticket(Some(self.ticket())).unwrap()
    }

    fn is_connected(&mut self) -> bool {
        Frame::read(&mut &self.socket).is_ok_and(|frame| frame.is_some())
    }
}

fn part(offset: u64, bytes: &[u8]) -> CallPart {
    CallPart {
        offset: offset as u32,
        bytes: bytes.to_vec(),
    }
}

fn wanted(length: u32, is_counted: bool) -> WantedPart {
    WantedPart {
        offset: PLACE as u32,
        length,
        is_counted,
    }
}

#[test]
fn bytes_come_and_go() {
    let mut client = FrameClient::new();
    assert_eq!(
        client.numbers(SYS_getpid, [0; 3]),
        i64::from(client.process)
    );
    let flags = (libc::O_CREAT | libc::O_RDWR) as u64;
    let mut open = client.frame(SYS_open, [PLACE, flags, 0o600]);
    open.parts.push(part(PLACE, b"/frames\0"));
    assert_eq!(client.ask(&open).result, 0);
    let mut write = client.frame(SYS_write, [0, PLACE, 5]);
    write.parts.push(part(PLACE, b"bytes"));
    assert_eq!(client.ask(&write).result, 5);
    let mut read = client.frame(libc::SYS_pread64, [0, PLACE, 100]);
    read.wanted.push(wanted(100, true));
    let reply = client.ask(&read);
    assert_eq!(
        (reply.result, &reply.parts[..]),
        (5, &[b"bytes".to_vec()][..])
    );
    read.request += 1;
    client.request += 1;
    read.wanted[0] = wanted(7, false);
    assert_eq!(client.ask(&read).parts[0].len(), 7);
}

#[test]
fn parts_outside_of_the_data_are_refused() {
    let mut client = FrameClient::new();
    let mut frame = client.frame(SYS_getpid, [0; 3]);
    frame.parts.push(part(256 << 10, b"x"));
    assert_eq!(client.ask(&frame).result, -14);
    let mut frame = client.frame(SYS_getpid, [0; 3]);
    frame.wanted.push(wanted(u32::MAX, false));
    assert_eq!(client.ask(&frame).result, -14);
    let mut frame = client.frame(SYS_getpid, [0; 3]);
    frame.wanted = vec![wanted(200 << 10, false); 8];
    assert_eq!(client.ask(&frame).result, -14);
    assert_eq!(
        client.numbers(SYS_getpid, [0; 3]),
        i64::from(client.process)
    );
}

#[test]
fn a_client_that_does_not_wait_is_disconnected() {
    let mut client = FrameClient::new();
    let mut other = Client::new();
    assert_eq!(other.numbers(SYS_pipe2, [PLACE, 0, 0]), 0);
    assert_eq!(client.numbers(SYS_pipe2, [PLACE, 0, 0]), 0);
    for _ in 0..4 {
        let blocked = client.frame(SYS_read, [0, PLACE, 1]);
        // It may be disconnected already.
        let _ = Frame::write(&mut &client.socket, FrameKind::Call, &blocked.bytes());
    }
    eventually("the connection ends", || !client.is_connected());
    let number = client.process as u64;
    eventually("the process ends", || {
        other.numbers(SYS_kill, [number, 0, 0]) == -3
    });
}

#[test]
fn threads_have_connections_of_their_own() {
    let mut client = FrameClient::new();
    assert_eq!(client.numbers(SYS_pipe2, [PLACE, 0, 0]), 0);
    let mut thread = client.thread();
    assert_eq!(thread.process, client.process);
    assert_ne!(thread.thread, client.thread);
    let (number, process) = (thread.thread, u64::from(client.process as u32));
    let ended = client.thread();
    let mut blocked = client.thread();
    let read = blocked.frame(SYS_read, [0, PLACE, 1]);
    blocked.send(&read);
    drop((ended, blocked));
    let reader = thread::spawn(move || thread.numbers(SYS_read, [0, PLACE, 1]));
    let mut wrong = client.thread();
    while !reader.is_finished() {
        // Any thread of the process may tell.
        wrong.note(ClientNote::Interrupt {
            thread: number,
            request: 1,
        });
        sleep(Duration::from_millis(5));
    }
    assert_eq!(reader.join().unwrap(), -4);
    assert_eq!(client.numbers(SYS_kill, [process, 0, 0]), 0);
    assert_eq!(wrong.numbers(SYS_close, [0; 3]), 0);
    assert_eq!(
        client.numbers(SYS_close, [0; 3]),
        -9,
        "closed for all threads"
    );
}

#[test]
fn threads_may_begin_at_once() {
    let client = FrameClient::new();
    let tickets: Vec<Ticket> = (0..32).map(|_| client.ticket()).collect();
    let begin = |ticket| thread::spawn(move || FrameClient::with_ticket(Some(ticket)).is_some());
    let begun: Vec<_> = tickets.into_iter().map(begin).collect();
    assert!(begun.into_iter().all(|thread| thread.join().unwrap()));
}

#[test]
fn a_copy_may_come_without_a_slot() {
    let mut client = FrameClient::new();
    let mut fork = client.frame(0, [0; 3]);
    fork.operation = FORK;
    fork.call.arguments[0] = PLACE;
    fork.wanted.push(wanted(TICKET_BYTES as u32, false));
    let reply = client.ask(&fork);
    assert!(reply.result > 0, "{}", reply.result);
    let ticket = Ticket(reply.parts[0][..].try_into().unwrap());
    let mut copy = FrameClient::with_ticket(Some(ticket)).unwrap();
    assert_eq!(copy.numbers(SYS_getpid, [0; 3]), reply.result);
}

#[test]
fn frames_are_for_clients_without_slots() {
    let client = Client::new();
    let call = CallFrame {
        request: 1,
        operation: CALL,
        call: CallRequest {
            number: SYS_getpid as u64,
            arguments: [0; 6],
        },
        parts: Vec::new(),
        wanted: Vec::new(),
    };
    let mut bytes = Vec::new();
    Frame::write(&mut bytes, FrameKind::Call, &call.bytes()).unwrap();
    client.send_bytes(&bytes);
    client.skip_answer();
    eventually("the connection ends", || !client.is_connected());
}
