// SPDX-License-Identifier: MIT
//! Memory: a client keeps its own.

use crate::reason::Reason;
use crate::row::{refused, SystemCall};

const fn memory(number: u32, name: &'static str) -> SystemCall {
    refused(number, name, Reason::Memory)
}

pub(super) const CALLS: &[SystemCall] = &[
    memory(9, "mmap"),
    memory(10, "mprotect"),
    memory(11, "munmap"),
    memory(12, "brk"),
    memory(25, "mremap"),
    memory(26, "msync"),
    memory(27, "mincore"),
    memory(28, "madvise"),
    memory(30, "shmat"),
    memory(67, "shmdt"),
    memory(149, "mlock"),
    memory(150, "munlock"),
    memory(151, "mlockall"),
    memory(152, "munlockall"),
    memory(202, "futex"),
    memory(216, "remap_file_pages"),
    memory(237, "mbind"),
    memory(238, "set_mempolicy"),
    memory(239, "get_mempolicy"),
    memory(256, "migrate_pages"),
    memory(273, "set_robust_list"),
    memory(274, "get_robust_list"),
    memory(279, "move_pages"),
    memory(310, "process_vm_readv"),
    memory(311, "process_vm_writev"),
    memory(323, "userfaultfd"),
    memory(325, "mlock2"),
    memory(329, "pkey_mprotect"),
    memory(330, "pkey_alloc"),
    memory(331, "pkey_free"),
    memory(334, "rseq"),
    memory(440, "process_madvise"),
    memory(447, "memfd_secret"),
    memory(449, "futex_waitv"),
    memory(450, "set_mempolicy_home_node"),
    memory(453, "map_shadow_stack"),
    memory(454, "futex_wake"),
    memory(455, "futex_wait"),
    memory(456, "futex_requeue"),
    memory(462, "mseal"),
];
