// SPDX-License-Identifier: GPL-2.0-only
//! A server that lies to a client. The first byte chooses one of a few calls, the others are what
//! the server says: results, and bytes in the places of the arguments; they are a message, too. The
//! client writes only where the call may write.

use outboard_client::fuzzing::{make_call, Carrier, ProgramMemory};
use outboard_protocol::client::ClientAnswer;
use outboard_protocol::frames::Frame;
use outboard_protocol::CallRequest;
use std::ops::Range;

const BASE: u64 = 1 << 20;
const MEMORY: usize = 256 << 10;
const SLOT: usize = 64 << 10;
/// Bytes that a lie changes.
const LIE: usize = 160;

/// Places in the program's memory.
const A: usize = 4096;
const B: usize = 512;
const C: usize = 1024;
const D: usize = 2048;

struct Program(Vec<u8>);

impl Program {
    fn range(&self, address: u64, length: usize) -> Range<usize> {
        let start = usize::try_from(address - BASE).expect("an address of the program");
        start..start + length
    }

    /// Numbers of eight bytes at a place.
    fn set(&mut self, place: usize, numbers: &[u64]) {
        for (index, number) in numbers.iter().enumerate() {
            let start = place + 8 * index;
            self.0[start..start + 8].copy_from_slice(&number.to_ne_bytes());
        }
    }
}

impl ProgramMemory for Program {
    fn bytes(&self, address: u64, length: usize) -> &[u8] {
        &self.0[self.range(address, length)]
    }

    fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        let range = self.range(address, length);
        &mut self.0[range]
    }

    fn text_length(&self, address: u64, most: usize) -> usize {
        let bytes = self.bytes(address, most);
        bytes.iter().position(|&byte| byte == 0).unwrap_or(most)
    }
}

/// A call, and where it may write.
struct Sample {
    number: u64,
    arguments: [u64; 6],
    written: Vec<Range<usize>>,
}

fn at(place: usize) -> u64 {
    BASE + place as u64
}

fn span(place: usize, length: usize) -> Range<usize> {
    place..place + length
}

/// A `msghdr` with two parts, an address and control data.
fn header(program: &mut Program, place: usize) -> Vec<Range<usize>> {
    program.set(C, &[at(A), 1000, at(A + 2000), 30]);
    let header = [at(D), 28, at(C), 2, at(D + 64), 100, 0];
    program.set(place, &header);
    vec![
        span(place + 8, 4),
        span(place + 40, 12),
        span(A, 1000),
        span(A + 2000, 30),
        span(D, 28),
        span(D + 64, 100),
    ]
}

fn sample(program: &mut Program, choice: u8) -> Sample {
    let (number, arguments, written) = match choice % 10 {
        // read, within a slot and beyond
        0 => (0, [3, at(A), 1000, 0, 0, 0], vec![span(A, 1000)]),
        1 => (0, [3, at(A), 200_000, 0, 0, 0], vec![span(A, 200_000)]),
        // readv
        2 => {
            program.set(C, &[at(A), 100_000, at(A + 110_000), 7]);
            let written = vec![span(A, 100_000), span(A + 110_000, 7)];
            (19, [3, at(C), 2, 0, 0, 0], written)
        }
        // recvmsg, recvmmsg
        3 => (47, [3, at(B), 0, 0, 0, 0], header(program, B)),
        4 => {
            let mut written = header(program, B);
            written.extend(header(program, B + 64));
            written.extend([span(B + 56, 4), span(B + 120, 4)]);
            (299, [3, at(B), 2, 0, 0, 0], written)
        }
        // getsockopt
        5 => {
            program.set(B, &[64]);
            (
                55,
                [3, 1, 7, at(A), at(B), 0],
                vec![span(A, 64), span(B, 4)],
            )
        }
        // epoll_wait, wait4, getdents64, select
        6 => (232, [3, at(A), 10, 0, 0, 0], vec![span(A, 120)]),
        7 => (
            61,
            [3, at(A), 0, at(B), 0, 0],
            vec![span(A, 4), span(B, 144)],
        ),
        8 => (217, [3, at(A), 100_000, 0, 0, 0], vec![span(A, 100_000)]),
        _ => {
            let written = vec![span(A, 16), span(B, 16), span(C, 16)];
            (23, [65, at(A), 0, at(B), at(C), 0], written)
        }
    };
    Sample {
        number,
        arguments,
        written,
    }
}

/// The lying server.
struct Liar<'a> {
    data: Vec<u8>,
    input: &'a [u8],
}

impl<'a> Liar<'a> {
    fn next(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.input.split_at(most.min(self.input.len()));
        self.input = rest;
        taken
    }
}

impl Carrier for Liar<'_> {
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
        let result = self.next(8).try_into().ok()?;
        for &place in &request.arguments {
            let place = place as usize;
            if place > 0 && place + LIE <= SLOT {
                let lie = self.next(LIE);
                self.write(place, lie);
            }
        }
        Some(i64::from_ne_bytes(result))
    }
}

pub fn run(bytes: &[u8]) {
    let Some((&choice, input)) = bytes.split_first() else {
        return;
    };
    if let Ok(Some(frame)) = Frame::read(&mut &*input) {
        let _ = frame.message::<ClientAnswer>();
    }
    let mut program = Program((0..MEMORY).map(|index| index as u8).collect());
    let Sample {
        number,
        arguments,
        written,
    } = sample(&mut program, choice);
    let before = program.0.clone();
    let mut liar = Liar {
        data: vec![0x5a; SLOT],
        input,
    };
    let _ = make_call(&mut program, &mut liar, number, arguments);
    for range in written {
        program.0[range.clone()].copy_from_slice(&before[range]);
    }
    assert!(program.0 == before, "call {number} has written elsewhere");
}
