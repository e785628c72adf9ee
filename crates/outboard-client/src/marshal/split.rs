// SPDX-License-Identifier: MIT
//! Calls that move more bytes than a slot has room for: they become several requests, where nobody
//! can tell the difference, or move fewer bytes, where the call may.

use super::buffer::{ProgramBuffer, MOST_BYTES};
use super::exchange::{exchange, Extent, ProgramCall};
use super::header::MessageHeader;
use super::memory::{word, CallEnd, Carrier, ProgramMemory};
use outboard_protocol::argument::{Argument, Flow};
use outboard_protocol::CallRequest;

const PAGE: u64 = 4096;
const FSTAT: u64 = 5;
const GETSOCKOPT: u64 = 55;
/// Bytes of `struct stat`, and where it has the mode.
const STAT: usize = 144;
const MODE: usize = 24;
/// `RWF_ATOMIC` of pwritev2(2).
const ATOMIC: u64 = 0x40;
const MSG_WAITALL: u64 = 0x100;
const MSG_PEEK: u64 = 2;

/// A call that moves bytes of a descriptor.
#[derive(Clone, Copy, Debug)]
struct Mover {
    /// The argument that leads to the bytes.
    buffer: usize,
    flow: Flow,
    /// The argument that is the position in the file.
    position: Option<usize>,
    /// The argument with flags.
    flags: Option<usize>,
    /// The descriptor has to be a socket.
    is_of_socket: bool,
}

const fn file(flow: Flow, position: Option<usize>, flags: Option<usize>) -> Mover {
    Mover {
        buffer: 1,
        flow,
        position,
        flags,
        is_of_socket: false,
    }
}

const fn socket(flow: Flow, flags: usize) -> Mover {
    Mover {
        buffer: 1,
        flow,
        position: None,
        flags: Some(flags),
        is_of_socket: true,
    }
}

fn mover(number: u32) -> Option<Mover> {
    use Flow::{FromKernel, ToKernel};
    Some(match number {
        // read and readv, write and writev
        0 | 19 => file(FromKernel, None, None),
        1 | 20 => file(ToKernel, None, None),
        // pread64 and preadv, pwrite64 and pwritev
        17 | 295 => file(FromKernel, Some(3), None),
        18 | 296 => file(ToKernel, Some(3), None),
        // preadv2, pwritev2
        327 => file(FromKernel, Some(3), Some(5)),
        328 => file(ToKernel, Some(3), Some(5)),
        // sendto, recvfrom, sendmsg, recvmsg
        44 => socket(ToKernel, 3),
        45 => socket(FromKernel, 3),
        46 => socket(ToKernel, 2),
        47 => socket(FromKernel, 2),
        _ => return None,
    })
}

/// The kind of a descriptor, as far as it matters for pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A regular file or a block device: it has its bytes at once.
    Storage,
    /// A pipe or a socket without messages: bytes come when they come.
    Stream,
    /// A socket with messages.
    Messages,
    /// Anything else.
    Other,
}

/// Makes a call, in several requests if it has to.
pub(super) fn split(
    memory: &mut impl ProgramMemory,
    carrier: &mut impl Carrier,
    call: ProgramCall,
) -> Result<i64, CallEnd> {
    let Some(mover) = mover(call.number) else {
        return exchange(memory, carrier, call, Extent::ALL);
    };
    let (buffer, besides) = buffer_of(memory, call, mover)?;
    let room = room(carrier, besides);
    if buffer.length <= room {
        return exchange(memory, carrier, call, Extent::all_of(mover.buffer));
    }
    let kind = kind(carrier, call.given[0], mover)?;
    if !is_split(call, mover, kind)? {
        let one = Extent {
            argument: mover.buffer,
            skip: 0,
            most: room,
        };
        return exchange(memory, carrier, call, one);
    }
    pieces(memory, carrier, call, mover, (buffer.length, room))
}

/// The bytes that the call moves, and how many others travel with them.
fn buffer_of(
    memory: &impl ProgramMemory,
    call: ProgramCall,
    mover: Mover,
) -> Result<(ProgramBuffer, u64), CallEnd> {
    let (address, count) = (call.given[mover.buffer], call.given[mover.buffer + 1]);
    match call.arguments[mover.buffer] {
        Argument::Pieces { .. } => {
            let buffer = ProgramBuffer::list(memory, address, count, libc::EINVAL)?;
            Ok((buffer, 0))
        }
        Argument::Message { .. } if address == 0 => Ok((ProgramBuffer::at(0, 0), 0)),
        Argument::Message { .. } => {
            let header = MessageHeader::read(memory, address)?;
            let besides = header.name.length.saturating_add(header.control.length);
            Ok((header.contents, besides))
        }
        _ if i64::try_from(count).is_err() => Err(CallEnd::Refused(libc::EINVAL)),
        _ if address == 0 => Ok((ProgramBuffer::at(0, 0), 0)),
        _ => Ok((ProgramBuffer::at(address, count).limited(MOST_BYTES), 0)),
    }
}

/// Room for the bytes: whole pages, for direct input and output.
fn room(carrier: &impl Carrier, besides: u64) -> u64 {
    let size = carrier.size() as u64;
    // Control data take a quarter at most.
    let besides = besides.min(size / 4).next_multiple_of(PAGE);
    size.saturating_sub(PAGE + besides) / PAGE * PAGE
}

/// Whether the call is made in pieces; otherwise it moves what fits.
fn is_split(call: ProgramCall, mover: Mover, kind: Kind) -> Result<bool, CallEnd> {
    let flags = mover.flags.map_or(0, |index| call.given[index]);
    let is_atomic = !mover.is_of_socket && flags & ATOMIC != 0;
    Ok(match (mover.flow, kind) {
        _ if is_atomic => return Err(CallEnd::Refused(libc::EINVAL)),
        (_, Kind::Storage) => true,
        (Flow::ToKernel, Kind::Stream) => true,
        (Flow::ToKernel, Kind::Messages) => return Err(CallEnd::Refused(libc::EMSGSIZE)),
        (_, Kind::Stream) => {
            mover.is_of_socket && flags & MSG_WAITALL != 0 && flags & MSG_PEEK == 0
        }
        (_, Kind::Messages | Kind::Other) => false,
    })
}

/// Asks the kernel what the descriptor is.
fn kind(carrier: &mut impl Carrier, descriptor: u64, mover: Mover) -> Result<Kind, CallEnd> {
    if mover.is_of_socket {
        return socket_kind(carrier, descriptor);
    }
    let status = PAGE as usize;
    ask(carrier, FSTAT, [descriptor, PAGE, 0, 0, 0, 0])?;
    let mut bytes = [0; STAT];
    carrier.read(status, &mut bytes);
    match word(&bytes, MODE) & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFBLK => Ok(Kind::Storage),
        libc::S_IFIFO => Ok(Kind::Stream),
        libc::S_IFSOCK => socket_kind(carrier, descriptor),
        _ => Ok(Kind::Other),
    }
}

fn socket_kind(carrier: &mut impl Carrier, descriptor: u64) -> Result<Kind, CallEnd> {
    let (value, length) = (PAGE, PAGE + 8);
    let (level, option) = (libc::SOL_SOCKET as u64, libc::SO_TYPE as u64);
    carrier.write(length as usize, &4u32.to_ne_bytes());
    ask(
        carrier,
        GETSOCKOPT,
        [descriptor, level, option, value, length, 0],
    )?;
    let mut bytes = [0; 4];
    carrier.read(value as usize, &mut bytes);
    let is_stream = word(&bytes, 0) == libc::SOCK_STREAM as u32;
    Ok(if is_stream {
        Kind::Stream
    } else {
        Kind::Messages
    })
}

/// A call of the client's own. An error is that of the program's call.
fn ask(carrier: &mut impl Carrier, number: u64, arguments: [u64; 6]) -> Result<(), CallEnd> {
    match carrier.call(&CallRequest { number, arguments }) {
        None => Err(CallEnd::Lost),
        Some(result) if result < 0 => Err(CallEnd::Refused(-result as i32)),
        Some(_) => Ok(()),
    }
}

/// Moves piece after piece, until one is short. An error behind the first piece is that of the
/// program's next call.
fn pieces(
    memory: &mut impl ProgramMemory,
    carrier: &mut impl Carrier,
    call: ProgramCall,
    mover: Mover,
    (length, room): (u64, u64),
) -> Result<i64, CallEnd> {
    let mut done = 0;
    while done < length {
        let piece = Extent {
            argument: mover.buffer,
            skip: done,
            most: room,
        };
        let moved = exchange(memory, carrier, further(call, mover, done), piece)?;
        let Ok(bytes) = u64::try_from(moved) else {
            return Ok(if done > 0 { done as i64 } else { moved });
        };
        let asked = (length - done).min(room);
        done += bytes.min(asked);
        if bytes < asked {
            break;
        }
    }
    Ok(done as i64)
}

/// The call for the bytes behind those that are done.
fn further(mut call: ProgramCall, mover: Mover, done: u64) -> ProgramCall {
    // preadv2(2) and pwritev2(2) take -1 for the descriptor's own position.
    if let Some(position) = mover
        .position
        .filter(|&index| call.given[index] != u64::MAX)
    {
        call.given[position] = call.given[position].wrapping_add(done);
    }
    call
}
