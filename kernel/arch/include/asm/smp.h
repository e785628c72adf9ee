/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_SMP_H
#define _ASM_OUTBOARD_SMP_H

#include <asm/vcpu.h>

struct cpumask;

#define raw_smp_processor_id() ((u32)ob_this_thread->cpu)

void arch_send_call_function_single_ipi(int cpu);
void arch_send_call_function_ipi_mask(const struct cpumask *mask);

/* Nobody reaches these: Linux refuses to take a vCPU down (ob_vcpus_setup()). */
static inline int __cpu_disable(void)
{
	return -1;
}

static inline void __cpu_die(unsigned int cpu)
{
}
#endif
