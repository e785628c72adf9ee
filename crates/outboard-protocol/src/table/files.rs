// SPDX-License-Identifier: MIT
//! Files, directories, file systems, and what waits for them.

use crate::argument::{Argument, Flow, Size};
use crate::reason::Reason;
use crate::row::{both, bytes, call, from, items, many, refused, to, SystemCall, N, NAME, PATH};

const READ: Argument = Argument::Pieces {
    flow: Flow::FromKernel,
};
const WRITE: Argument = Argument::Pieces {
    flow: Flow::ToKernel,
};
/// `struct stat`.
const STAT: Argument = from(bytes(144));
/// `struct statfs`.
const STATFS: Argument = from(bytes(120));
/// Two `struct timeval`, or two `struct timespec`.
const TIMES: Argument = to(bytes(32));
const TIME: Argument = to(bytes(16));
/// A position in a file.
const OFFSET: Argument = both(bytes(8));
/// A set of descriptors for select(2).
const SET: Argument = both(Size::Bits { argument: 0 });
/// `struct epoll_event`.
const EVENT: u32 = 12;
/// `struct pollfd`.
const POLL: Argument = both(items(1, 8));
const TWO: Argument = from(bytes(8));
/// `struct file_handle`, with at most `MAX_HANDLE_SZ` bytes.
const HANDLE: Size = Size::Leading {
    more: 8,
    most: 8 + 128,
};
/// `struct mnt_id_req`, of this and later versions.
const MOUNT: Argument = to(Size::Leading {
    more: 0,
    most: 4096,
});

pub(super) const CALLS: &[SystemCall] = &[
    call(0, "read", &[N, from(many(2)), N]),
    call(1, "write", &[N, to(many(2)), N]),
    call(2, "open", &[PATH, N, N]),
    call(3, "close", &[N]),
    call(4, "stat", &[PATH, STAT]),
    call(5, "fstat", &[N, STAT]),
    call(6, "lstat", &[PATH, STAT]),
    call(7, "poll", &[POLL, N, N]),
    call(8, "lseek", &[N, N, N]),
    call(16, "ioctl", &[N, N, Argument::Chosen]),
    call(17, "pread64", &[N, from(many(2)), N, N]),
    call(18, "pwrite64", &[N, to(many(2)), N, N]),
    call(19, "readv", &[N, READ, N]),
    call(20, "writev", &[N, WRITE, N]),
    call(21, "access", &[PATH, N]),
    call(22, "pipe", &[TWO]),
    call(23, "select", &[N, SET, SET, SET, both(bytes(16))]),
    call(32, "dup", &[N]),
    call(33, "dup2", &[N, N]),
    call(40, "sendfile", &[N, N, OFFSET, N]),
    call(72, "fcntl", &[N, N, Argument::Chosen]),
    call(73, "flock", &[N, N]),
    call(74, "fsync", &[N]),
    call(75, "fdatasync", &[N]),
    call(76, "truncate", &[PATH, N]),
    call(77, "ftruncate", &[N, N]),
    call(78, "getdents", &[N, from(many(2)), N]),
    call(79, "getcwd", &[from(many(1)), N]),
    call(80, "chdir", &[PATH]),
    call(81, "fchdir", &[N]),
    call(82, "rename", &[PATH, PATH]),
    call(83, "mkdir", &[PATH, N]),
    call(84, "rmdir", &[PATH]),
    call(85, "creat", &[PATH, N]),
    call(86, "link", &[PATH, PATH]),
    call(87, "unlink", &[PATH]),
    call(88, "symlink", &[PATH, PATH]),
    call(89, "readlink", &[PATH, from(many(2)), N]),
    call(90, "chmod", &[PATH, N]),
    call(91, "fchmod", &[N, N]),
    call(92, "chown", &[PATH, N, N]),
    call(93, "fchown", &[N, N, N]),
    call(94, "lchown", &[PATH, N, N]),
    call(95, "umask", &[N]),
    call(132, "utime", &[PATH, TIME]),
    call(133, "mknod", &[PATH, N, N]),
    call(136, "ustat", &[N, from(bytes(32))]),
    call(137, "statfs", &[PATH, STATFS]),
    call(138, "fstatfs", &[N, STATFS]),
    call(155, "pivot_root", &[PATH, PATH]),
    call(161, "chroot", &[PATH]),
    call(162, "sync", &[]),
    call(163, "acct", &[PATH]),
    call(165, "mount", &[PATH, PATH, NAME, N, Argument::Options]),
    call(166, "umount2", &[PATH, N]),
    call(167, "swapon", &[PATH, N]),
    call(168, "swapoff", &[PATH]),
    call(179, "quotactl", &[N, PATH, N, Argument::Chosen]),
    call(187, "readahead", &[N, N, N]),
    call(188, "setxattr", &[PATH, NAME, to(many(3)), N, N]),
    call(189, "lsetxattr", &[PATH, NAME, to(many(3)), N, N]),
    call(190, "fsetxattr", &[N, NAME, to(many(3)), N, N]),
    call(191, "getxattr", &[PATH, NAME, from(many(3)), N]),
    call(192, "lgetxattr", &[PATH, NAME, from(many(3)), N]),
    call(193, "fgetxattr", &[N, NAME, from(many(3)), N]),
    call(194, "listxattr", &[PATH, from(many(2)), N]),
    call(195, "llistxattr", &[PATH, from(many(2)), N]),
    call(196, "flistxattr", &[N, from(many(2)), N]),
    call(197, "removexattr", &[PATH, NAME]),
    call(198, "lremovexattr", &[PATH, NAME]),
    call(199, "fremovexattr", &[N, NAME]),
    refused(206, "io_setup", Reason::Memory),
    refused(207, "io_destroy", Reason::Memory),
    refused(208, "io_getevents", Reason::Memory),
    refused(209, "io_submit", Reason::Memory),
    refused(210, "io_cancel", Reason::Memory),
    call(213, "epoll_create", &[N]),
    call(217, "getdents64", &[N, from(many(2)), N]),
    call(221, "fadvise64", &[N, N, N, N]),
    call(232, "epoll_wait", &[N, from(items(2, EVENT)), N, N]),
    call(233, "epoll_ctl", &[N, N, N, to(bytes(EVENT))]),
    call(235, "utimes", &[PATH, TIMES]),
    call(253, "inotify_init", &[]),
    call(254, "inotify_add_watch", &[N, PATH, N]),
    call(255, "inotify_rm_watch", &[N, N]),
    call(257, "openat", &[N, PATH, N, N]),
    call(258, "mkdirat", &[N, PATH, N]),
    call(259, "mknodat", &[N, PATH, N, N]),
    call(260, "fchownat", &[N, PATH, N, N, N]),
    call(261, "futimesat", &[N, PATH, TIMES]),
    call(262, "newfstatat", &[N, PATH, STAT, N]),
    call(263, "unlinkat", &[N, PATH, N]),
    call(264, "renameat", &[N, PATH, N, PATH]),
    call(265, "linkat", &[N, PATH, N, PATH, N]),
    call(266, "symlinkat", &[PATH, N, PATH]),
    call(267, "readlinkat", &[N, PATH, from(many(3)), N]),
    call(268, "fchmodat", &[N, PATH, N]),
    call(269, "faccessat", &[N, PATH, N]),
    call(
        270,
        "pselect6",
        &[N, SET, SET, SET, both(bytes(16)), Argument::SignalSet],
    ),
    call(271, "ppoll", &[POLL, N, both(bytes(16)), to(many(4)), N]),
    call(275, "splice", &[N, OFFSET, N, OFFSET, N, N]),
    call(276, "tee", &[N, N, N, N]),
    call(277, "sync_file_range", &[N, N, N, N]),
    refused(278, "vmsplice", Reason::Memory),
    call(280, "utimensat", &[N, PATH, TIMES, N]),
    call(
        281,
        "epoll_pwait",
        &[N, from(items(2, EVENT)), N, N, to(many(5)), N],
    ),
    call(285, "fallocate", &[N, N, N, N]),
    call(291, "epoll_create1", &[N]),
    call(292, "dup3", &[N, N, N]),
    call(293, "pipe2", &[TWO, N]),
    call(294, "inotify_init1", &[N]),
    call(295, "preadv", &[N, READ, N, N, N]),
    call(296, "pwritev", &[N, WRITE, N, N, N]),
    call(300, "fanotify_init", &[N, N]),
    call(301, "fanotify_mark", &[N, N, N, N, PATH]),
    call(
        303,
        "name_to_handle_at",
        &[N, PATH, both(HANDLE), from(bytes(8)), N],
    ),
    call(304, "open_by_handle_at", &[N, to(HANDLE), N]),
    call(306, "syncfs", &[N]),
    call(316, "renameat2", &[N, PATH, N, PATH, N]),
    call(319, "memfd_create", &[NAME, N]),
    call(326, "copy_file_range", &[N, OFFSET, N, OFFSET, N, N]),
    call(327, "preadv2", &[N, READ, N, N, N, N]),
    call(328, "pwritev2", &[N, WRITE, N, N, N, N]),
    call(332, "statx", &[N, PATH, N, N, from(bytes(256))]),
    refused(333, "io_pgetevents", Reason::Memory),
    refused(425, "io_uring_setup", Reason::Memory),
    refused(426, "io_uring_enter", Reason::Memory),
    refused(427, "io_uring_register", Reason::Memory),
    call(428, "open_tree", &[N, PATH, N]),
    call(429, "move_mount", &[N, PATH, N, PATH, N]),
    call(430, "fsopen", &[NAME, N]),
    call(431, "fsconfig", &[N, N, NAME, Argument::Chosen, N]),
    call(432, "fsmount", &[N, N, N]),
    call(433, "fspick", &[N, PATH, N]),
    call(436, "close_range", &[N, N, N]),
    call(437, "openat2", &[N, PATH, to(many(3)), N]),
    call(439, "faccessat2", &[N, PATH, N, N]),
    call(
        441,
        "epoll_pwait2",
        &[N, from(items(2, EVENT)), N, TIME, to(many(5)), N],
    ),
    call(442, "mount_setattr", &[N, PATH, N, to(many(4)), N]),
    call(443, "quotactl_fd", &[N, N, N, Argument::Chosen]),
    call(451, "cachestat", &[N, to(bytes(16)), from(bytes(40)), N]),
    call(452, "fchmodat2", &[N, PATH, N, N]),
    call(457, "statmount", &[MOUNT, from(many(2)), N, N]),
    call(458, "listmount", &[MOUNT, from(items(2, 8)), N, N]),
];
