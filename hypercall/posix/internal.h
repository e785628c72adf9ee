/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the POSIX platform offer to one another. */
#ifndef OUTBOARD_POSIX_INTERNAL_H
#define OUTBOARD_POSIX_INTERNAL_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include <outboard/hypercall.h>

#include "posix.h"

/*
 * Interrupts a thread (invariant V6). Not a real-time signal: those queue up,
 * and with SA_NODEFER a queue becomes a pile of frames on a 64 KB stack; and
 * one that arrives after the handler is gone would end the program, while
 * SIGURG is ignored by default.
 */
#define OB_PREEMPT_SIGNAL SIGURG

/* console.c */
void ob_posix_set_log(ob_posix_log *log);

/* memory.c: takes the kernel's memory out of a fork()ed child; out of a core dump, what was never used of it. */
void ob_posix_memory_forked(void);
void ob_posix_memory_skip_unused(void);

/* block.c: closes a fork()ed child's copies of the disks, so that it does not keep their locks. */
void ob_posix_block_forked(void);

/* component.c: looks for the archive. The first call counts. */
void ob_posix_components_find(void);

/* signal.c */
void ob_posix_signals_install(void);
void ob_posix_signals_remove(void);
/* Sends the preempt signal to a thread of this process, marked as ours. */
void ob_posix_preempt_send(uint64_t tid);

/* thread.c: the hook for the end of adopted threads. */
int ob_posix_thread_hook_create(void);
void ob_posix_thread_hook_delete(void);

#endif
