/* SPDX-License-Identifier: GPL-2.0-only */
/* How clients' threads enter and leave the kernel: gate.c. */
#ifndef OUTBOARD_CORE_GATE_H
#define OUTBOARD_CORE_GATE_H

#include <linux/types.h>
#include <asm/vcpu.h>

void ob_thread_begin(enum ob_thread_kind kind);
int ob_transit_begin(void);
void ob_transit_begin_exit(void);
void ob_transit_end(void);
unsigned int ob_transit_count(void);
int ob_enter(void);
int ob_enter_again(unsigned long parked, u32 boot);
long ob_leave(long result);
void ob_become_first_client(void);
void ob_let_calls_in(void);
long ob_call(long (*function)(void *argument), void *argument);

#endif
