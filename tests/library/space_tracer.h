/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A tracer that watches the user threads of a stub from outside, with ptrace(), for tests of
 * hostile programs (invariant V19). At each system call it sees the entry, also of a call that the
 * filter refuses. So a call counts as made unless SIGSYS of the filter, with the same number and
 * the same address, follows before the next one:
 *
 *   stop of the thread            tracer
 *   entry of a call               a call that is noted was made; notes this one
 *   SIGSYS of the filter for it   drops the note
 *
 * A call that was made must be FUTEX_WAKE at one instruction, FUTEX_WAIT on one word at another, or
 * rt_sigreturn at a third.
 *
 * Link with space_tracer.c, space_bed.c and platform_bed.c. The program must be root: a stub is no
 * child of it.
 */
#ifndef OUTBOARD_TESTS_SPACE_TRACER_H
#define OUTBOARD_TESTS_SPACE_TRACER_H

#include <stdatomic.h>

#include "space_bed.h"

#define SYSCALL "\x0f\x05"
#define LOOP "\xeb\xfe"

/* System calls of all threads that were watched. */
struct traced_calls {
	atomic_ulong made, refused;
	atomic_ulong escaped;		/* made, but not allowed */
};

extern struct traced_calls traced;

/* Watches the threads of vCPUs 0 to `vcpus` - 1, each of which waits. Returns when it does. */
void watch(uint64_t space, uint32_t vcpus);
/* Kills the stub. */
void end_watch(uint64_t space);

/* A space whose code is a system call and a loop, with its thread of vCPU 0 watched. */
uint64_t new_attacker(void);
/* Ends the space and its stub, dead or alive. */
void end_attacker(uint64_t space);

/* Enters until there is an event other than an interrupt, which may have been left over. */
uint32_t enter_to_event(uint64_t space);
/* Enters at CODE, which makes a system call. */
void check_call(uint64_t space);
/* Another space is as it was, and a new one can be made. */
void check_others(uint64_t bystander);

#endif
