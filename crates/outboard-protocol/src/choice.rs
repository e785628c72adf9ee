// SPDX-License-Identifier: MIT
//! Calls of which one argument says how another travels: commands, options, and levels of sockets.
//!
//! The kernel hands some of them to drivers and protocols, which may find addresses in any
//! structure. So only those travel that are here.

mod command;
mod ioctl;
mod option;

use crate::argument::{Argument, Size};
use crate::row::{from, many, to, SystemCall, N};

/// The arguments of a call that has an [`Argument::Chosen`]; those that it does not have are
/// numbers. `None`: the choice is not known.
pub fn arguments(call: &SystemCall, known: &[Argument], given: &[u64; 6]) -> Option<[Argument; 6]> {
    let mut all = [N; 6];
    all[..known.len()].copy_from_slice(known);
    if call.number == KEYCTL {
        all[1..5].copy_from_slice(&find(command::KEYS, given[0])?);
        return Some(all);
    }
    let chosen = match call.number {
        SETSOCKOPT => option::is_known(given[1], given[2]).then_some(to(many(4))),
        GETSOCKOPT => option::is_known(given[1], given[2]).then_some(POINTED),
        number => find(rows(number), command_of(number, given)),
    }?;
    for argument in &mut all {
        if *argument == Argument::Chosen {
            *argument = chosen;
        }
    }
    Some(all)
}

/// The argument that chooses, without what does not matter for that.
fn command_of(number: u32, given: &[u64; 6]) -> u64 {
    match number {
        139 | 157 => given[0],
        66 => given[2],
        // The lowest byte is the kind of the quota.
        179 => given[0] >> 8,
        443 => given[1] >> 8,
        _ => given[1],
    }
}

fn find<T: Copy>(rows: &[(u64, T)], command: u64) -> Option<T> {
    let found = rows.iter().find(|(number, _)| *number == command);
    found.map(|(_, argument)| *argument)
}

/// The rows of a call's table: the command, and how the argument that it chooses travels.
pub fn rows(number: u32) -> &'static [(u64, Argument)] {
    match number {
        16 => ioctl::COMMANDS,
        31 => command::SHARED_MEMORY,
        66 => command::SEMAPHORES,
        71 => command::MESSAGES,
        72 => command::DESCRIPTOR,
        139 => command::FILE_SYSTEMS,
        157 => command::PROCESS,
        179 | 443 => command::QUOTAS,
        431 => command::CONFIGURATION,
        445 => command::RULES,
        _ => &[],
    }
}

/// Its options have several pointers.
const KEYCTL: u32 = 250;
const SETSOCKOPT: u32 = 54;
const GETSOCKOPT: u32 = 55;
/// A value of getsockopt(2).
const POINTED: Argument = from(Size::Pointed { argument: 4 });
