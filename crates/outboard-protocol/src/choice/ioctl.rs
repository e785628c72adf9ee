// SPDX-License-Identifier: MIT
//! Commands of ioctl(2).

use crate::argument::Argument;
use crate::row::{both, bytes, from, to, N};

/// Commands whose numbers differ only by their size, as FS_IOC_GETFLAGS with `long`, move as many
/// bytes as the kernel does: four of flags.
pub(super) const COMMANDS: &[(u64, Argument)] = &[
    // Terminals
    (0x5401, from(bytes(36))),     // TCGETS
    (0x5402, to(bytes(36))),       // TCSETS
    (0x5403, to(bytes(36))),       // TCSETSW
    (0x5404, to(bytes(36))),       // TCSETSF
    (0x5409, N),                   // TCSBRK
    (0x540a, N),                   // TCXONC
    (0x540b, N),                   // TCFLSH
    (0x540c, N),                   // TIOCEXCL
    (0x540d, N),                   // TIOCNXCL
    (0x540e, N),                   // TIOCSCTTY
    (0x540f, from(bytes(4))),      // TIOCGPGRP
    (0x5410, to(bytes(4))),        // TIOCSPGRP
    (0x5411, from(bytes(4))),      // TIOCOUTQ
    (0x5412, to(bytes(1))),        // TIOCSTI
    (0x5413, from(bytes(8))),      // TIOCGWINSZ
    (0x5414, to(bytes(8))),        // TIOCSWINSZ
    (0x5420, to(bytes(4))),        // TIOCPKT
    (0x5422, N),                   // TIOCNOTTY
    (0x5423, to(bytes(4))),        // TIOCSETD
    (0x5424, from(bytes(4))),      // TIOCGETD
    (0x5425, N),                   // TCSBRKP
    (0x5429, from(bytes(4))),      // TIOCGSID
    (0x8004_5430, from(bytes(4))), // TIOCGPTN
    (0x4004_5431, to(bytes(4))),   // TIOCSPTLCK
    (0x8004_5438, from(bytes(4))), // TIOCGPKT
    (0x8004_5439, from(bytes(4))), // TIOCGPTLCK
    (0x5441, N),                   // TIOCGPTPEER
    // All descriptors
    (0x541b, from(bytes(4))), // FIONREAD
    (0x5421, to(bytes(4))),   // FIONBIO
    (0x5450, N),              // FIONCLEX
    (0x5451, N),              // FIOCLEX
    (0x5452, to(bytes(4))),   // FIOASYNC
    (0x5460, from(bytes(8))), // FIOQSIZE
    // Files and file systems
    (0x02, from(bytes(4))),          // FIGETBSZ
    (0x8008_6601, from(bytes(4))),   // FS_IOC_GETFLAGS
    (0x4008_6602, to(bytes(4))),     // FS_IOC_SETFLAGS
    (0x8008_7601, from(bytes(4))),   // FS_IOC_GETVERSION
    (0x801c_581f, from(bytes(28))),  // FS_IOC_FSGETXATTR
    (0x401c_5820, to(bytes(28))),    // FS_IOC_FSSETXATTR
    (0x8100_9431, from(bytes(256))), // FS_IOC_GETFSLABEL
    (0x4100_9432, to(bytes(256))),   // FS_IOC_SETFSLABEL
    (0xc004_5877, both(bytes(4))),   // FIFREEZE
    (0xc004_5878, both(bytes(4))),   // FITHAW
    (0xc018_5879, both(bytes(24))),  // FITRIM
    (0x4004_9409, N),                // FICLONE
    (0x4020_940d, to(bytes(32))),    // FICLONERANGE
    // Block devices
    (0x125d, to(bytes(4))),        // BLKROSET
    (0x125e, from(bytes(4))),      // BLKROGET
    (0x125f, N),                   // BLKRRPART
    (0x1260, from(bytes(8))),      // BLKGETSIZE
    (0x1261, N),                   // BLKFLSBUF
    (0x1263, from(bytes(8))),      // BLKRAGET
    (0x1268, from(bytes(4))),      // BLKSSZGET
    (0x1277, to(bytes(16))),       // BLKDISCARD
    (0x1278, from(bytes(4))),      // BLKIOMIN
    (0x1279, from(bytes(4))),      // BLKIOOPT
    (0x127a, from(bytes(4))),      // BLKALIGNOFF
    (0x127b, from(bytes(4))),      // BLKPBSZGET
    (0x127d, to(bytes(16))),       // BLKSECDISCARD
    (0x127e, from(bytes(2))),      // BLKROTATIONAL
    (0x127f, to(bytes(16))),       // BLKZEROOUT
    (0x8008_1272, from(bytes(8))), // BLKGETSIZE64
    // Loop devices
    (0x4c00, N),                // LOOP_SET_FD
    (0x4c01, N),                // LOOP_CLR_FD
    (0x4c04, to(bytes(232))),   // LOOP_SET_STATUS64
    (0x4c05, from(bytes(232))), // LOOP_GET_STATUS64
    (0x4c06, N),                // LOOP_CHANGE_FD
    (0x4c07, N),                // LOOP_SET_CAPACITY
    (0x4c08, N),                // LOOP_SET_DIRECT_IO
    (0x4c09, N),                // LOOP_SET_BLOCK_SIZE
    (0x4c0a, to(bytes(304))),   // LOOP_CONFIGURE
    (0x4c80, N),                // LOOP_CTL_ADD
    (0x4c81, N),                // LOOP_CTL_REMOVE
    (0x4c82, N),                // LOOP_CTL_GET_FREE
    // Sockets
    (0x8901, to(bytes(4))),   // FIOSETOWN
    (0x8902, to(bytes(4))),   // SIOCSPGRP
    (0x8903, from(bytes(4))), // FIOGETOWN
    (0x8904, from(bytes(4))), // SIOCGPGRP
    (0x8905, from(bytes(4))), // SIOCATMARK
    // Interfaces: `struct ifreq`
    (0x8910, both(bytes(40))), // SIOCGIFNAME
    (0x8913, both(bytes(40))), // SIOCGIFFLAGS
    (0x8914, to(bytes(40))),   // SIOCSIFFLAGS
    (0x8915, both(bytes(40))), // SIOCGIFADDR
    (0x8916, to(bytes(40))),   // SIOCSIFADDR
    (0x8917, both(bytes(40))), // SIOCGIFDSTADDR
    (0x8918, to(bytes(40))),   // SIOCSIFDSTADDR
    (0x8919, both(bytes(40))), // SIOCGIFBRDADDR
    (0x891a, to(bytes(40))),   // SIOCSIFBRDADDR
    (0x891b, both(bytes(40))), // SIOCGIFNETMASK
    (0x891c, to(bytes(40))),   // SIOCSIFNETMASK
    (0x891d, both(bytes(40))), // SIOCGIFMETRIC
    (0x8921, both(bytes(40))), // SIOCGIFMTU
    (0x8922, to(bytes(40))),   // SIOCSIFMTU
    (0x8923, to(bytes(40))),   // SIOCSIFNAME
    (0x8924, to(bytes(40))),   // SIOCSIFHWADDR
    (0x8927, both(bytes(40))), // SIOCGIFHWADDR
    (0x8931, to(bytes(40))),   // SIOCADDMULTI
    (0x8932, to(bytes(40))),   // SIOCDELMULTI
    (0x8933, both(bytes(40))), // SIOCGIFINDEX
    (0x8942, both(bytes(40))), // SIOCGIFTXQLEN
    (0x8943, to(bytes(40))),   // SIOCSIFTXQLEN
    // Tunnels
    (0x4004_54ca, both(bytes(40))), // TUNSETIFF
    (0x4004_54cb, N),               // TUNSETPERSIST
    (0x4004_54cc, N),               // TUNSETOWNER
    (0x4004_54ce, N),               // TUNSETGROUP
    (0x4004_54d0, N),               // TUNSETOFFLOAD
    (0x8004_54cf, from(bytes(4))),  // TUNGETFEATURES
    (0x8004_54d2, from(bytes(40))), // TUNGETIFF
    (0x4004_54d8, to(bytes(4))),    // TUNSETVNETHDRSZ
    (0x8004_54d7, from(bytes(4))),  // TUNGETVNETHDRSZ
];
