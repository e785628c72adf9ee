// SPDX-License-Identifier: MIT
//! Every system call of Linux 6.12 on x86-64, and how its arguments travel.
//!
//! A test compares the table with the kernel's own definitions: it has all calls, with all of their
//! arguments, and an argument is a pointer here if it is one there.

mod files;
mod memory;
mod processes;
mod signals;
mod sockets;
mod system;
mod time;

use crate::row::SystemCall;

/// Numbers are below this.
const NUMBERS: usize = 512;

const GROUPS: [&[SystemCall]; 7] = [
    files::CALLS,
    sockets::CALLS,
    processes::CALLS,
    signals::CALLS,
    memory::CALLS,
    time::CALLS,
    system::CALLS,
];

/// By number.
static CALLS: [Option<&SystemCall>; NUMBERS] = by_number();

/// Fails to compile if a number is there twice.
const fn by_number() -> [Option<&'static SystemCall>; NUMBERS] {
    let mut all = [None; NUMBERS];
    let mut group = 0;
    while group < GROUPS.len() {
        let mut row = 0;
        while row < GROUPS[group].len() {
            let call = &GROUPS[group][row];
            assert!(all[call.number as usize].is_none());
            all[call.number as usize] = Some(call);
            row += 1;
        }
        group += 1;
    }
    all
}

/// The call of that number, if Linux has one.
pub fn find(number: u64) -> Option<&'static SystemCall> {
    *CALLS.get(usize::try_from(number).ok()?)?
}

/// All calls, by number.
pub fn all() -> impl Iterator<Item = &'static SystemCall> {
    CALLS.iter().copied().flatten()
}
