// SPDX-License-Identifier: GPL-2.0-only
/*
 * Halt, step 4 (halt.c): carriers and service threads leave, and the host joins them. A thread
 * reports by its word `left` that it is about to end.
 */
#include <asm/host.h>
#include "baton.h"
#include "host.h"
#include "machine.h"
#include "patience.h"
#include "service.h"
#include "stop.h"
#include "vcpu.h"

/* Tells all threads of the vCPUs to leave. */
void ob_stop_vcpus(void)
{
	unsigned int cpu;

	WRITE_ONCE(ob_machine.stopping, 1);
	for (cpu = 0; cpu < ob_machine.vcpus; cpu++) {
		struct ob_vcpu *vcpu = &ob_vcpus[cpu];

		ob_raise(vcpu, OB_PENDING_STOP);
		/* To a host with timers, a notification would start the service of this vCPU. */
		if (vcpu->service.handle)
			ob_service_notify(vcpu);
		ob_baton_pass(&vcpu->carrier.baton);
	}
}

/* The calling thread of a vCPU is about to end. `left`: its own word. */
void ob_thread_leaves(u32 *left)
{
	WRITE_ONCE(*left, 1);
	ob_host_wake(ob_host, left, 1);
}

/*
 * Waits until a thread of the vCPU leaves. If the vCPU's holder takes no interrupts, it is
 * interrupted here (V6): the service thread may have left already. False: the thread does not
 * leave.
 */
static bool ob_leaves_in_time(struct ob_vcpu *vcpu, u32 *left)
{
	struct ob_patience patience = ob_patience_begin(OB_PATIENCE);

	for (;;) {
		u64 holder = READ_ONCE(vcpu->bound_thread);

		if (!READ_ONCE(*left))
			ob_host_wait(ob_host, left, 0, NSEC_PER_SEC / HZ);
		if (READ_ONCE(*left))
			return true;
		if (ob_patience_is_over(&patience))
			return false;
		if (holder)
			ob_host_thread_interrupt(ob_host, holder);
	}
}

/* False: some thread does not end. */
static bool ob_join_vcpu(struct ob_vcpu *vcpu)
{
	bool has_thread = vcpu->service.handle && !ob_host_groups.timer;

	/* The service thread may have yet to make the carrier, so it ends first. */
	if (has_thread && !ob_leaves_in_time(vcpu, &vcpu->service.left))
		return false;
	ob_service_end(vcpu);
	if (!vcpu->carrier.handle)
		return true;
	if (!ob_leaves_in_time(vcpu, &vcpu->carrier.left))
		return false;
	ob_host_thread_join(ob_host, vcpu->carrier.handle);
	return true;
}

/* Has the host join them. False: some thread does not end. Blocks. */
bool ob_join_threads(void)
{
	bool all = true;
	unsigned int cpu;

	for (cpu = 0; cpu < ob_machine.vcpus; cpu++)
		all &= ob_join_vcpu(&ob_vcpus[cpu]);
	return all;
}
