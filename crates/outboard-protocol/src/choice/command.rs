// SPDX-License-Identifier: MIT
//! Commands of fcntl, prctl, System V, quotas, keys and mounts.

use crate::argument::Argument;
use crate::row::{both, bytes, from, many, to, N, NAME, PATH};

type Row = (u64, Argument);
/// The four arguments behind the command.
type KeyRow = (u64, [Argument; 4]);

const NULL: Argument = Argument::Null;

/// fcntl(2).
pub(super) const DESCRIPTOR: &[Row] = &[
    (0, N),                 // F_DUPFD
    (1, N),                 // F_GETFD
    (2, N),                 // F_SETFD
    (3, N),                 // F_GETFL
    (4, N),                 // F_SETFL
    (5, LOCK),              // F_GETLK
    (6, LOCK),              // F_SETLK
    (7, LOCK),              // F_SETLKW
    (8, N),                 // F_SETOWN
    (9, N),                 // F_GETOWN
    (10, N),                // F_SETSIG
    (11, N),                // F_GETSIG
    (15, to(bytes(8))),     // F_SETOWN_EX
    (16, from(bytes(8))),   // F_GETOWN_EX
    (17, from(bytes(8))),   // F_GETOWNER_UIDS
    (36, LOCK),             // F_OFD_GETLK
    (37, LOCK),             // F_OFD_SETLK
    (38, LOCK),             // F_OFD_SETLKW
    (1024, N),              // F_SETLEASE
    (1025, N),              // F_GETLEASE
    (1026, N),              // F_NOTIFY
    (1027, N),              // F_DUPFD_QUERY
    (1028, N),              // F_CREATED_QUERY
    (1030, N),              // F_DUPFD_CLOEXEC
    (1031, N),              // F_SETPIPE_SZ
    (1032, N),              // F_GETPIPE_SZ
    (1033, N),              // F_ADD_SEALS
    (1034, N),              // F_GET_SEALS
    (1035, from(bytes(8))), // F_GET_RW_HINT
    (1036, to(bytes(8))),   // F_SET_RW_HINT
    (1037, from(bytes(8))), // F_GET_FILE_RW_HINT
    (1038, to(bytes(8))),   // F_SET_FILE_RW_HINT
];
/// `struct flock`.
const LOCK: Argument = both(bytes(32));

/// prctl(2).
pub(super) const PROCESS: &[Row] = &[
    (1, N),                            // PR_SET_PDEATHSIG
    (2, from(bytes(4))),               // PR_GET_PDEATHSIG
    (3, N),                            // PR_GET_DUMPABLE
    (4, N),                            // PR_SET_DUMPABLE
    (7, N),                            // PR_GET_KEEPCAPS
    (8, N),                            // PR_SET_KEEPCAPS
    (15, Argument::Text { most: 16 }), // PR_SET_NAME
    (16, from(bytes(16))),             // PR_GET_NAME
    (23, N),                           // PR_CAPBSET_READ
    (24, N),                           // PR_CAPBSET_DROP
    (27, N),                           // PR_GET_SECUREBITS
    (28, N),                           // PR_SET_SECUREBITS
    (29, N),                           // PR_SET_TIMERSLACK
    (30, N),                           // PR_GET_TIMERSLACK
    (36, N),                           // PR_SET_CHILD_SUBREAPER
    (37, from(bytes(4))),              // PR_GET_CHILD_SUBREAPER
    (38, N),                           // PR_SET_NO_NEW_PRIVS
    (39, N),                           // PR_GET_NO_NEW_PRIVS
    (47, N),                           // PR_CAP_AMBIENT
    (57, N),                           // PR_SET_IO_FLUSHER
    (58, N),                           // PR_GET_IO_FLUSHER
];

/// shmctl(2). No memory can be attached; segments can be looked at and removed.
pub(super) const SHARED_MEMORY: &[Row] = &[
    (0, NULL),              // IPC_RMID
    (1, to(bytes(112))),    // IPC_SET
    (2, from(bytes(112))),  // IPC_STAT
    (3, from(bytes(72))),   // IPC_INFO
    (11, NULL),             // SHM_LOCK
    (12, NULL),             // SHM_UNLOCK
    (13, from(bytes(112))), // SHM_STAT
    (14, from(bytes(48))),  // SHM_INFO
    (15, from(bytes(112))), // SHM_STAT_ANY
];

/// semctl(2). The size of what GETALL and SETALL use is known to the kernel alone.
pub(super) const SEMAPHORES: &[Row] = &[
    (0, N),                 // IPC_RMID
    (1, to(bytes(104))),    // IPC_SET
    (2, from(bytes(104))),  // IPC_STAT
    (3, from(bytes(40))),   // IPC_INFO
    (11, N),                // GETPID
    (12, N),                // GETVAL
    (14, N),                // GETNCNT
    (15, N),                // GETZCNT
    (16, N),                // SETVAL
    (18, from(bytes(104))), // SEM_STAT
    (19, from(bytes(40))),  // SEM_INFO
    (20, from(bytes(104))), // SEM_STAT_ANY
];

/// msgctl(2).
pub(super) const MESSAGES: &[Row] = &[
    (0, NULL),              // IPC_RMID
    (1, to(bytes(120))),    // IPC_SET
    (2, from(bytes(120))),  // IPC_STAT
    (3, from(bytes(32))),   // IPC_INFO
    (11, from(bytes(120))), // MSG_STAT
    (12, from(bytes(32))),  // MSG_INFO
    (13, from(bytes(120))), // MSG_STAT_ANY
];

/// sysfs(2). The room that option 2 needs is known to the kernel alone.
pub(super) const FILE_SYSTEMS: &[Row] = &[(1, NAME), (3, N)];

const NUMBERS: [Argument; 4] = [N, N, N, N];
const KEY_TO: [Argument; 4] = [N, to(many(3)), N, N];
const KEY_FROM: [Argument; 4] = [N, from(many(3)), N, N];
const KEY_NAME: [Argument; 4] = [N, NAME, PATH, N];

/// keyctl(2).
pub(super) const KEYS: &[KeyRow] = &[
    (0, NUMBERS),                   // KEYCTL_GET_KEYRING_ID
    (1, [PATH, N, N, N]),           // KEYCTL_JOIN_SESSION_KEYRING
    (2, KEY_TO),                    // KEYCTL_UPDATE
    (3, NUMBERS),                   // KEYCTL_REVOKE
    (4, NUMBERS),                   // KEYCTL_CHOWN
    (5, NUMBERS),                   // KEYCTL_SETPERM
    (6, KEY_FROM),                  // KEYCTL_DESCRIBE
    (7, NUMBERS),                   // KEYCTL_CLEAR
    (8, NUMBERS),                   // KEYCTL_LINK
    (9, NUMBERS),                   // KEYCTL_UNLINK
    (10, KEY_NAME),                 // KEYCTL_SEARCH
    (11, KEY_FROM),                 // KEYCTL_READ
    (12, KEY_TO),                   // KEYCTL_INSTANTIATE
    (13, NUMBERS),                  // KEYCTL_NEGATE
    (14, NUMBERS),                  // KEYCTL_SET_REQKEY_KEYRING
    (15, NUMBERS),                  // KEYCTL_SET_TIMEOUT
    (16, NUMBERS),                  // KEYCTL_ASSUME_AUTHORITY
    (17, KEY_FROM),                 // KEYCTL_GET_SECURITY
    (19, NUMBERS),                  // KEYCTL_REJECT
    (21, NUMBERS),                  // KEYCTL_INVALIDATE
    (22, NUMBERS),                  // KEYCTL_GET_PERSISTENT
    (29, KEY_NAME),                 // KEYCTL_RESTRICT_KEYRING
    (30, NUMBERS),                  // KEYCTL_MOVE
    (31, [from(many(2)), N, N, N]), // KEYCTL_CAPABILITIES
];

/// fsconfig(2).
pub(super) const CONFIGURATION: &[Row] = &[
    (0, NULL), // FSCONFIG_SET_FLAG
    (1, NAME), // FSCONFIG_SET_STRING
    (3, PATH), // FSCONFIG_SET_PATH
    (4, PATH), // FSCONFIG_SET_PATH_EMPTY
    (5, NULL), // FSCONFIG_SET_FD
    (6, NULL), // FSCONFIG_CMD_CREATE
    (7, NULL), // FSCONFIG_CMD_RECONFIGURE
    (8, NULL), // FSCONFIG_CMD_CREATE_EXCL
];

/// landlock_add_rule(2).
pub(super) const RULES: &[Row] = &[
    (1, to(bytes(12))), // LANDLOCK_RULE_PATH_BENEATH
    (2, to(bytes(16))), // LANDLOCK_RULE_NET_PORT
];

/// Commands of quotactl(2) and quotactl_fd(2), and those of XFS, without the kind of the quota.
pub(super) const QUOTAS: &[Row] = &[
    (0x80_0001, NULL),            // Q_SYNC
    (0x80_0002, PATH),            // Q_QUOTAON
    (0x80_0003, NULL),            // Q_QUOTAOFF
    (0x80_0004, from(bytes(4))),  // Q_GETFMT
    (0x80_0005, from(bytes(24))), // Q_GETINFO
    (0x80_0006, to(bytes(24))),   // Q_SETINFO
    (0x80_0007, from(bytes(72))), // Q_GETQUOTA
    (0x80_0008, to(bytes(72))),   // Q_SETQUOTA
    (0x80_0009, from(bytes(72))), // Q_GETNEXTQUOTA
    (0x5801, to(bytes(4))),       // Q_XQUOTAON
    (0x5802, to(bytes(4))),       // Q_XQUOTAOFF
    (0x5803, from(bytes(112))),   // Q_XGETQUOTA
    (0x5804, to(bytes(112))),     // Q_XSETQLIM
    (0x5805, from(bytes(80))),    // Q_XGETQSTAT
    (0x5806, to(bytes(4))),       // Q_XQUOTARM
    (0x5807, NULL),               // Q_XQUOTASYNC
    (0x5808, both(bytes(160))),   // Q_XGETQSTATV
    (0x5809, from(bytes(112))),   // Q_XGETNEXTQUOTA
];
