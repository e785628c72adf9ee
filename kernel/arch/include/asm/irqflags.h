/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interrupts are bits in the vCPU's pending word. Disabling them is a flag of
 * the thread; enabling them takes what has become pending meanwhile (V5).
 */
#ifndef _ASM_OUTBOARD_IRQFLAGS_H
#define _ASM_OUTBOARD_IRQFLAGS_H

#include <linux/compiler.h>
#include <asm/vcpu.h>

#define ARCH_IRQ_DISABLED 1
#define ARCH_IRQ_ENABLED 0

#ifndef __ASSEMBLY__
void ob_interrupts_poll(void);

/* The first member of struct ob_vcpu. */
static __always_inline u32 ob_pending(void)
{
	return READ_ONCE(*(u32 *)ob_this_vcpu());
}

static __always_inline unsigned long arch_local_save_flags(void)
{
	return ob_this_thread->irqs_off;
}
#define arch_local_save_flags arch_local_save_flags

static __always_inline void arch_local_irq_restore(unsigned long flags)
{
	barrier();
	ob_this_thread->irqs_off = flags;
	barrier();
	if (!flags && unlikely(ob_pending()))
		ob_interrupts_poll();
}
#define arch_local_irq_restore arch_local_irq_restore

#include <asm-generic/irqflags.h>
#endif
#endif
