// SPDX-License-Identifier: MIT
//! Calls of one thread in frames, over a connection of its own. The data are private memory: those
//! bytes travel that the call's arguments lead to.
//!
//! | bytes that the kernel | go along | come back |
//! |---|---|---|
//! | reads: of a string, up to its zero byte | yes | no |
//! | reads and writes | yes | yes |
//! | writes, as many as its result says | no | so many |
//! | writes, at most all of them | yes: the others stay as they are | yes |

use crate::marshal::counts_its_result;
use crate::socket::ServerSocket;
use outboard_protocol::argument::{Argument, Flow, Size};
use outboard_protocol::call_frame::{CallFrame, CallPart, ReplyFrame, WantedPart, PART_MOST};
use outboard_protocol::client::ClientNote;
use outboard_protocol::frames::{Frame, FrameKind};
use outboard_protocol::message::{Message, BYTES as MESSAGE_BYTES};
use outboard_protocol::row::Way;
use outboard_protocol::{check, choice, table, CallRequest, Data, Form, SlotSpan};
use outboard_slot::layout::{CALL, EXEC, FORK, NAME_BYTES, TICKET_BYTES};
use std::io::{self, Read};

/// A thread's connection, and the data of its calls.
#[derive(Debug)]
pub(crate) struct FrameThread {
    socket: ServerSocket,
    data: PrivateData,
    /// The number of the last request.
    last: u32,
}

#[derive(Debug)]
struct PrivateData(Vec<u8>);

impl PrivateData {
    fn bytes(&self, offset: u64, length: u64) -> &[u8] {
        &self.0[offset as usize..(offset + length) as usize]
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Takes the parts that were wanted. `None`: they are others, or longer; they may be shorter.
    fn unpack(&mut self, wanted: &[WantedPart], reply: &ReplyFrame) -> Option<()> {
        if wanted.len() != reply.parts.len() {
            return None;
        }
        for (place, bytes) in wanted.iter().zip(&reply.parts) {
            if bytes.len() > place.length as usize {
                return None;
            }
            self.write(place.offset as usize, bytes);
        }
        Some(())
    }
}

impl Data for PrivateData {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(self.bytes(offset, bytes.len() as u64));
    }
}

impl FrameThread {
    /// `size`: bytes of data at the server, of which those are used that fit in a frame.
    pub(crate) fn new(socket: ServerSocket, size: usize) -> Self {
        Self {
            socket,
            data: PrivateData(vec![0; size.min(PART_MOST)]),
            last: 0,
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.data.0.len()
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.data.write(offset, bytes);
    }

    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.data.0[offset..offset + bytes.len()]);
    }

    /// Asks for something as this thread of the kernel, and waits for the reply. `None`: the server
    /// has gone, or lies. Blocks.
    pub(crate) fn call(
        &mut self,
        operation: u32,
        request: &CallRequest,
        thread: i32,
    ) -> Option<i64> {
        self.last = self.last.wrapping_add(1);
        let luggage = match operation {
            CALL => Luggage::of_call(request, &self.data),
            _ => Luggage::of_operation(operation, &request.arguments, &self.data),
        };
        let frame = CallFrame {
            request: self.last,
            operation,
            call: *request,
            parts: luggage.parts,
            wanted: luggage.wanted,
        };
        Frame::write(&mut &self.socket, FrameKind::Call, &frame.bytes()).ok()?;
        let reply = self.wait(thread)?;
        self.data.unpack(&frame.wanted, &reply)?;
        Some(reply.result)
    }

    /// Waits for the reply to the last request.
    fn wait(&self, thread: i32) -> Option<ReplyFrame> {
        let mut reader = PatientReader {
            socket: &self.socket,
            interrupt: ClientNote::Interrupt {
                thread,
                request: self.last,
            },
        };
        let frame = Frame::read(&mut reader).ok()??;
        let reply = ReplyFrame::parse(&frame.bytes)?;
        let is_own = frame.kind == FrameKind::Reply && reply.request == self.last;
        is_own.then_some(reply)
    }
}

/// Reads for as long as a call takes, and tells the server of signals.
struct PatientReader<'a> {
    socket: &'a ServerSocket,
    interrupt: ClientNote,
}

impl Read for PatientReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.socket.reader().read(bytes);
            match read.as_ref().map_err(io::Error::kind) {
                Err(io::ErrorKind::Interrupted) => {
                    // An error means that the server has gone, which the next read shows.
                    let _ = Frame::send(&mut &*self.socket, &self.interrupt);
                }
                // The time limit of the socket.
                Err(io::ErrorKind::WouldBlock) => {}
                _ => return read,
            }
        }
    }
}

/// The bytes that travel with a call, and those that travel back.
#[derive(Debug, Default, PartialEq, Eq)]
struct Luggage {
    parts: Vec<CallPart>,
    wanted: Vec<WantedPart>,
}

impl Luggage {
    /// The part of a system call. A call that the server will refuse has none.
    fn of_call(request: &CallRequest, data: &PrivateData) -> Self {
        let mut luggage = Self::default();
        let Some((checked, arguments)) = check(request, data).ok().zip(arguments(request)) else {
            return luggage;
        };
        for span in checked.spans() {
            let argument = arguments[span.argument];
            luggage.add(span, argument, request, data);
        }
        luggage
    }

    fn add(
        &mut self,
        span: &SlotSpan,
        argument: Argument,
        request: &CallRequest,
        data: &PrivateData,
    ) {
        if span.offset == 0 || span.length == 0 {
            return;
        }
        if span.flow != Flow::FromKernel || stays_in_part(argument, request) {
            let bytes = data.bytes(span.offset, span.length);
            self.send(span.offset, up_to_end(argument, bytes));
        }
        if span.flow != Flow::ToKernel {
            let is_counted = counts_bytes(span, argument, request, data);
            self.want(span.offset, span.length, is_counted);
        }
    }

    /// The part of a fork or an exec: the name, and the ticket.
    fn of_operation(operation: u32, arguments: &[u64; 6], data: &PrivateData) -> Self {
        let mut luggage = Self::default();
        let [first, second, ..] = *arguments;
        let ticket = TICKET_BYTES as u64;
        if operation == EXEC {
            luggage.send(first, data.bytes(first, NAME_BYTES as u64));
            luggage.want(second, ticket, false);
        } else if operation == FORK {
            luggage.want(first, ticket, false);
        }
        luggage
    }

    fn send(&mut self, offset: u64, bytes: &[u8]) {
        self.parts.push(CallPart {
            offset: offset as u32,
            bytes: bytes.to_vec(),
        });
    }

    fn want(&mut self, offset: u64, length: u64, is_counted: bool) {
        self.wanted.push(WantedPart {
            offset: offset as u32,
            length: length as u32,
            is_counted,
        });
    }
}

/// The arguments of a call that travels.
fn arguments(request: &CallRequest) -> Option<[Argument; 6]> {
    let row = table::find(request.number)?;
    let Way::Arguments(known) = row.way else {
        return None;
    };
    if known.contains(&Argument::Chosen) {
        return choice::arguments(row, known, &request.arguments);
    }
    let mut all = [Argument::Number; 6];
    all[..known.len()].copy_from_slice(known);
    Some(all)
}

/// A text with its zero byte; other bytes are whole.
fn up_to_end(argument: Argument, bytes: &[u8]) -> &[u8] {
    if !matches!(argument, Argument::Text { .. } | Argument::Options) {
        return bytes;
    }
    let zero = bytes.iter().position(|&byte| byte == 0);
    &bytes[..zero.map_or(bytes.len(), |zero| zero + 1)]
}

/// Whether the program looks at more bytes of these than the kernel has written.
fn stays_in_part(argument: Argument, request: &CallRequest) -> bool {
    match argument {
        Argument::Bytes {
            size: Size::Count { .. },
            ..
        } => !counts_its_result(request.number as u32),
        Argument::Pieces { .. } | Argument::Message { .. } => false,
        _ => true,
    }
}

/// Whether only as many bytes matter as the result says.
fn counts_bytes(
    span: &SlotSpan,
    argument: Argument,
    request: &CallRequest,
    data: &PrivateData,
) -> bool {
    match argument {
        Argument::Pieces { .. } => true,
        Argument::Message { .. } => span.form == Form::Slot && is_contents(span, request, data),
        Argument::Bytes {
            size: Size::Count {
                unit: 1, before: 0, ..
            },
            flow: Flow::FromKernel,
        } => counts_its_result(request.number as u32),
        _ => false,
    }
}

/// Whether a part of a message is that of its bytes.
fn is_contents(span: &SlotSpan, request: &CallRequest, data: &PrivateData) -> bool {
    let mut message = [0; MESSAGE_BYTES as usize];
    data.read(request.arguments[span.argument], &mut message);
    u64::from(Message::parse(&message).contents.offset) == span.offset
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: u64 = 64;

    /// The luggage of a call with these data at [`PLACE`].
    fn luggage(number: i64, arguments: [u64; 6], bytes: &[u8]) -> Luggage {
        let mut data = PrivateData(vec![0xee; 4096]);
        data.write(PLACE as usize, bytes);
        let number = number as u64;
        Luggage::of_call(&CallRequest { number, arguments }, &data)
    }

    fn goes(offset: u64, bytes: &[u8]) -> CallPart {
        CallPart {
            offset: offset as u32,
            bytes: bytes.to_vec(),
        }
    }

    fn comes(offset: u64, length: u32, is_counted: bool) -> WantedPart {
        WantedPart {
            offset: offset as u32,
            length,
            is_counted,
        }
    }

    #[test]
    fn texts_go_with_their_zero_byte() {
        let found = luggage(libc::SYS_open, [PLACE, 0, 0, 0, 0, 0], b"/name\0behind");
        assert_eq!(found.parts, [goes(PLACE, b"/name\0")]);
        assert_eq!(found.wanted, []);
    }

    #[test]
    fn counted_bytes_only_come() {
        for (number, is_counted) in [(libc::SYS_read, true), (libc::SYS_readv, true)] {
            let found = luggage(number, [3, PLACE, 100, 0, 0, 0], b"");
            assert_eq!(found.parts, []);
            assert_eq!(found.wanted, [comes(PLACE, 100, is_counted)]);
        }
        // Items of 12 bytes.
        let found = luggage(libc::SYS_epoll_wait, [3, PLACE, 4, 0, 0, 0], b"");
        assert_eq!(found.parts, []);
        assert_eq!(found.wanted, [comes(PLACE, 48, false)]);
        let found = luggage(libc::SYS_write, [3, PLACE, 3, 0, 0, 0], b"abc");
        assert_eq!(
            (found.parts, found.wanted),
            (vec![goes(PLACE, b"abc")], vec![])
        );
    }

    #[test]
    fn what_the_kernel_may_leave_as_it_is_goes_both_ways() {
        let found = luggage(libc::SYS_uname, [PLACE, 0, 0, 0, 0, 0], &[7; 390]);
        assert_eq!(found.parts, [goes(PLACE, &[7; 390])]);
        assert_eq!(found.wanted, [comes(PLACE, 390, false)]);
        // The address, and its length in front of it.
        let bytes = [&8_u32.to_ne_bytes()[..], &[0; 12], &[5; 8]].concat();
        let name = PLACE + 16;
        let found = luggage(libc::SYS_getsockname, [3, name, PLACE, 0, 0, 0], &bytes);
        assert_eq!(found.parts, [goes(name, &[5; 8]), goes(PLACE, &bytes[..4])]);
        assert_eq!(
            found.wanted,
            [comes(name, 8, false), comes(PLACE, 4, false)]
        );
    }

    #[test]
    fn of_a_received_message_only_the_contents_are_counted() {
        let piece = |offset, length| outboard_protocol::message::Piece { offset, length };
        let message = Message {
            name: piece(0, 0),
            contents: piece(512, 300),
            control: piece(1024, 24),
            flags: 0,
        };
        let found = luggage(libc::SYS_recvmsg, [3, PLACE, 0, 0, 0, 0], &message.bytes());
        assert_eq!(found.parts, [goes(PLACE, &message.bytes())]);
        let header = MESSAGE_BYTES as u32;
        let all = [
            comes(PLACE, header, false),
            comes(512, 300, true),
            comes(1024, 24, false),
        ];
        assert_eq!(found.wanted, all);
    }

    #[test]
    fn a_call_that_is_refused_has_no_luggage() {
        for arguments in [[3, 4000, 100, 0, 0, 0], [3, u64::MAX, 1, 0, 0, 0]] {
            assert_eq!(luggage(libc::SYS_read, arguments, b""), Luggage::default());
        }
        assert_eq!(luggage(9, [0; 6], b""), Luggage::default());
    }

    #[test]
    fn a_reply_has_what_was_wanted() {
        let mut data = PrivateData(vec![0; 256]);
        let wanted = [comes(64, 4, true)];
        let reply = |parts: &[&[u8]]| ReplyFrame {
            parts: parts.iter().map(|part| part.to_vec()).collect(),
            ..ReplyFrame::default()
        };
        assert_eq!(data.unpack(&wanted, &reply(&[b"abc"])), Some(()));
        assert_eq!(data.bytes(64, 4), b"abc\0");
        let lies: [&[&[u8]]; 3] = [&[], &[b"abcde"], &[b"a", b"b"]];
        for lie in lies {
            assert_eq!(data.unpack(&wanted, &reply(lie)), None);
        }
        assert_eq!(data.bytes(64, 4), b"abc\0");
    }
}
