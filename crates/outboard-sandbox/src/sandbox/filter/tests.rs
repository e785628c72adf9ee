// SPDX-License-Identifier: GPL-2.0-only
//! The filters run here as programs of the BPF machine, without a kernel.

use super::*;

const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// The half of an argument that a filter loads.
fn half(arguments: &[u64], offset: u32) -> u32 {
    let index = (offset as usize - 16) / 8;
    let argument = arguments.get(index).copied().unwrap_or_default();
    (argument >> (offset % 8 * 8)) as u32
}

/// Runs a filter as the host does, for a call whose arguments are zeroes. Returns the result
/// and the number of instructions.
fn run(filter: &[sock_filter], architecture: u32, number: u32) -> (u32, usize) {
    run_with(filter, architecture, number, &[])
}

fn run_with(
    filter: &[sock_filter],
    architecture: u32,
    number: u32,
    arguments: &[u64],
) -> (u32, usize) {
    let (mut at, mut steps, mut loaded) = (0, 0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = filter[at];
        let taken = match u32::from(code) {
            code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                loaded = match k {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    _ => half(arguments, k),
                };
                0
            }
            code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => {
                loaded &= k;
                0
            }
            code if code == libc::BPF_RET | libc::BPF_K => return (k, steps + 1),
            code if code == libc::BPF_JMP | libc::BPF_JA => k as usize,
            code => {
                let holds = match code & 0xf0 {
                    libc::BPF_JEQ => loaded == k,
                    libc::BPF_JGE => loaded >= k,
                    libc::BPF_JGT => loaded > k,
                    _ => panic!("instruction {code:#x}"),
                };
                usize::from(if holds { jt } else { jf })
            }
        };
        at += 1 + taken;
        steps += 1;
    }
}

/// A filter as the library makes it has one list of all calls.
#[test]
fn the_search_decides_as_a_list_of_all_calls() {
    for (files, memory_files, network) in [
        (true, true, SocketCalls::Messages),
        (false, false, SocketCalls::Nothing),
        (false, false, SocketCalls::Serving),
    ] {
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let wanted = rules(files, memory_files, network, false).unwrap();
        let list = program(wanted.clone(), refused, SeccompAction::Allow).unwrap();
        let filter = allow_only(wanted).unwrap();
        for architecture in [ARCHITECTURE_X86_64, 0x4000_0003] {
            for number in (0..600).chain(X32..X32 + 600).chain([u32::MAX]) {
                let got = run(&filter, architecture, number).0;
                assert_eq!(got, run(&list, architecture, number).0, "{number}");
            }
        }
    }
}

/// The host's number of a system call.
fn number(name: &str) -> u32 {
    let header = std::fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h");
    let header = header.expect("the headers of the host's kernel");
    let define = format!("#define __NR_{name} ");
    let line = header.lines().find_map(|line| line.strip_prefix(&define));
    line.and_then(|text| text.trim().parse().ok())
        .expect("a number")
}

/// Against a list that is not made of the rules.
#[test]
fn tools_may_make_no_call_of_the_list() {
    let list = include_str!("../../../../../tests/program/sandbox/refused_calls.txt");
    let names: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(names.len(), NOT_FOR_PROGRAMS.len());
    for packs in [false, true] {
        let filter = for_programs(packs).unwrap();
        let refuses = |number: u32, arguments: &[u64]| {
            run_with(&filter, ARCHITECTURE_X86_64, number, arguments).0 == REFUSED
        };
        for name in &names {
            assert!(refuses(number(name), &[]), "{name}");
        }
        for x32 in 0..600 {
            assert!(refuses(x32 | X32, &[]), "x32 {x32}");
        }
        for request in [libc::TIOCSTI, libc::TIOCLINUX] {
            assert!(refuses(number("ioctl"), &[0, request]), "{request:#x}");
        }
        for space in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWPID] {
            assert!(refuses(number("clone"), &[space as u64 | 17]));
        }
        let datagrams = [libc::AF_UNIX as u64, libc::SOCK_DGRAM as u64];
        assert!(refuses(number("socketpair"), &datagrams));
        for name in ["prlimit64", "sched_setaffinity", "sched_setscheduler"] {
            assert!(refuses(number(name), &[1]) && !refuses(number(name), &[0]));
        }
        for (name, arguments) in [
            ("ioctl", [0, libc::TCGETS, 0]),
            ("clone", [17, 0, 0]),
            ("madvise", [0, 0, libc::MADV_DONTNEED as u64]),
            ("read", [0, 0, 0]),
        ] {
            assert!(!refuses(number(name), &arguments), "{name}");
        }
        assert!(refuses(number("madvise"), &[0, 0, 100]));
    }
}

/// They may have a capability that permits more.
#[test]
fn packing_tools_have_few_ioctls() {
    let result = |packs, request| {
        let filter = for_programs(packs).unwrap();
        run_with(&filter, ARCHITECTURE_X86_64, number("ioctl"), &[3, request]).0
    };
    for request in [
        0x8004_587d, // EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN
        0x4008_6610, // EXT4_IOC_RESIZE_FS
        0x6611,      // EXT4_IOC_SWAP_BOOT
        0xc004_5877, // FIFREEZE
        0x4008_6602, // FS_IOC_SETFLAGS
        0x5000_940f, // BTRFS_IOC_SNAP_DESTROY
        0x5000_9403, // BTRFS_IOC_RESIZE
    ] {
        assert_eq!(result(true, request), REFUSED, "{request:#x}");
        assert_eq!(result(false, request), libc::SECCOMP_RET_ALLOW);
    }
    for &request in PACKING {
        // The host looks at the lower half only.
        for request in [request, request | 1 << 32] {
            assert_eq!(result(true, request), libc::SECCOMP_RET_ALLOW);
        }
    }
}

/// Calls of the process itself that depend on an argument: one that is allowed, one that is
/// refused.
#[test]
fn arguments_decide() {
    let own = u64::from(std::process::id());
    let (other, shared) = (own + 1, (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64);
    let filter = allow_only(rules(false, false, SocketCalls::Nothing, false).unwrap()).unwrap();
    for (name, allowed, refused) in [
        ("prlimit64", [0, 0, 0, 0], [other, 0, 0, 0]),
        ("kill", [own, 0, 0, 0], [other, 0, 0, 0]),
        ("tgkill", [own, 0, 0, 0], [other, 0, 0, 0]),
        ("rt_tgsigqueueinfo", [own, 0, 0, 0], [other, 0, 0, 0]),
        ("ioctl", [0, libc::TCGETS, 0, 0], [0, libc::TIOCSTI, 0, 0]),
        (
            "fcntl",
            [0, libc::F_GETFL as u64, 0, 0],
            [0, libc::F_SETOWN as u64, 0, 0],
        ),
        (
            "fcntl",
            [0, libc::F_SETFL as u64, libc::O_NONBLOCK as u64, 0],
            [0, libc::F_SETFL as u64, libc::O_ASYNC as u64, 0],
        ),
        (
            "mmap",
            [
                0,
                0,
                0,
                libc::MAP_PRIVATE as u64 | libc::MAP_ANONYMOUS as u64,
            ],
            [0, 0, 0, shared],
        ),
        ("clone", [libc::CLONE_THREAD as u64, 0, 0, 0], [17, 0, 0, 0]),
        ("recvmsg", [1, 0, 0, 0], [3, 0, 0, 0]),
        ("accept4", [0, 0, 0, 0], [3, 0, 0, 0]),
        (
            "prctl",
            [libc::PR_SET_NAME as u64, 0, 0, 0],
            [libc::PR_SET_DUMPABLE as u64, 0, 0, 0],
        ),
    ] {
        let run =
            |arguments: &[u64]| run_with(&filter, ARCHITECTURE_X86_64, number(name), arguments).0;
        assert_eq!(run(&allowed), libc::SECCOMP_RET_ALLOW, "{name}");
        assert_eq!(run(&refused), REFUSED, "{name}");
    }
    for name in [
        "socket",
        "connect",
        "memfd_create",
        "open",
        "execve",
        "fork",
        "ptrace",
    ] {
        let result = run(&filter, ARCHITECTURE_X86_64, number(name)).0;
        assert_eq!(result, REFUSED, "{name}");
    }
}

/// A NAT makes sockets of the Internet, and none that listen. A kernel whose sockets are the
/// host's makes these, too.
#[test]
fn sockets_of_programs() {
    let result = |sockets, name: &str, arguments: &[u64]| {
        let filter = allow_only(rules(false, false, sockets, false).unwrap()).unwrap();
        run_with(&filter, ARCHITECTURE_X86_64, number(name), arguments).0
    };
    let of = |family: i32, kind: i32| [family as u64, kind as u64, 0];
    for sockets in [SocketCalls::Translating, SocketCalls::Everything] {
        for family in [libc::AF_INET, libc::AF_INET6] {
            for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC] {
                let made = result(sockets, "socket", &of(family, kind));
                assert_eq!(made, libc::SECCOMP_RET_ALLOW);
            }
            let raw = result(sockets, "socket", &of(family, libc::SOCK_RAW));
            assert_eq!(raw, REFUSED);
        }
        for family in [libc::AF_UNIX, libc::AF_NETLINK, libc::AF_PACKET] {
            let made = result(sockets, "socket", &of(family, libc::SOCK_DGRAM));
            assert_eq!(made, REFUSED);
        }
    }
    for call in ["bind", "listen"] {
        assert_eq!(result(SocketCalls::Translating, call, &[]), REFUSED);
        assert_eq!(
            result(SocketCalls::Everything, call, &[]),
            libc::SECCOMP_RET_ALLOW
        );
    }
}

#[test]
fn a_filter_takes_few_instructions() {
    let filter = allow_only(rules(true, true, SocketCalls::Nothing, false).unwrap()).unwrap();
    for &call in PLAIN {
        let steps = run(&filter, ARCHITECTURE_X86_64, call as u32).1;
        assert!(steps < 20, "{call}: {steps}");
    }
}

/// A process tells a copy of itself that no more requests come, with every set of calls.
#[test]
fn channels_are_ended() {
    let filter = allow_only(rules(false, false, SocketCalls::Nothing, false).unwrap()).unwrap();
    let result = run(&filter, ARCHITECTURE_X86_64, number("shutdown")).0;
    assert_eq!(result, libc::SECCOMP_RET_ALLOW);
}

#[test]
fn a_server_of_clients_shares_memory_and_sees_peers() {
    let allows = |clients, name: &str, arguments: &[u64]| {
        let rules = rules(false, false, SocketCalls::Nothing, clients).unwrap();
        let filter = allow_only(rules).unwrap();
        let result = run_with(&filter, ARCHITECTURE_X86_64, number(name), arguments).0;
        result == libc::SECCOMP_RET_ALLOW
    };
    let peer = [5, libc::SOL_SOCKET as u64, libc::SO_PEERCRED as u64];
    for (name, arguments) in [
        ("accept4", &[5][..]),
        ("sendmsg", &[5]),
        ("recvmsg", &[5]),
        ("memfd_create", &[]),
        ("getsockopt", &peer),
        (
            "setsockopt",
            &[5, libc::SOL_SOCKET as u64, libc::SO_SNDTIMEO as u64],
        ),
        ("sched_setaffinity", &[0]),
    ] {
        assert!(allows(true, name, arguments), "{name}");
        assert!(!allows(false, name, arguments), "{name}");
    }
    let size = [5, libc::SOL_SOCKET as u64, libc::SO_SNDBUF as u64];
    for (name, arguments) in [
        ("getsockopt", &size[..]),
        ("setsockopt", &size),
        ("sched_setaffinity", &[1]),
        ("socket", &[libc::AF_UNIX as u64]),
        ("connect", &[]),
        ("open", &[]),
    ] {
        assert!(!allows(true, name, arguments), "{name}");
    }
}
