// SPDX-License-Identifier: MIT
//! Calls whose bytes do not fit into a slot, and calls whose counts are of four bytes.

/// The fate of a call whose bytes do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Larger {
    /// The kernel hears of as many items as fit, and may return fewer anyway.
    Shorter,
    /// So, but `ERANGE` would say that a larger buffer helps: it becomes `E2BIG`.
    ShorterOrTooBig,
    /// The call fails with this error number.
    Refused(i32),
}

/// By the number of the call.
pub(super) fn larger(number: u32) -> Larger {
    match number {
        // getdents, getdents64, readlink, readlinkat, getcwd, getrandom, epoll_wait, epoll_pwait,
        // epoll_pwait2, listmount, statmount, msgrcv, mq_timedreceive, syslog, getgroups, keyctl,
        // sched_getaffinity, sched_setaffinity
        78 | 217 | 89 | 267 | 79 | 318 | 232 | 281 | 441 | 458 | 457 | 70 | 243 | 103 | 115
        | 250 | 204 | 203 => Larger::Shorter,
        // getxattr, listxattr, and their kin
        191..=196 => Larger::ShorterOrTooBig,
        // poll, ppoll, select, pselect6, setgroups, init_module, add_key, setsockopt
        7 | 271 | 23 | 270 | 116 | 175 | 248 | 54 => Larger::Refused(libc::ENOMEM),
        // mq_timedsend
        242 => Larger::Refused(libc::EMSGSIZE),
        // connect, bind, sendto, msgsnd, sethostname, setdomainname, signalfd, signalfd4,
        // sched_getattr, rt_sigprocmask, rt_sigpending, rt_sigtimedwait, rt_sigsuspend
        42 | 49 | 44 | 69 | 170 | 171 | 282 | 289 | 315 | 14 | 127 | 128 | 130 => {
            Larger::Refused(libc::EINVAL)
        }
        _ => Larger::Refused(libc::E2BIG),
    }
}

/// The argument of a call that is `int` or `unsigned int`, and counts something: the kernel does
/// not look at the upper half, in which a C program may leave anything.
fn short_count(number: u32) -> Option<usize> {
    match number {
        // select, getgroups, setgroups, pselect6
        23 | 115 | 116 | 270 => Some(0),
        // poll, sethostname, setdomainname, sched_setaffinity, sched_getaffinity, ppoll
        7 | 170 | 171 | 203 | 204 | 271 => Some(1),
        // connect, bind, semop, getdents, readlink, syslog, getdents64, semtimedop,
        // epoll_wait, epoll_pwait, sched_getattr, epoll_pwait2, lsm_set_self_attr
        42 | 49 | 65 | 78 | 89 | 103 | 217 | 220 | 232 | 281 | 315 | 441 | 460 => Some(2),
        // readlinkat
        267 => Some(3),
        // setsockopt
        54 => Some(4),
        // sendto
        44 => Some(5),
        _ => None,
    }
}

/// The arguments of a call by which the rest travels: all are `int` or `unsigned int`.
fn choosers(number: u32) -> &'static [usize] {
    match number {
        // sysfs, prctl, quotactl, keyctl
        139 | 157 | 179 | 250 => &[0],
        // ioctl, shmctl, msgctl, fcntl, fsconfig, quotactl_fd, landlock_add_rule
        16 | 31 | 71 | 72 | 431 | 443 | 445 => &[1],
        // setsockopt, getsockopt
        54 | 55 => &[1, 2],
        // semctl
        66 => &[2],
        _ => &[],
    }
}

const LOW: u64 = u32::MAX as u64;

/// The arguments without the upper halves that no call looks at. `None`: a count is negative.
pub(super) fn normalized(number: u32, mut given: [u64; 6]) -> Option<[u64; 6]> {
    for &index in choosers(number) {
        given[index] &= LOW;
    }
    if let Some(index) = short_count(number) {
        given[index] &= LOW;
        if given[index] > i32::MAX as u64 {
            return None;
        }
    }
    Some(given)
}

/// Whether the result of a call is the number of items that the kernel has written.
pub(crate) fn counts_its_result(number: u32) -> bool {
    matches!(
        number,
        // read, pread64, recvfrom, msgrcv, getdents, getcwd, readlink, getgroups, getxattr and its
        // kin, listxattr and its kin, sched_getaffinity, getdents64, epoll_wait, mq_timedreceive,
        // readlinkat, epoll_pwait, getrandom, epoll_pwait2, listmount
        0 | 17 | 45 | 70 | 78 | 79 | 89 | 115 | 191
            ..=196 | 204 | 217 | 232 | 243 | 267 | 281 | 318 | 441 | 458
    )
}
