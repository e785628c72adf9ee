// SPDX-License-Identifier: MIT
//! Clocks, timers and events.

use crate::argument::Argument;
use crate::row::{both, bytes, call, from, to, SystemCall, N};

/// `struct timeval`, `struct timespec` or `struct timezone` and what the kernel reads of them.
const GIVEN: Argument = to(bytes(16));
const GOT: Argument = from(bytes(16));
/// `struct itimerval` or `struct itimerspec`.
const TIMER: u32 = 32;
/// `struct timex`.
const TUNING: Argument = both(bytes(208));

pub(super) const CALLS: &[SystemCall] = &[
    call(35, "nanosleep", &[GIVEN, GOT]),
    call(36, "getitimer", &[N, from(bytes(TIMER))]),
    call(37, "alarm", &[N]),
    call(38, "setitimer", &[N, to(bytes(TIMER)), from(bytes(TIMER))]),
    call(96, "gettimeofday", &[GOT, from(bytes(8))]),
    call(159, "adjtimex", &[TUNING]),
    call(164, "settimeofday", &[GIVEN, to(bytes(8))]),
    call(201, "time", &[from(bytes(8))]),
    call(222, "timer_create", &[N, to(bytes(64)), from(bytes(4))]),
    call(
        223,
        "timer_settime",
        &[N, N, to(bytes(TIMER)), from(bytes(TIMER))],
    ),
    call(224, "timer_gettime", &[N, from(bytes(TIMER))]),
    call(225, "timer_getoverrun", &[N]),
    call(226, "timer_delete", &[N]),
    call(227, "clock_settime", &[N, GIVEN]),
    call(228, "clock_gettime", &[N, GOT]),
    call(229, "clock_getres", &[N, GOT]),
    call(230, "clock_nanosleep", &[N, N, GIVEN, GOT]),
    call(283, "timerfd_create", &[N, N]),
    call(284, "eventfd", &[N]),
    call(
        286,
        "timerfd_settime",
        &[N, N, to(bytes(TIMER)), from(bytes(TIMER))],
    ),
    call(287, "timerfd_gettime", &[N, from(bytes(TIMER))]),
    call(290, "eventfd2", &[N, N]),
    call(305, "clock_adjtime", &[N, TUNING]),
];
