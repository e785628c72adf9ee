// SPDX-License-Identifier: MIT
//! Signals.

use crate::argument::Argument;
use crate::reason::Reason;
use crate::row::{bytes, call, from, many, refused, to, SystemCall, N};

/// `siginfo_t`.
const INFO: u32 = 128;
/// `struct timespec`.
const TIME: Argument = to(bytes(16));

pub(super) const CALLS: &[SystemCall] = &[
    refused(13, "rt_sigaction", Reason::Handler),
    call(14, "rt_sigprocmask", &[N, to(many(3)), from(many(3)), N]),
    refused(15, "rt_sigreturn", Reason::Handler),
    call(34, "pause", &[]),
    call(62, "kill", &[N, N]),
    call(127, "rt_sigpending", &[from(many(1)), N]),
    call(
        128,
        "rt_sigtimedwait",
        &[to(many(3)), from(bytes(INFO)), TIME, N],
    ),
    call(129, "rt_sigqueueinfo", &[N, N, to(bytes(INFO))]),
    call(130, "rt_sigsuspend", &[to(many(1)), N]),
    refused(131, "sigaltstack", Reason::Handler),
    call(200, "tkill", &[N, N]),
    call(234, "tgkill", &[N, N, N]),
    call(282, "signalfd", &[N, to(many(2)), N]),
    call(289, "signalfd4", &[N, to(many(2)), N, N]),
    call(297, "rt_tgsigqueueinfo", &[N, N, N, to(bytes(INFO))]),
    call(424, "pidfd_send_signal", &[N, N, to(bytes(INFO)), N]),
];
