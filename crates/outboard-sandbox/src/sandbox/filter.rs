// SPDX-License-Identifier: GPL-2.0-only
//! The allowed system calls. All others fail with EPERM: no sockets unless the command reaches
//! servers, no new processes, no signals to others, no mounts, no tracing.

use super::access::SocketCalls;
use seccompiler::{
    apply_filter, apply_filter_all_threads, sock_filter, BpfProgram, Result, SeccompAction,
    SeccompCmpArgLen::{Dword, Qword},
    SeccompCmpOp::{Eq, MaskedEq, Ne},
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls on descriptors, memory, time and the process itself.
const PLAIN: &[i64] = &[
    // Data.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_fadvise64,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    // Descriptors.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_pipe2,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    // The end of messages to another process of this command.
    libc::SYS_shutdown,
    libc::SYS_eventfd2,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Keys stay out of swap.
    libc::SYS_mlock,
    libc::SYS_membarrier,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_getpid,
    // Signals of its own.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time.
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_times,
    // Queries.
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_getrlimit,
    libc::SYS_getrandom,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_umask,
];

/// Calls that find files by name, and change them.
const FILES: &[i64] = &[
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_statfs,
    libc::SYS_getcwd,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    // Of a directory that the kernel mounts.
    libc::SYS_syncfs,
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

/// Calls on TCP connections to servers. New sockets: see [`tcp`].
const CONNECTIONS: &[i64] = &[
    libc::SYS_connect,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
];

/// Messages of several pieces on sockets. The sandbox's sockets pass no descriptors.
const MESSAGES: &[i64] = &[libc::SYS_sendmsg, libc::SYS_recvmsg];

/// Connections to sockets that listen already.
const ACCEPTED: &[i64] = &[libc::SYS_accept, libc::SYS_accept4];

/// New sockets that listen.
const LISTENING: &[i64] = &[libc::SYS_bind, libc::SYS_listen];

/// Calls of a server of front-ends: connections to sockets that listen already, messages that bring
/// descriptors, the names of these descriptors, and memory that other ports of a hub map.
const SERVING: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_readlink,
    libc::SYS_memfd_create,
];

/// Calls of a kernel that processes of the host use: connections to sockets that listen already,
/// and memory that is shared with these processes.
const CLIENTS: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_memfd_create,
];

/// Calls that no tool for images needs: network, signals to others, other processes, mounts, the
/// machine.
const NOT_FOR_PROGRAMS: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    // Root's capability for attributes would permit these.
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_acct,
    // Objects and processes of others.
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

/// Calls whose first argument is a process: a tool may make them for itself alone, as 0.
const ON_PROCESSES: &[i64] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Allowed ioctls on terminals, disks and files of the host. Not TIOCSTI, which types on the user's
/// terminal.
const CONTROLS: &[u64] = &[
    libc::TCGETS,
    libc::TCSETS,
    libc::TCSETSW,
    libc::TCSETSF,
    libc::TIOCGWINSZ,
    libc::FIONREAD,
    libc::FIONBIO,
    0x8008_1272, // BLKGETSIZE64
    0x1268,      // BLKSSZGET
    0x1277,      // BLKDISCARD
    0x127f,      // BLKZEROOUT
    0x8008_6601, // FS_IOC_GETFLAGS
    0x4008_6602, // FS_IOC_SETFLAGS
    0x8004_e500, // FUSE_DEV_IOC_CLONE
];

/// Allowed commands of fcntl(2). Not F_SETOWN and F_SETSIG, with which the host sends signals to
/// others.
const DESCRIPTORS: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
    libc::F_GETPIPE_SZ,
    libc::F_SETPIPE_SZ,
];

/// The bit in numbers of x32 system calls, if the host has them.
const X32: u32 = 0x4000_0000;

/// Ioctls that type on the user's terminal.
const TYPING: &[u64] = &[libc::TIOCSTI, libc::TIOCLINUX];

/// The only ioctls of tools that pack a tree. Root's capability for attributes permits many on
/// files that are open to be read: they stop or resize a whole file system, or delete parts of it.
const PACKING: &[u64] = &[
    libc::TCGETS,
    libc::TCGETS2,
    libc::TIOCGWINSZ,
    libc::FIONREAD,
    libc::FIOCLEX,
    0x1260,      // BLKGETSIZE
    0x8008_1272, // BLKGETSIZE64
    0x1268,      // BLKSSZGET
    0x127b,      // BLKPBSZGET
    0x125e,      // BLKROGET
    0x127c,      // BLKDISCARDZEROES
    0xc020_660b, // FS_IOC_FIEMAP
    0x8008_6601, // FS_IOC_GETFLAGS
];

/// Advice to madvise(2) that takes memory from the host: MADV_HWPOISON and MADV_SOFT_OFFLINE.
const POISON: &[u64] = &[100, 101];

/// Flags of clone(2) that make namespaces.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule> {
    Ok(SeccompRule::new(conditions)?)
}

/// Calls that are allowed if an argument has one of some values.
fn with_argument(number: u8, values: &[u64]) -> Result<Vec<SeccompRule>> {
    let one = |&value| rule(vec![SeccompCondition::new(number, Dword, Eq, value)?]);
    values.iter().map(one).collect()
}

/// Calls that are refused if an argument has none of some values.
fn without_argument(number: u8, values: &[u64]) -> Result<Vec<SeccompRule>> {
    let one = |&value| Ok(SeccompCondition::new(number, Dword, Ne, value)?);
    let others = values.iter().map(one).collect::<Result<Vec<_>>>()?;
    Ok(vec![rule(others)?])
}

/// New mappings are private: no limit counts shared memory.
fn mappings() -> Result<Vec<SeccompRule>> {
    let anonymous = libc::MAP_ANONYMOUS as u64;
    let of_file = SeccompCondition::new(3, Dword, MaskedEq(anonymous), 0)?;
    let private = SeccompCondition::new(3, Dword, MaskedEq(0xf), libc::MAP_PRIVATE as u64)?;
    Ok(vec![rule(vec![of_file])?, rule(vec![private])?])
}

/// Pairs of connected stream sockets: a line editor uses one for signals. No datagram sockets,
/// which can send to other sockets.
fn pairs() -> Result<Vec<SeccompRule>> {
    let local = SeccompCondition::new(0, Dword, Eq, libc::AF_UNIX as u64)?;
    let stream = SeccompCondition::new(1, Dword, MaskedEq(0xf), libc::SOCK_STREAM as u64)?;
    Ok(vec![rule(vec![local, stream])?])
}

/// Sockets for TCP.
fn tcp() -> Result<Vec<SeccompRule>> {
    let one = |family: i32| {
        let family = SeccompCondition::new(0, Dword, Eq, family as u64)?;
        let stream = SeccompCondition::new(1, Dword, MaskedEq(0xf), libc::SOCK_STREAM as u64)?;
        let tcp = SeccompCondition::new(2, Dword, MaskedEq(!6), 0)?;
        rule(vec![family, stream, tcp])
    };
    Ok(vec![one(libc::AF_INET)?, one(libc::AF_INET6)?])
}

/// Sockets of IPv4 and IPv6 that need no rights: no raw ones.
fn internet() -> Result<Vec<SeccompRule>> {
    let one = |(family, kind): (i32, i32)| {
        let family = SeccompCondition::new(0, Dword, Eq, family as u64)?;
        let kind = SeccompCondition::new(1, Dword, MaskedEq(0xf), kind as u64)?;
        rule(vec![family, kind])
    };
    let (v4, v6) = (libc::AF_INET, libc::AF_INET6);
    let (stream, datagram) = (libc::SOCK_STREAM, libc::SOCK_DGRAM);
    [(v4, stream), (v6, stream), (v4, datagram), (v6, datagram)]
        .into_iter()
        .map(one)
        .collect()
}

/// Datagram sockets, which reach other sockets by name.
fn datagrams() -> Result<Vec<SeccompRule>> {
    let datagram = SeccompCondition::new(1, Dword, MaskedEq(0xf), libc::SOCK_DGRAM as u64)?;
    Ok(vec![rule(vec![datagram])?])
}

/// Options of sockets, by their levels and names.
fn socket_options(options: &[(i32, i32)]) -> Result<Vec<SeccompRule>> {
    let one = |&(level, name): &(i32, i32)| {
        let of_level = SeccompCondition::new(1, Dword, Eq, level as u64)?;
        let named = SeccompCondition::new(2, Dword, Eq, name as u64)?;
        rule(vec![of_level, named])
    };
    options.iter().map(one).collect()
}

/// No file sends signals about its events.
fn descriptors() -> Result<Vec<SeccompRule>> {
    let numbers: Vec<u64> = DESCRIPTORS.iter().map(|&command| command as u64).collect();
    let mut rules = with_argument(1, &numbers)?;
    let flags = SeccompCondition::new(1, Dword, Eq, libc::F_SETFL as u64)?;
    let silent = SeccompCondition::new(2, Dword, MaskedEq(libc::O_ASYNC as u64), 0)?;
    rules.push(rule(vec![flags, silent])?);
    Ok(rules)
}

/// New threads, but no processes.
fn threads() -> Result<Vec<SeccompRule>> {
    let thread = libc::CLONE_THREAD as u64;
    let is_thread = SeccompCondition::new(0, Qword, MaskedEq(thread), thread)?;
    Ok(vec![rule(vec![is_thread])?])
}

/// The allowed calls of a sandbox. `files`: host files are opened; `memory_files`: so are files in
/// memory; `clients`: processes of the host use the kernel.
fn rules(files: bool, memory_files: bool, sockets: SocketCalls, clients: bool) -> Result<Rules> {
    let own = [u64::from(std::process::id())];
    let or_zero = [0, u64::from(std::process::id())];
    let about_itself = [
        libc::PR_SET_NAME,
        libc::PR_GET_NAME,
        libc::PR_GET_TIMERSLACK,
        libc::PR_SET_TIMERSLACK,
        libc::PR_SET_NO_NEW_PRIVS,
    ]
    .map(|option| option as u64);
    let mut rules: Rules = PLAIN.iter().map(|&call| (call, Vec::new())).collect();
    if files {
        rules.extend(FILES.iter().map(|&call| (call, Vec::new())));
    }
    if memory_files {
        rules.insert(libc::SYS_memfd_create, Vec::new());
        // Needed to apply the second filter.
        rules.insert(libc::SYS_seccomp, Vec::new());
    }
    rules.insert(libc::SYS_socketpair, pairs()?);
    // The server of a mount gets the FUSE device from its keeper, over its standard output.
    let output = [libc::STDOUT_FILENO as u64];
    rules.insert(libc::SYS_recvmsg, with_argument(0, &output)?);
    // The control socket of a run in the background listens before, as its standard input.
    let input = [libc::STDIN_FILENO as u64];
    rules.insert(libc::SYS_accept4, with_argument(0, &input)?);
    if clients {
        rules.extend(CLIENTS.iter().map(|&call| (call, Vec::new())));
        let peer = [(libc::SOL_SOCKET, libc::SO_PEERCRED)];
        rules.insert(libc::SYS_getsockopt, socket_options(&peer)?);
        let waits = [
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        ];
        rules.insert(libc::SYS_setsockopt, socket_options(&waits)?);
        // A thread may choose its own processors.
        rules.insert(libc::SYS_sched_setaffinity, with_argument(0, &[0])?);
    }
    let on_sockets: &[&[i64]] = match sockets {
        SocketCalls::Nothing => &[],
        SocketCalls::Connections => &[CONNECTIONS],
        SocketCalls::Messages => &[CONNECTIONS, MESSAGES],
        SocketCalls::Serving => &[SERVING],
        SocketCalls::Translating => &[CONNECTIONS, MESSAGES, ACCEPTED],
        SocketCalls::Everything => &[CONNECTIONS, MESSAGES, ACCEPTED, LISTENING],
    };
    let on_sockets = on_sockets.iter().copied().flatten();
    rules.extend(on_sockets.map(|&call| (call, Vec::new())));
    if matches!(sockets, SocketCalls::Connections | SocketCalls::Messages) {
        rules.insert(libc::SYS_socket, tcp()?);
    }
    if matches!(sockets, SocketCalls::Translating | SocketCalls::Everything) {
        rules.insert(libc::SYS_socket, internet()?);
    }
    rules.insert(libc::SYS_fcntl, descriptors()?);
    rules.insert(libc::SYS_mmap, mappings()?);
    rules.insert(libc::SYS_clone, threads()?);
    // The next filter refuses it in another way.
    rules.insert(libc::SYS_clone3, Vec::new());
    rules.insert(libc::SYS_ioctl, with_argument(1, CONTROLS)?);
    rules.insert(libc::SYS_prctl, with_argument(0, &about_itself)?);
    for call in [
        libc::SYS_kill,
        libc::SYS_tgkill,
        libc::SYS_rt_tgsigqueueinfo,
    ] {
        rules.insert(call, with_argument(0, &own)?);
    }
    rules.insert(libc::SYS_prlimit64, with_argument(0, &or_zero)?);
    Ok(rules)
}

fn program(rules: Rules, default: SeccompAction, matched: SeccompAction) -> Result<BpfProgram> {
    Ok(SeccompFilter::new(rules, default, matched, TargetArch::x86_64)?.try_into()?)
}

/// A binary search finds calls whose arguments do not matter. Behind it, a filter checks the others
/// one by one. When a filter is installed, the host runs it for each call number: with one list of
/// all calls, that took longer than starting the kernel.
fn allow_only(rules: Rules) -> Result<BpfProgram> {
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let (plain, checked): (Rules, Rules) =
        rules.into_iter().partition(|(_, rules)| rules.is_empty());
    let numbers: Vec<u32> = plain.into_keys().map(|number| number as u32).collect();
    let search = search(&ranges(&numbers));
    let mut whole = vec![load(ARCHITECTURE)];
    whole.push(jump(libc::BPF_JEQ, ARCHITECTURE_X86_64, 1, 0));
    whole.push(go(search.len() + 1));
    whole.push(load(NUMBER));
    whole.extend(search);
    whole.extend(program(checked, refused, SeccompAction::Allow)?);
    Ok(whole)
}

/// Offsets in struct seccomp_data, and AUDIT_ARCH_X86_64.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARCHITECTURE_X86_64: u32 = 0xc000_003e;

fn instruction(code: u32, jt: usize, jf: usize, k: u32) -> sock_filter {
    let short = |distance| u8::try_from(distance).expect("a search that is not that long");
    sock_filter {
        code: code as u16,
        jt: short(jt),
        jf: short(jf),
        k,
    }
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

/// Skips instructions: one number if the comparison of the loaded value with `k` holds, another if
/// not.
fn jump(comparison: u32, k: u32, jt: usize, jf: usize) -> sock_filter {
    instruction(libc::BPF_JMP | comparison | libc::BPF_K, jt, jf, k)
}

fn go(distance: usize) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, distance as u32)
}

/// The first and last number of each run of consecutive numbers. `numbers`: sorted.
fn ranges(numbers: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

/// Allows the call if the loaded number is in one of the ranges. Otherwise continues with the next
/// instruction.
fn search(ranges: &[(u32, u32)]) -> BpfProgram {
    match ranges {
        [] => Vec::new(),
        [(first, last)] => vec![
            jump(libc::BPF_JGE, *first, 0, 2),
            jump(libc::BPF_JGT, *last, 1, 0),
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ],
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let (mut below, above) = (search(low), search(high));
            below.push(go(above.len()));
            let mut both = vec![jump(libc::BPF_JGE, high[0].0, below.len(), 0)];
            both.extend(below);
            both.extend(above);
            both
        }
    }
}

/// A filter cannot see the flags of clone3(). The C library uses clone() if clone3() is missing.
fn without_clone3() -> Result<BpfProgram> {
    let clone3 = [(libc::SYS_clone3, Vec::new())].into_iter().collect();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    program(clone3, SeccompAction::Allow, missing)
}

/// Filters the calling thread and the threads that it creates, until the kernel has booted.
pub fn apply(sockets: SocketCalls, clients: bool) -> Result<()> {
    let first = allow_only(rules(true, true, sockets, clients)?)?;
    // If two filters refuse a call, the last one decides the error.
    apply_filter(&first)?;
    apply_filter(&without_clone3()?)
}

/// The filter for programs: only calls that are known to be needless are forbidden, and all x32
/// calls. `packs`: the program may have the capability for attributes.
fn for_programs(packs: bool) -> Result<BpfProgram> {
    let apart = |&flag: &i32| {
        let flag = flag as u64;
        rule(vec![SeccompCondition::new(0, Qword, MaskedEq(flag), flag)?])
    };
    let apart = NAMESPACES.iter().map(apart).collect::<Result<Vec<_>>>()?;
    let mut rules: Rules = NOT_FOR_PROGRAMS
        .iter()
        .map(|&call| (call, Vec::new()))
        .collect();
    rules.insert(libc::SYS_clone, apart);
    let controls = if packs {
        without_argument(1, PACKING)?
    } else {
        with_argument(1, TYPING)?
    };
    rules.insert(libc::SYS_ioctl, controls);
    rules.insert(libc::SYS_madvise, with_argument(2, POISON)?);
    rules.insert(libc::SYS_socketpair, datagrams()?);
    for &call in ON_PROCESSES {
        rules.insert(call, without_argument(0, &[0])?);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let mut whole = vec![
        load(NUMBER),
        jump(libc::BPF_JGE, X32, 0, 1),
        instruction(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            u32::from(refused.clone()),
        ),
    ];
    whole.extend(program(rules, SeccompAction::Allow, refused)?);
    Ok(whole)
}

/// Filters the calling thread and the programs that it starts. `packs`: they pack a tree.
pub fn apply_to_programs(packs: bool) -> Result<()> {
    apply_filter(&for_programs(packs)?)?;
    apply_filter(&without_clone3()?)
}

/// Whether the host has no seccomp.
pub fn is_missing(error: &seccompiler::Error) -> bool {
    let seccompiler::Error::Seccomp(error) = error else {
        return false;
    };
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL))
}

/// A joined thread may stay on the host's list for a moment, with filters of its own.
const SYNC_TRIES: u32 = 10_000;

/// Filters all threads from now on. `files`: whether files of the host are still opened.
pub fn apply_to_all(files: bool, sockets: SocketCalls, clients: bool) -> Result<()> {
    let filter = allow_only(rules(files, false, sockets, clients)?)?;
    let mut tries = 0;
    loop {
        match apply_filter_all_threads(&filter) {
            Err(seccompiler::Error::ThreadSync(_)) if tries < SYNC_TRIES => tries += 1,
            result => return result,
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests;
