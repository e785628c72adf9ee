// SPDX-License-Identifier: GPL-2.0-only
/* How vCPUs come up, and interrupts between them. */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/sched/hotplug.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include "carrier.h"
#include "machine.h"
#include "service.h"
#include "smp.h"
#include "time.h"
#include "vcpu.h"

/*
 * The per-CPU section must start on a page boundary, and an alignment only
 * survives our second link if an object in the section asks for it.
 */
DEFINE_PER_CPU_PAGE_ALIGNED(char [PAGE_SIZE], ob_percpu_alignment);

static void ob_vcpu_prepare(unsigned int id)
{
	struct ob_vcpu *vcpu = &ob_vcpus[id];

	vcpu->id = id;
	vcpu->percpu_offset = per_cpu_offset(id);
}

/* The idle coroutine of each vCPU but the first begins here, on its carrier. */
void ob_secondary_start(void)
{
	unsigned int cpu = raw_smp_processor_id();

	mmgrab(&init_mm);
	current->active_mm = &init_mm;
	notify_cpu_starting(cpu);
	ob_timer_start();
	set_cpu_online(cpu, true);
	local_irq_enable();
	cpu_startup_entry(CPUHP_AP_ONLINE_IDLE);
}

int __cpu_up(unsigned int cpu, struct task_struct *idle)
{
	struct ob_vcpu *vcpu = &ob_vcpus[cpu];
	int error;

	ob_vcpu_prepare(cpu);
	idle->thread.vcpu = vcpu;
	/* A late signal (V6) must not interrupt the host while it makes a thread. */
	local_irq_disable();
	error = ob_service_start(vcpu) ?: ob_vcpu_start(vcpu, idle);
	local_irq_enable();
	if (error)
		return error;
	while (!cpu_online(cpu))
		cpu_relax();
	return 0;
}

void __init smp_prepare_boot_cpu(void)
{
	ob_vcpu_prepare(0);
	ob_bind(&ob_vcpus[0], current, ob_this_thread->self);
}

void __init smp_prepare_cpus(unsigned int max_cpus)
{
}

void __init smp_cpus_done(unsigned int max_cpus)
{
}

/*
 * Only a panic calls this. It soon ends all vCPUs (ob_panic_check()) or the process. The others may
 * run until then, but their writes must not reach a disk (V10).
 */
void smp_send_stop(void)
{
	WRITE_ONCE(ob_machine.panicking, OB_PANIC_BEGUN);
}

void arch_smp_send_reschedule(int cpu)
{
	ob_send(&ob_vcpus[cpu], OB_PENDING_RESCHEDULE);
}

void arch_send_call_function_single_ipi(int cpu)
{
	ob_send(&ob_vcpus[cpu], OB_PENDING_CALL);
}

/* In interrupt context. */
void ob_calls_run(void)
{
	generic_smp_call_function_interrupt();
}

void arch_send_call_function_ipi_mask(const struct cpumask *mask)
{
	unsigned int cpu;

	for_each_cpu(cpu, mask)
		arch_send_call_function_single_ipi(cpu);
}
