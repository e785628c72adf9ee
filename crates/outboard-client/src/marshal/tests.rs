// SPDX-License-Identifier: MIT

use super::*;
use outboard_protocol::argument::{Flow, Size};
use outboard_protocol::message::{Message, BYTES as MESSAGE_BYTES};
use outboard_protocol::row::SystemCall;
use outboard_protocol::{check, CallRequest, Checked, Data, Form, SlotSpan};
use std::collections::VecDeque;

const BASE: u64 = 0x7000_0000;
const READ: u64 = 0;
const WRITE: u64 = 1;
const POLL: u64 = 7;
const READV: u64 = 19;
const WRITEV: u64 = 20;
const SENDTO: u64 = 44;
const RECVFROM: u64 = 45;
const GETSOCKNAME: u64 = 51;
const WAIT4: u64 = 61;
const GETXATTR: u64 = 191;
const GETDENTS64: u64 = 217;
const PWRITEV2: u64 = 328;

/// The memory of a program: one range.
struct Program(Vec<u8>);

impl Program {
    /// All bytes differ from those around them.
    fn new(size: usize) -> Self {
        Self((0..size).map(|index| (index % 251) as u8).collect())
    }

    fn set(&mut self, place: u64, bytes: &[u8]) -> u64 {
        self.bytes_mut(BASE + place, bytes.len())
            .copy_from_slice(bytes);
        BASE + place
    }

    fn set_numbers(&mut self, place: u64, numbers: &[u64]) -> u64 {
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect();
        self.set(place, &bytes)
    }
}

impl ProgramMemory for Program {
    fn bytes(&self, address: u64, length: usize) -> &[u8] {
        let start = address
            .checked_sub(BASE)
            .expect("an address of the program") as usize;
        &self.0[start..start + length]
    }

    fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        let start = address
            .checked_sub(BASE)
            .expect("an address of the program") as usize;
        &mut self.0[start..start + length]
    }

    fn text_length(&self, address: u64, most: usize) -> usize {
        let bytes = self.bytes(address, self.0.len() - (address - BASE) as usize);
        let most = most.min(bytes.len());
        bytes[..most]
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(most)
    }
}

/// A kernel: checks each request, and answers from a list, or by 0.
struct Server {
    data: Vec<u8>,
    results: VecDeque<Option<i64>>,
    requests: Vec<(CallRequest, Checked)>,
    /// The bytes of all spans that went to the kernel.
    seen: Vec<Vec<u8>>,
    /// Bytes with which spans from the kernel are filled.
    fill: Option<u8>,
    /// Changes the data before the answer.
    act: fn(&mut [u8], &CallRequest),
}

impl Data for Server {
    fn size(&self) -> u64 {
        self.data.len() as u64
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        let start = offset as usize;
        bytes.copy_from_slice(&self.data[start..start + bytes.len()]);
    }
}

impl Server {
    fn new(results: &[i64]) -> Self {
        Self {
            data: vec![0xa5; 64 << 10],
            results: results.iter().copied().map(Some).collect(),
            requests: Vec::new(),
            seen: Vec::new(),
            fill: None,
            act: |_, _| {},
        }
    }

    fn numbers(&self) -> Vec<u64> {
        self.requests
            .iter()
            .map(|(request, _)| request.number)
            .collect()
    }

    fn span(&mut self, span: &SlotSpan) -> &mut [u8] {
        let start = span.offset as usize;
        &mut self.data[start..start + span.length as usize]
    }
}

impl Carrier for Server {
    fn size(&self) -> usize {
        self.data.len()
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.data[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.data[offset..offset + bytes.len()]);
    }

    fn call(&mut self, request: &CallRequest) -> Option<i64> {
        let checked = check(request, self).unwrap_or_else(|refusal| {
            panic!("the server refuses {request:?}: {refusal:?}");
        });
        for span in checked.spans() {
            if span.flow != Flow::FromKernel {
                let bytes = self.span(span).to_vec();
                self.seen.push(bytes);
            }
            if let (Some(fill), Flow::FromKernel, Form::Slot | Form::Piece) =
                (self.fill, span.flow, span.form)
            {
                self.span(span).fill(fill);
            }
        }
        (self.act)(&mut self.data, request);
        self.requests.push((*request, checked));
        self.results.pop_front().unwrap_or(Some(0))
    }
}

fn make(program: &mut Program, server: &mut Server, number: u64, given: &[u64]) -> i64 {
    let mut arguments = [0; 6];
    arguments[..given.len()].copy_from_slice(given);
    match make_call(program, server, number, arguments) {
        Ok(result) => result,
        Err(CallEnd::Refused(error)) => -i64::from(error),
        Err(CallEnd::Lost) => panic!("the server has gone"),
    }
}

/// Each argument has so much memory of its own in a sample.
const AREA: u64 = 1024;

/// An argument as a program gives it, and the bytes that its pointer leads to.
fn sample(program: &mut Program, index: usize, argument: Argument) -> u64 {
    let place = AREA * (index as u64 + 1);
    let text = [b'a' + index as u8; 10];
    match argument {
        Argument::Number | Argument::Flags { .. } | Argument::Chosen => 8,
        Argument::Null => 0,
        Argument::Text { .. } | Argument::Options => {
            program.set(place + 10, &[0]);
            program.set(place, &text)
        }
        Argument::Length => program.set(place, &16u32.to_ne_bytes()),
        Argument::Bytes {
            size: Size::Leading { .. },
            ..
        } => program.set(place, &48u32.to_ne_bytes()),
        Argument::Bytes { .. } => BASE + place,
        Argument::SignalSet => program.set_numbers(place, &[BASE + place + 64, 8]),
        Argument::Pieces { .. } => {
            let part = |index: u64| [BASE + place + 512 + 16 * index, 10];
            let parts: Vec<u64> = (0..8).flat_map(part).collect();
            program.set_numbers(place, &parts)
        }
        Argument::Message { .. } => {
            let at = |offset| BASE + place + offset;
            program.set_numbers(place + 64, &[at(256), 10, at(300), 7]);
            program.set_numbers(place, &[at(128), 16, at(64), 2, at(400), 24, 0])
        }
    }
}

/// A call with sample arguments, for each choice that it has.
fn samples(row: &'static SystemCall) -> Vec<(Vec<Argument>, [u64; 6])> {
    let Way::Arguments(known) = row.way else {
        return Vec::new();
    };
    if !known.contains(&Argument::Chosen) {
        return vec![(known.to_vec(), [8; 6])];
    }
    let mut all = Vec::new();
    for command in (0..0x6000).chain([0x8008_6601, 0xc018_5879, 0x80_0007 << 8]) {
        let mut given = [8; 6];
        given[0] = command;
        given[1] = if row.number == 54 || row.number == 55 {
            1
        } else {
            command
        };
        given[2] = command;
        if let Some(found) = choice::arguments(row, known, &given) {
            all.push((found[..known.len()].to_vec(), given));
        }
    }
    assert!(!all.is_empty(), "{row:?} has no choice");
    all
}

/// All that the kernel reads is what the program has, and all that it writes arrives there.
fn check_sample(row: &'static SystemCall, arguments: &[Argument], chosen: [u64; 6]) {
    let mut program = Program::new(8 << 10);
    let mut given = chosen;
    for (index, &argument) in arguments.iter().enumerate() {
        if argument != Argument::Number && !matches!(argument, Argument::Flags { .. }) {
            given[index] = sample(&mut program, index, argument);
        }
    }
    let before = program.0.clone();
    let mut server = Server::new(&[8]);
    server.fill = Some(0xee);
    make(&mut program, &mut server, row.number.into(), &given);
    let [(request, checked)] = &server.requests[..] else {
        panic!("{row:?}: {:?}", server.requests);
    };
    let context = format!("{row:?} {arguments:?} {request:?}");
    assert_eq!(request.number, u64::from(row.number));
    let mut seen = server.seen.iter();
    let mut parts = 0;
    for span in checked.spans() {
        let place = given[span.argument];
        if span.flow != Flow::FromKernel {
            let bytes = seen.next().expect("each span was seen");
            check_read(
                arguments[span.argument],
                &before,
                place - BASE,
                bytes,
                parts,
                &context,
            );
        } else {
            check_written(
                arguments[span.argument],
                &program,
                place,
                span,
                parts,
                &context,
            );
        }
        parts += usize::from(matches!(arguments[span.argument], Argument::Message { .. }));
    }
    for (index, &argument) in arguments.iter().enumerate() {
        let is_sent = checked.spans().any(|span| span.argument == index);
        let is_pointer = argument.is_pointer() && argument != Argument::Null;
        assert_eq!(is_sent, is_pointer, "{context}");
        if !is_pointer && !matches!(arguments[index.max(1) - 1], Argument::Pieces { .. }) {
            assert_eq!(request.arguments[index], given[index], "{context}");
        }
    }
}

/// The place of the bytes of a message's part, or of a list, are in the program.
fn places(argument: Argument, place: u64, part: usize) -> Vec<(u64, u64)> {
    match (argument, part) {
        (Argument::Pieces { .. }, _) => (0..8).map(|i| (place + 512 + 16 * i, 10)).collect(),
        (Argument::Message { .. }, 1) => vec![(place + 128, 16)],
        (Argument::Message { .. }, 2) => vec![(place + 256, 10), (place + 300, 7)],
        (Argument::Message { .. }, 3) => vec![(place + 400, 24)],
        (Argument::SignalSet, _) => vec![(place + 64, 8)],
        _ => Vec::new(),
    }
}

fn check_read(
    argument: Argument,
    before: &[u8],
    place: u64,
    bytes: &[u8],
    part: usize,
    context: &str,
) {
    let range = |(start, length): (u64, u64)| &before[start as usize..(start + length) as usize];
    match argument {
        Argument::Text { .. } | Argument::Options => {
            assert_eq!(bytes[..11], *range((place, 11)), "{context}");
        }
        Argument::Message { .. } if part == 0 => {
            assert_eq!(bytes.len(), MESSAGE_BYTES as usize);
        }
        Argument::Message { .. } | Argument::Pieces { .. } | Argument::SignalSet => {
            let expected: Vec<u8> = places(argument, place, part)
                .into_iter()
                .flat_map(|place| range(place).to_vec())
                .collect();
            assert_eq!(bytes, expected, "{context}");
        }
        _ => assert_eq!(bytes, range((place, bytes.len() as u64)), "{context}"),
    }
}

fn check_written(
    argument: Argument,
    program: &Program,
    place: u64,
    span: &SlotSpan,
    part: usize,
    context: &str,
) {
    // The result is 8: so many bytes or items, and no more, arrive of what has a length.
    let fill = |address, length| {
        let bytes = program.bytes(address, length);
        assert!(
            bytes.iter().all(|&byte| byte == 0xee),
            "{context} {bytes:?}"
        );
    };
    match argument {
        Argument::Pieces { .. } | Argument::Message { .. } => {
            let (first, _) = places(argument, place, part)[0];
            fill(first, 8);
        }
        _ => fill(place, span.length.min(8) as usize),
    }
}

#[test]
fn the_server_accepts_all_calls_as_they_are_laid_out() {
    let mut count = 0;
    for row in table::all() {
        for (arguments, chosen) in samples(row) {
            check_sample(row, &arguments, chosen);
            count += 1;
        }
    }
    assert!(count > 500, "{count} samples");
}

#[test]
fn null_stays_null() {
    for row in table::all() {
        for (arguments, chosen) in samples(row) {
            let mut given = chosen;
            for (index, argument) in arguments.iter().enumerate() {
                if argument.is_pointer() {
                    given[index] = 0;
                }
            }
            let (mut program, mut server) = (Program::new(0), Server::new(&[]));
            make(&mut program, &mut server, row.number.into(), &given);
            for (request, _) in &server.requests {
                for (index, argument) in arguments.iter().enumerate() {
                    let is_list = matches!(argument, Argument::Pieces { .. });
                    assert!(is_list || !argument.is_pointer() || request.arguments[index] == 0);
                }
            }
        }
    }
}

#[test]
fn refused_calls_need_no_server() {
    let (mut program, mut server) = (Program::new(0), Server::new(&[]));
    let mut refused = |number, given: &[u64]| {
        let result = make(&mut program, &mut server, number, given);
        assert!(server.requests.is_empty());
        -result as i32
    };
    assert_eq!(refused(9, &[]), libc::EOPNOTSUPP);
    assert_eq!(refused(57, &[]), libc::EOPNOTSUPP);
    assert_eq!(refused(172, &[]), libc::ENOSYS);
    assert_eq!(refused(500, &[]), libc::ENOSYS);
    assert_eq!(refused(u64::MAX, &[]), libc::ENOSYS);
    // A command that no table has, MSG_ZEROCOPY, a text for reboot(2).
    assert_eq!(refused(16, &[3, 0x8946, BASE]), libc::EINVAL);
    assert_eq!(refused(SENDTO, &[3, 0, 0, 0x400_0000]), libc::EINVAL);
    assert_eq!(refused(169, &[0, 0, 0, BASE]), libc::EINVAL);
    // Negative counts, too many parts.
    assert_eq!(refused(POLL, &[BASE, u64::MAX, 0]), libc::EINVAL);
    assert_eq!(refused(READV, &[3, BASE, 1025]), libc::EINVAL);
    assert_eq!(refused(READV, &[3, 0, 1]), libc::EFAULT);
    assert_eq!(refused(READ, &[3, BASE, u64::MAX]), libc::EINVAL);
}

#[test]
fn a_read_copies_what_the_result_says() {
    let mut program = Program::new(4096);
    let before = program.0.clone();
    let mut server = Server::new(&[5, -9]);
    server.fill = Some(0xee);
    assert_eq!(
        make(&mut program, &mut server, READ, &[3, BASE + 10, 100]),
        5
    );
    assert_eq!(program.0[10..15], [0xee; 5]);
    assert_eq!(program.0[15..], before[15..]);
    assert_eq!(
        make(&mut program, &mut server, READ, &[3, BASE + 100, 100]),
        -9
    );
    assert_eq!(program.0[15..], before[15..]);
}

#[test]
fn a_server_that_lies_writes_only_where_there_is_room() {
    let mut program = Program::new(4096);
    let before = program.0.clone();
    let mut server = Server::new(&[i64::MAX]);
    server.fill = Some(0xee);
    make(&mut program, &mut server, READ, &[3, BASE, 100]);
    assert_eq!(program.0[..100], [0xee; 100]);
    assert_eq!(program.0[100..], before[100..]);
    // A name that is longer than the room for it: the length is the kernel's.
    let length = program.set(200, &16u32.to_ne_bytes());
    let mut server = Server::new(&[0]);
    server.fill = Some(0xdd);
    server.act = |data, request| {
        let place = request.arguments[2] as usize;
        data[place..place + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
    };
    make(
        &mut program,
        &mut server,
        GETSOCKNAME,
        &[3, BASE + 300, length],
    );
    assert_eq!(program.0[300..316], [0xdd; 16]);
    assert_eq!(program.0[316..], before[316..]);
    assert_eq!(program.0[200..204], [0xff; 4]);
}

#[test]
fn bytes_that_the_kernel_does_not_write_stay() {
    let mut program = Program::new(4096);
    let before = program.0.clone();
    let given = [1, BASE + 8, 0, BASE + 64];
    make(&mut program, &mut Server::new(&[0]), WAIT4, &given);
    assert_eq!(program.0, before);
}

#[test]
fn parts_of_a_list_travel_as_one() {
    let mut program = Program::new(4096);
    program.set(1000, b"abcdefgh");
    let list = program.set_numbers(0, &[BASE + 1000, 3, 0, 0, BASE + 1003, 5]);
    let mut server = Server::new(&[8]);
    assert_eq!(make(&mut program, &mut server, WRITEV, &[3, list, 3]), 8);
    assert_eq!(server.seen, [b"abcdefgh".to_vec()]);
    let mut server = Server::new(&[4]);
    server.fill = Some(b'z');
    assert_eq!(make(&mut program, &mut server, READV, &[3, list, 3]), 4);
    assert_eq!(program.0[1000..1008], *b"zzzzefgh");
}

#[test]
fn a_message_brings_its_lengths_back() {
    let mut program = Program::new(4096);
    let list = program.set_numbers(512, &[BASE + 1000, 100]);
    let header = [BASE + 600, 16, list, 1, BASE + 700, 32, 0];
    let header = program.set_numbers(0, &header);
    let mut server = Server::new(&[7]);
    server.fill = Some(b'z');
    server.act = |data, request| {
        let place = request.arguments[1] as usize;
        let range = place..place + MESSAGE_BYTES as usize;
        let mut message = Message::parse(data[range.clone()].try_into().unwrap());
        message.name.length = 28;
        message.control.length = 20;
        message.flags = 0x20;
        data[range].copy_from_slice(&message.bytes());
    };
    assert_eq!(make(&mut program, &mut server, 47, &[3, header, 0]), 7);
    assert_eq!(program.0[1000..1007], [b'z'; 7]);
    assert_ne!(program.0[1007], b'z');
    assert_eq!((program.0[8], program.0[40], program.0[48]), (28, 20, 0x20));
    assert!(program.0[600..616] == [b'z'; 16] && program.0[616] != b'z');
    assert!(program.0[700..720] == [b'z'; 20] && program.0[720] != b'z');
}

/// The mode for fstat(2), or the type of a socket for getsockopt(2).
fn kind<const MODE: u32, const TYPE: u32>(data: &mut [u8], request: &CallRequest) {
    let (argument, place, value) = match request.number {
        5 => (1, 24, MODE),
        55 => (3, 0, TYPE),
        _ => return,
    };
    let start = request.arguments[argument] as usize + place;
    data[start..start + 4].copy_from_slice(&value.to_ne_bytes());
}

const FILE: u32 = libc::S_IFREG;
const SOCKET: u32 = libc::S_IFSOCK;
const ROOM: i64 = 60 << 10;

#[test]
fn files_are_read_and_written_in_pieces() {
    let mut program = Program::new(200 << 10);
    let mut server = Server::new(&[0, ROOM, ROOM, 100]);
    server.act = kind::<FILE, 0>;
    let result = make(&mut program, &mut server, READ, &[3, BASE, 200 << 10]);
    assert_eq!(result, 2 * ROOM + 100);
    assert_eq!(server.numbers(), [5, 0, 0, 0]);

    let expected = program.0.clone();
    let half = 100 << 10;
    let list = BASE + (199 << 10);
    program.set_numbers(199 << 10, &[BASE, half, BASE + half, half - 4096]);
    let mut server = Server::new(&[0, ROOM, ROOM, ROOM, 16 << 10]);
    server.act = kind::<FILE, 0>;
    let given = [3, list, 2, 5000, 0, 0];
    let result = make(&mut program, &mut server, PWRITEV2, &given);
    assert_eq!(result, 196 << 10);
    let positions: Vec<_> = server.requests[1..]
        .iter()
        .map(|(r, _)| r.arguments[3])
        .collect();
    assert_eq!(
        positions,
        [5000, 5000 + 61440, 5000 + 2 * 61440, 5000 + 3 * 61440]
    );
    assert!(server.seen.concat() == expected[..196 << 10]);
    // RWF_ATOMIC
    let given = [3, list, 2, 5000, 0, 0x40];
    assert_eq!(make(&mut program, &mut server, PWRITEV2, &given), -22);
}

#[test]
fn an_error_behind_a_piece_is_that_of_the_next_call() {
    let mut program = Program::new(200 << 10);
    let mut server = Server::new(&[0, ROOM, -28]);
    server.act = kind::<FILE, 0>;
    assert_eq!(
        make(&mut program, &mut server, WRITE, &[3, BASE, 200 << 10]),
        ROOM
    );
    let mut server = Server::new(&[0, -28]);
    server.act = kind::<FILE, 0>;
    assert_eq!(
        make(&mut program, &mut server, WRITE, &[3, BASE, 200 << 10]),
        -28
    );
    let mut server = Server::new(&[-9]);
    assert_eq!(
        make(&mut program, &mut server, WRITE, &[3, BASE, 200 << 10]),
        -9
    );
}

#[test]
fn streams_are_written_in_pieces_but_read_once() {
    let mut program = Program::new(200 << 10);
    let mut server = Server::new(&[0, 0, ROOM, ROOM, 1000]);
    server.act = kind::<SOCKET, 1>;
    let result = make(&mut program, &mut server, WRITE, &[3, BASE, 200 << 10]);
    assert_eq!(result, 2 * ROOM + 1000);
    assert_eq!(server.numbers(), [5, 55, 1, 1, 1]);
    let mut server = Server::new(&[0, ROOM]);
    server.act = kind::<{ libc::S_IFIFO }, 0>;
    assert_eq!(
        make(&mut program, &mut server, READ, &[3, BASE, 200 << 10]),
        ROOM
    );
    assert_eq!(server.numbers(), [5, 0]);
    // MSG_WAITALL
    let mut server = Server::new(&[0, ROOM, ROOM, 0]);
    server.act = kind::<SOCKET, 1>;
    let given = [3, BASE, 200 << 10, 0x100, 0, 0];
    assert_eq!(make(&mut program, &mut server, RECVFROM, &given), 2 * ROOM);
    assert_eq!(server.numbers(), [55, 45, 45, 45]);
}

#[test]
fn messages_are_never_split() {
    let mut program = Program::new(200 << 10);
    for number in [WRITE, SENDTO] {
        let mut server = Server::new(&[]);
        server.act = kind::<SOCKET, 2>;
        let result = make(&mut program, &mut server, number, &[3, BASE, 200 << 10]);
        assert_eq!(result, -i64::from(libc::EMSGSIZE));
        assert!(!server.numbers().contains(&number));
    }
}

#[test]
fn an_address_goes_with_each_piece() {
    let mut program = Program::new(200 << 10);
    let name = program.set(150 << 10, &[7; 16]);
    let mut server = Server::new(&[0, ROOM, 40 << 10]);
    server.act = kind::<SOCKET, 1>;
    let given = [3, BASE, 100 << 10, 0, name, 16];
    assert_eq!(make(&mut program, &mut server, SENDTO, &given), 100 << 10);
    assert_eq!(server.seen[server.seen.len() - 1], [7; 16]);
}

#[test]
fn lists_that_do_not_fit_are_shorter_or_refused() {
    let mut program = Program::new(4 << 20);
    let mut server = Server::new(&[100]);
    let given = [3, BASE, 1 << 20];
    assert_eq!(make(&mut program, &mut server, GETDENTS64, &given), 100);
    assert_eq!(server.requests[0].0.arguments[2], ROOM as u64);
    program.set(2 << 20, b"user.x\0");
    let path = BASE + (2 << 20);
    let mut server = Server::new(&[-i64::from(libc::ERANGE)]);
    let given = [path, path, BASE, 1 << 20];
    let result = make(&mut program, &mut server, GETXATTR, &given);
    assert_eq!(result, -i64::from(libc::E2BIG));
    let mut server = Server::new(&[]);
    let result = make(&mut program, &mut server, POLL, &[BASE, 100_000, 0]);
    assert_eq!(result, -i64::from(libc::ENOMEM));
    assert!(server.requests.is_empty());
}

#[test]
fn long_texts_end_in_the_kernel() {
    let mut program = Program::new(8 << 10);
    program.0.fill(b'x');
    let mut server = Server::new(&[-i64::from(libc::ENAMETOOLONG)]);
    make(&mut program, &mut server, 2, &[BASE, 0]);
    assert_eq!(server.seen[0], vec![b'x'; 4096]);
}

#[test]
fn upper_halves_of_short_numbers_do_not_matter() {
    let mut program = Program::new(4096);
    let high = 0xdead_beef << 32;
    let mut server = Server::new(&[]);
    make(&mut program, &mut server, POLL, &[BASE, high | 2, 0]);
    make(&mut program, &mut server, 16, &[3, high | 0x541b, BASE]);
    assert_eq!(server.requests[0].0.arguments[1], 2);
    assert_eq!(server.requests[1].0.arguments[1], 0x541b);
}

#[test]
fn several_messages_are_calls_of_their_own() {
    let mut program = Program::new(4096);
    let list = program.set_numbers(2048, &[BASE + 3000, 5]);
    for index in 0..3 {
        program.set_numbers(64 * index, &[0, 0, list, 1, 0, 0, 0, 0]);
    }
    let mut server = Server::new(&[5, 4, -11]);
    assert_eq!(make(&mut program, &mut server, 307, &[3, BASE, 3, 0]), 2);
    assert_eq!(server.numbers(), [46, 46, 46]);
    assert_eq!((program.0[56], program.0[64 + 56]), (5, 4));
    let mut server = Server::new(&[5, -11]);
    // MSG_WAITFORONE
    assert_eq!(
        make(&mut program, &mut server, 299, &[3, BASE, 3, 0x1_0000, 0]),
        1
    );
    assert_eq!(server.requests[1].0.arguments[2], 0x40);
    let timeout = program.set_numbers(1024, &[0, 0]);
    let mut server = Server::new(&[5, 5, 5]);
    assert_eq!(
        make(&mut program, &mut server, 299, &[3, BASE, 3, 0, timeout]),
        1
    );
}

#[test]
fn a_lost_server_is_no_result() {
    let (mut program, mut server) = (Program::new(4096), Server::new(&[]));
    server.results.push_back(None);
    let end = make_call(&mut program, &mut server, READ, [3, BASE, 10, 0, 0, 0]);
    assert_eq!(end, Err(CallEnd::Lost));
}
