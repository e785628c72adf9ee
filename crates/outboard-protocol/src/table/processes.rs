// SPDX-License-Identifier: MIT
//! Processes, their rights, limits and scheduling.

use crate::argument::{Argument, Size};
use crate::reason::Reason;
use crate::row::{both, bytes, call, from, items, many, refused, to, SystemCall, LENGTH, N};

/// A user's, group's or process's number, or another `int`.
const INT: Argument = from(bytes(4));
/// `struct rlimit`.
const LIMIT: u32 = 16;
/// `struct rusage`.
const USAGE: Argument = from(bytes(144));
/// `struct __user_cap_data_struct`, one or two of them.
/// Linux: include/uapi/linux/capability.h. The version is the first word of the header.
const CAPABILITIES: Size = Size::ByVersion {
    argument: 0,
    versions: [0x2007_1026, 0x2008_0522],
    bytes: 24,
    other: 12,
};
/// `struct sched_attr`, of this and later versions.
const SCHEDULING: Size = Size::Leading {
    more: 0,
    most: 4096,
};

pub(super) const CALLS: &[SystemCall] = &[
    call(24, "sched_yield", &[]),
    call(39, "getpid", &[]),
    refused(56, "clone", Reason::Task),
    refused(57, "fork", Reason::Task),
    refused(58, "vfork", Reason::Task),
    refused(59, "execve", Reason::Task),
    refused(60, "exit", Reason::Task),
    call(61, "wait4", &[N, INT, N, USAGE]),
    call(97, "getrlimit", &[N, from(bytes(LIMIT))]),
    call(98, "getrusage", &[N, USAGE]),
    call(100, "times", &[from(bytes(32))]),
    refused(101, "ptrace", Reason::Code),
    call(102, "getuid", &[]),
    call(104, "getgid", &[]),
    call(105, "setuid", &[N]),
    call(106, "setgid", &[N]),
    call(107, "geteuid", &[]),
    call(108, "getegid", &[]),
    call(109, "setpgid", &[N, N]),
    call(110, "getppid", &[]),
    call(111, "getpgrp", &[]),
    call(112, "setsid", &[]),
    call(113, "setreuid", &[N, N]),
    call(114, "setregid", &[N, N]),
    call(115, "getgroups", &[N, from(items(0, 4))]),
    call(116, "setgroups", &[N, to(items(0, 4))]),
    call(117, "setresuid", &[N, N, N]),
    call(118, "getresuid", &[INT, INT, INT]),
    call(119, "setresgid", &[N, N, N]),
    call(120, "getresgid", &[INT, INT, INT]),
    call(121, "getpgid", &[N]),
    call(122, "setfsuid", &[N]),
    call(123, "setfsgid", &[N]),
    call(124, "getsid", &[N]),
    call(125, "capget", &[both(bytes(8)), from(CAPABILITIES)]),
    call(126, "capset", &[both(bytes(8)), to(CAPABILITIES)]),
    call(135, "personality", &[N]),
    call(140, "getpriority", &[N, N]),
    call(141, "setpriority", &[N, N, N]),
    call(142, "sched_setparam", &[N, to(bytes(4))]),
    call(143, "sched_getparam", &[N, INT]),
    call(144, "sched_setscheduler", &[N, N, to(bytes(4))]),
    call(145, "sched_getscheduler", &[N]),
    call(146, "sched_get_priority_max", &[N]),
    call(147, "sched_get_priority_min", &[N]),
    call(148, "sched_rr_get_interval", &[N, from(bytes(16))]),
    refused(154, "modify_ldt", Reason::Code),
    call(157, "prctl", &[N, Argument::Chosen, N, N, N]),
    refused(158, "arch_prctl", Reason::Code),
    call(160, "setrlimit", &[N, to(bytes(LIMIT))]),
    call(186, "gettid", &[]),
    call(203, "sched_setaffinity", &[N, N, to(many(1))]),
    call(204, "sched_getaffinity", &[N, N, from(many(1))]),
    refused(218, "set_tid_address", Reason::Memory),
    refused(219, "restart_syscall", Reason::Handler),
    refused(231, "exit_group", Reason::Task),
    call(247, "waitid", &[N, N, from(bytes(128)), N, USAGE]),
    call(251, "ioprio_set", &[N, N, N]),
    call(252, "ioprio_get", &[N, N]),
    call(272, "unshare", &[N]),
    call(
        302,
        "prlimit64",
        &[N, N, to(bytes(LIMIT)), from(bytes(LIMIT))],
    ),
    call(308, "setns", &[N, N]),
    call(309, "getcpu", &[INT, INT, Argument::Null]),
    refused(312, "kcmp", Reason::Nested),
    call(314, "sched_setattr", &[N, to(SCHEDULING), N]),
    call(315, "sched_getattr", &[N, from(many(2)), N, N]),
    refused(317, "seccomp", Reason::Code),
    refused(322, "execveat", Reason::Task),
    refused(324, "membarrier", Reason::Memory),
    call(434, "pidfd_open", &[N, N]),
    refused(435, "clone3", Reason::Task),
    call(438, "pidfd_getfd", &[N, N, N]),
    call(444, "landlock_create_ruleset", &[to(many(1)), N, N]),
    call(445, "landlock_add_rule", &[N, N, Argument::Chosen, N]),
    call(446, "landlock_restrict_self", &[N, N]),
    call(448, "process_mrelease", &[N, N]),
    call(
        459,
        "lsm_get_self_attr",
        &[N, from(Size::Pointed { argument: 2 }), LENGTH, N],
    ),
    call(460, "lsm_set_self_attr", &[N, to(many(2)), N, N]),
    call(
        461,
        "lsm_list_modules",
        &[from(Size::Pointed { argument: 1 }), LENGTH, N],
    ),
];
