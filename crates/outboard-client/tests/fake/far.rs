// SPDX-License-Identifier: MIT
//! The same behind a network: each thread of a client has a connection, and its calls are frames.

use super::{operate, Shared, SLOT};
use outboard_protocol::call_frame::{CallFrame, ReplyFrame, WantedPart};
use outboard_protocol::client::{ClientAnswer, ClientNote, ClientRequest, Ticket, VERSION};
use outboard_protocol::frames::{Frame, FrameKind, Request};
use outboard_protocol::url::{NetworkUrl, ServerUrl};
use outboard_protocol::Data;
use outboard_slot::{layout, ServerSlot, SlotRequest};
use outboard_tls::{make_certificates, NetworkListener};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::thread;

/// Listens with new certificates. Returns the URL.
pub fn listen(shared: &Arc<Shared>, keys: &Path) -> String {
    make_certificates(keys).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let text = format!("tls:{place},certificates={}", keys.display());
    let url = ServerUrl::parse(text.clone().into()).unwrap();
    let ServerUrl::Network(url) = url else {
        panic!("no URL of a network");
    };
    let shared = Arc::clone(shared);
    thread::spawn(move || accept(&shared, listener, &url));
    text
}

fn accept(shared: &Arc<Shared>, listener: TcpListener, url: &NetworkUrl) {
    let listener = NetworkListener::new(listener, url).unwrap();
    while let Ok(connection) = listener.accept() {
        let shared = Arc::clone(shared);
        thread::spawn(move || serve(&shared, connection.stream));
    }
}

/// A ticket of a thread has a mark behind the number of its process.
fn ticket(process: i32) -> Ticket {
    let mut ticket = [0; layout::TICKET_BYTES];
    ticket[..4].copy_from_slice(&process.to_ne_bytes());
    ticket[4] = 1;
    Ticket(ticket)
}

/// The numbers of process and thread. The second one is its process's own, if it is the first.
fn identity(shared: &Shared, request: &ClientRequest) -> (i32, i32) {
    let known = request.ticket.as_ref().map(|ticket| {
        let process = i32::from_ne_bytes(ticket.0[..4].try_into().unwrap());
        (process, ticket.0[4] == 1)
    });
    match known {
        None => {
            let process = shared.number();
            (process, process)
        }
        Some((process, false)) => (process, process),
        Some((process, true)) => (process, shared.number()),
    }
}

fn serve(shared: &Arc<Shared>, mut stream: UnixStream) {
    let Ok(Some(frame)) = Frame::read(&mut stream) else {
        return;
    };
    let Request::Client(request) = frame.message().unwrap() else {
        panic!("the client asks for something else");
    };
    assert!(!request.slots);
    let (process, thread) = identity(shared, &request);
    shared.note(|seen| seen.streams.push(stream.try_clone().unwrap()));
    let attached = ClientAnswer::Attached {
        version: VERSION,
        process,
        thread,
        slot_size: SLOT as u64,
    };
    Frame::send(&mut stream, &attached).unwrap();
    let (calls, arrived) = channel();
    let (answering, writer) = (Arc::clone(shared), stream.try_clone().unwrap());
    thread::spawn(move || answer_all(&answering, &arrived, writer, (process, thread)));
    while let Ok(Some(frame)) = Frame::read(&mut stream) {
        if frame.kind == FrameKind::Call {
            calls.send(CallFrame::parse(&frame.bytes).unwrap()).unwrap();
            continue;
        }
        match frame.message().unwrap() {
            ClientNote::Thread => {
                let ticket = ticket(process);
                let _ = Frame::send(&mut stream, &ClientAnswer::Ticket { ticket });
            }
            ClientNote::Interrupt { thread, request } => {
                shared.note(|seen| seen.interrupted.push((thread, request)));
            }
            ClientNote::Cancel { ticket: Ticket(_) } => shared.note(|seen| seen.cancelled += 1),
        }
    }
    shared.note(|seen| {
        let ended = if thread == process {
            &mut seen.ended
        } else {
            &mut seen.left
        };
        ended.push(thread);
    });
}

fn answer_all(
    shared: &Shared,
    calls: &Receiver<CallFrame>,
    mut stream: UnixStream,
    (process, thread): (i32, i32),
) {
    let (slot, _file) = ServerSlot::new(SLOT).unwrap();
    for frame in calls {
        for part in &frame.parts {
            slot.write(part.offset as usize, &part.bytes);
        }
        let request = SlotRequest {
            operation: frame.operation,
            call: frame.call,
        };
        let numbers = (process, thread, frame.request);
        let result = operate(shared, &slot, &request, numbers).unwrap();
        let part = |part: &WantedPart| {
            let mut bytes = vec![0; part.length_for(result) as usize];
            slot.read(part.offset.into(), &mut bytes);
            bytes
        };
        let reply = ReplyFrame {
            request: frame.request,
            result,
            parts: frame.wanted.iter().map(part).collect(),
        };
        let _ = Frame::write(&mut stream, FrameKind::Reply, &reply.bytes());
    }
}
