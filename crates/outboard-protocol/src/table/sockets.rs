// SPDX-License-Identifier: MIT
//! Sockets.

use crate::argument::{Argument, Flow, Size};
use crate::reason::Reason;
use crate::row::{bytes, call, from, many, refused, to, SystemCall, LENGTH, N};

/// `MSG_ZEROCOPY` sends pages of the slot, also after the call.
const FLAGS: Argument = Argument::Flags {
    refused: 0x400_0000,
};

const fn pointed(argument: usize) -> Argument {
    from(Size::Pointed { argument })
}

const fn message(flow: Flow) -> Argument {
    Argument::Message { flow }
}

pub(super) const CALLS: &[SystemCall] = &[
    call(41, "socket", &[N, N, N]),
    call(42, "connect", &[N, to(many(2)), N]),
    call(43, "accept", &[N, pointed(2), LENGTH]),
    call(44, "sendto", &[N, to(many(2)), N, FLAGS, to(many(5)), N]),
    call(
        45,
        "recvfrom",
        &[N, from(many(2)), N, N, pointed(5), LENGTH],
    ),
    call(46, "sendmsg", &[N, message(Flow::ToKernel), FLAGS]),
    call(47, "recvmsg", &[N, message(Flow::FromKernel), N]),
    call(48, "shutdown", &[N, N]),
    call(49, "bind", &[N, to(many(2)), N]),
    call(50, "listen", &[N, N]),
    call(51, "getsockname", &[N, pointed(2), LENGTH]),
    call(52, "getpeername", &[N, pointed(2), LENGTH]),
    call(53, "socketpair", &[N, N, N, from(bytes(8))]),
    call(54, "setsockopt", &[N, N, N, Argument::Chosen, N]),
    call(55, "getsockopt", &[N, N, N, Argument::Chosen, LENGTH]),
    call(288, "accept4", &[N, pointed(2), LENGTH, N]),
    refused(299, "recvmmsg", Reason::Several),
    refused(307, "sendmmsg", Reason::Several),
];
