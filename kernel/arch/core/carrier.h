/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads that run a vCPU's coroutines: carrier.c. */
#ifndef OUTBOARD_CORE_CARRIER_H
#define OUTBOARD_CORE_CARRIER_H

#include <linux/types.h>

struct ob_vcpu;
struct task_struct;

struct task_struct *ob_carry(struct ob_vcpu *vcpu, struct task_struct *first, bool lent);
int ob_carrier_start(struct ob_vcpu *vcpu);
int ob_vcpu_start(struct ob_vcpu *vcpu, struct task_struct *first);
bool ob_is_on_coroutine(void);
void __noreturn ob_carrier_leave(void);

#endif
