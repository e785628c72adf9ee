// SPDX-License-Identifier: MIT
//! Messages and semaphores of System V and POSIX, keys, modules, and the system as a whole.

use crate::argument::{Argument, Flow, Size};
use crate::reason::Reason;
use crate::row::{bytes, call, from, items, many, refused, to, SystemCall, N, NAME, PATH};

/// `struct timespec`.
const TIME: Argument = to(bytes(16));
/// `struct mq_attr`.
const QUEUE: u32 = 64;
/// `struct sembuf`.
const SEMAPHORES: Argument = to(items(2, 6));

/// `struct msgbuf`: its type, and as many bytes as the argument says.
const fn typed(flow: Flow, argument: usize) -> Argument {
    let size = Size::Count {
        argument,
        unit: 1,
        before: 8,
    };
    Argument::Bytes { flow, size }
}

pub(super) const CALLS: &[SystemCall] = &[
    call(29, "shmget", &[N, N, N]),
    call(31, "shmctl", &[N, N, Argument::Chosen]),
    call(63, "uname", &[from(bytes(390))]),
    call(64, "semget", &[N, N, N]),
    call(65, "semop", &[N, SEMAPHORES, N]),
    call(66, "semctl", &[N, N, N, Argument::Chosen]),
    call(68, "msgget", &[N, N]),
    call(69, "msgsnd", &[N, typed(Flow::ToKernel, 2), N, N]),
    call(70, "msgrcv", &[N, typed(Flow::FromKernel, 2), N, N, N]),
    call(71, "msgctl", &[N, N, Argument::Chosen]),
    call(99, "sysinfo", &[from(bytes(112))]),
    call(103, "syslog", &[N, from(many(2)), N]),
    call(139, "sysfs", &[N, Argument::Chosen, N]),
    call(153, "vhangup", &[]),
    call(169, "reboot", &[N, N, N, Argument::Null]),
    call(170, "sethostname", &[to(many(1)), N]),
    call(171, "setdomainname", &[to(many(1)), N]),
    refused(172, "iopl", Reason::Machine),
    refused(173, "ioperm", Reason::Machine),
    call(175, "init_module", &[to(many(1)), N, PATH]),
    call(176, "delete_module", &[NAME, N]),
    call(220, "semtimedop", &[N, SEMAPHORES, N, TIME]),
    call(240, "mq_open", &[NAME, N, N, to(bytes(QUEUE))]),
    call(241, "mq_unlink", &[NAME]),
    call(242, "mq_timedsend", &[N, to(many(2)), N, N, TIME]),
    call(
        243,
        "mq_timedreceive",
        &[N, from(many(2)), N, from(bytes(4)), TIME],
    ),
    refused(244, "mq_notify", Reason::Nested),
    call(
        245,
        "mq_getsetattr",
        &[N, to(bytes(QUEUE)), from(bytes(QUEUE))],
    ),
    refused(246, "kexec_load", Reason::Machine),
    call(248, "add_key", &[NAME, PATH, to(many(3)), N, N]),
    call(249, "request_key", &[NAME, PATH, PATH, N]),
    call(250, "keyctl", &[N, Argument::Chosen, N, N, N]),
    refused(298, "perf_event_open", Reason::Code),
    call(313, "finit_module", &[N, PATH, N]),
    call(318, "getrandom", &[from(many(1)), N, N]),
    refused(320, "kexec_file_load", Reason::Machine),
    refused(321, "bpf", Reason::Nested),
    refused(335, "uretprobe", Reason::Code),
];
