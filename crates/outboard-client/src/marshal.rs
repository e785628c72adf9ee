// SPDX-License-Identifier: MIT
//! How a program's call becomes requests of the protocol, and its results the program's again.
//!
//! | file | does |
//! |---|---|
//! | `memory` | the program's memory, and the slot, as this sees them |
//! | `buffer`, `header` | the program's `iovec` and `msghdr` |
//! | `exchange` | one request |
//! | `split`, `larger`, `several` | calls that are several requests, or do not fit |

mod buffer;
mod exchange;
mod header;
mod larger;
mod memory;
mod several;
mod split;

use exchange::ProgramCall;
pub(crate) use larger::counts_its_result;
pub use memory::{CallEnd, Carrier, ProgramMemory};
use outboard_protocol::argument::Argument;
use outboard_protocol::choice;
use outboard_protocol::reason::Reason;
use outboard_protocol::row::Way;
use outboard_protocol::table;

const SENDMSG: u32 = 46;
const RECVMSG: u32 = 47;
const RECVMMSG: u32 = 299;
const SENDMMSG: u32 = 307;

/// Makes a system call: the number, and six arguments as a program gives them. Returns the result
/// as the kernel has it: -4095 to -1 is an error. Calls that do not travel are refused here as the
/// server would refuse them.
pub fn make_call(
    memory: &mut impl ProgramMemory,
    carrier: &mut impl Carrier,
    number: u64,
    given: [u64; 6],
) -> Result<i64, CallEnd> {
    let refused = |error| Err(CallEnd::Refused(error));
    let Some(row) = table::find(number) else {
        return refused(libc::ENOSYS);
    };
    let known = match row.way {
        Way::Arguments(known) => known,
        Way::Refused(Reason::Several) => return make_several(memory, carrier, row.number, given),
        Way::Refused(Reason::Machine) => return refused(libc::ENOSYS),
        Way::Refused(_) => return refused(libc::EOPNOTSUPP),
    };
    let Some(given) = larger::normalized(row.number, given) else {
        return refused(libc::EINVAL);
    };
    let chosen;
    let mut arguments = known;
    if known.contains(&Argument::Chosen) {
        let Some(all) = choice::arguments(row, known, &given) else {
            return refused(libc::EINVAL);
        };
        chosen = all;
        arguments = &chosen[..known.len()];
    }
    let call = ProgramCall {
        number: row.number,
        arguments,
        given,
    };
    split::split(memory, carrier, call)
}

fn make_several(
    memory: &mut impl ProgramMemory,
    carrier: &mut impl Carrier,
    number: u32,
    mut given: [u64; 6],
) -> Result<i64, CallEnd> {
    let one = match number {
        RECVMMSG => RECVMSG,
        SENDMMSG => {
            given[4] = 0;
            SENDMSG
        }
        _ => return Err(CallEnd::Refused(libc::EOPNOTSUPP)),
    };
    several::several(memory, given, |memory, address, flags| {
        let arguments = [given[0], address, flags, 0, 0, 0];
        make_call(memory, carrier, one.into(), arguments)
    })
}

#[cfg(test)]
mod tests;
