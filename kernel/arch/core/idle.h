/* SPDX-License-Identifier: GPL-2.0-only */
/* Idle vCPUs, and the threads that are lent to them: idle.c. */
#ifndef OUTBOARD_CORE_IDLE_H
#define OUTBOARD_CORE_IDLE_H

#include <linux/time64.h>
#include <linux/types.h>

struct ob_vcpu;
struct task_struct;

/* How long a lent thread that was kicked may stay away (idle.c, L4). In nanoseconds. */
#define OB_KICK_OLD ((u64)NSEC_PER_MSEC)

u32 *ob_idle_end(struct ob_vcpu *vcpu);
void ob_idle_begin(struct ob_vcpu *vcpu, u32 *baton);
bool ob_idle_take(struct ob_vcpu *vcpu);
void ob_idle_await(struct ob_vcpu *vcpu, u32 *baton, u32 bits);
u64 ob_watch_kicked(struct ob_vcpu *vcpu, u64 now);
bool ob_lend(struct ob_vcpu *vcpu, u32 *baton);
void ob_pass_or_idle(struct ob_vcpu *vcpu, struct task_struct *next);
void ob_give_up(struct ob_vcpu *vcpu);
bool ob_give_up_and_wait(struct ob_vcpu *vcpu, u32 *baton);
void ob_carry_without_task(struct ob_vcpu *vcpu);
bool ob_raise_and_wait(struct ob_vcpu *vcpu, u32 bits, u32 *baton);

#endif
