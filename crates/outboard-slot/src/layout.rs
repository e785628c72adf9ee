// SPDX-License-Identifier: MIT
//! The places of all things in a slot. All numbers are in the processor's order.
//!
//! One side writes each of them. Those that the two write often lie on cache lines of their own.

/// The number of the last request; a futex. The client's.
pub const REQUEST: usize = 0;
/// The number of the last request that is done; a futex. The server's.
pub const REPLY: usize = 64;
/// 1: the server waits for a wake-up at [`REQUEST`]. The server's.
pub const SERVER_SLEEPS: usize = 128;
/// The processor on which the server ran last. The server's.
pub const SERVER_PROCESSOR: usize = 136;
/// 1: the client waits for a wake-up at [`REPLY`]. The client's.
pub const CLIENT_SLEEPS: usize = 192;
/// The processor on which the client ran last. The client's.
pub const CLIENT_PROCESSOR: usize = 200;
/// The operation: one of those below. The client's.
pub const OPERATION: usize = 256;
/// The number of the system call. The client's.
pub const NUMBER: usize = 264;
/// Six arguments of 8 bytes each. The client's.
pub const ARGUMENTS: usize = 272;
/// The result. The server's.
pub const RESULT: usize = 384;
/// The bytes to which pointers lead. Offsets count from here; 0 is NULL, so nothing lies there.
pub const DATA: usize = 4096;

/// Operation: make the system call.
pub const CALL: u32 = 0;
/// Operation: copy the process as fork(2) does. The first argument is the offset of
/// [`TICKET_BYTES`] bytes, which receive the ticket by which the copy's host process attaches.
pub const FORK: u32 = 1;
/// Operation: as execve(2), without a program. The first argument is the offset of the new name,
/// the second that of [`TICKET_BYTES`] bytes for the ticket of the next program.
pub const EXEC: u32 = 2;
/// Operation: the thread ends. There is no reply.
pub const LEAVE: u32 = 3;
/// Operation: the process ends as by exit_group(2), with the first argument as its status.
pub const EXIT: u32 = 4;

/// Bytes of a ticket.
pub const TICKET_BYTES: usize = 16;
/// Most bytes of a name, with the zero byte: those that Linux keeps.
pub const NAME_BYTES: usize = 16;

/// The least and the most bytes of data that a slot may have.
pub const DATA_SIZES: std::ops::RangeInclusive<usize> = 64 << 10..=16 << 20;
