// SPDX-License-Identifier: GPL-2.0-only
/*
 * Snapshots: a kernel that has booted is saved once, and later processes go on from there (V14).
 *
 *   booted -> savable -> at rest -> saved ----> go on -> renewed -> ready
 *                                    restored ---^
 *
 *   step       who                   what
 *   savable    the leader            has loaded components, has made spare interfaces
 *                                    (driver.h), and notes what has to be renewed
 *   at rest    the booting thread    takes the first vCPU while that idles; no other one is up. If
 *                                    it does not idle, the kernel is not saved, and goes on
 *   saved      the booting thread    writes all memory that is in use
 *   restored   another process       loads that memory in the place of a boot
 *   go on      the booting thread    wakes the leader; in another process it carries the vCPU
 *   renewed    the leader            renews what must differ between two starts: random numbers and
 *                                    secrets (renew.c), the wall clock, the program's own wishes
 *   ready      the booting thread    opens the kernel for calls; in another process it becomes a
 *                                    client and makes the vCPU's service thread before: where the
 *                                    host has no thread, the boot fails while no call can run
 *
 * At rest, every task is in memory as a coroutine. Only the service thread and the carrier may be
 * busy, with the timer, and that work is done again. The kernel's monotonic clock goes on from
 * where it was.
 */
#include <asm/host.h>
#include <outboard/gate.h>
#include <outboard/hypercall_snapshot.h>
#include "boot.h"
#include "deferred.h"
#include "driver.h"
#include "gate.h"
#include "idle.h"
#include "machine.h"
#include "patience.h"
#include "renew.h"
#include "save.h"
#include "service.h"
#include "snapshot.h"
#include "spare.h"
#include "time.h"
#include "vcpu.h"

/*
 * Takes the first vCPU as soon as it idles: its idle coroutine rests then, and no thread carries
 * it. False: it does not idle, as with a component whose thread is always busy.
 */
static bool ob_take_first_vcpu(struct ob_vcpu *vcpu)
{
	struct ob_patience patience = ob_patience_begin(OB_PATIENCE);

	while (!ob_idle_take(vcpu)) {
		if (ob_patience_is_over(&patience))
			return false;
		ob_host_thread_yield(ob_host);
	}
	return true;
}

/* Has the leader of the clients' process renew and open the kernel: ob_snapshot_renew(). */
static void ob_renewal_start(void)
{
	ob_machine.renew = 1;
	ob_raise(&ob_vcpus[0], OB_PENDING_ADOPT);
}

/*
 * Waits until the leader has renewed what must differ. -ETIMEDOUT: it does not. By the booting
 * thread. Blocks.
 */
static int ob_renewal_wait(void)
{
	return ob_changes_in_time(&ob_machine.renew, 1, OB_BOOT_PATIENCE) ? 0 : -ETIMEDOUT;
}

/*
 * Saves the kernel, which is savable, and has it go on, even if it could not be saved. By the
 * booting host thread, which has no task. -ETIMEDOUT: it does not go on. Blocks.
 */
int ob_snapshot_take(void)
{
	struct ob_vcpu *vcpu = &ob_vcpus[0];
	bool rests = ob_take_first_vcpu(vcpu);
	int error;

	/* No other thread uses the devices before the first call, even if the vCPU is busy. */
	ob_drivers_park();
	ob_spares_close();
	ob_host_snapshot_end(ob_host, rests ? ob_snapshot_write() : -EBUSY);
	ob_snapshot_end = 0;
	if (rests)
		ob_idle_begin(vcpu, &vcpu->carrier.baton);
	ob_renewal_start();
	error = ob_renewal_wait();
	if (!error)
		WRITE_ONCE(ob_machine.ready, 1);
	return error;
}

/* Resets what belonged to the process that saved the kernel. */
static void ob_forget_host(struct ob_vcpu *vcpu, u64 clock_offset)
{
	struct ob_service *service = &vcpu->service;
	u64 later = clock_offset - ob_machine.clock_offset;

	*service = (struct ob_service) {
		/* Without one, that process was about to raise the timer interrupt. */
		.deadline = service->deadline ? service->deadline + later :
			    ob_machine.saved_time + clock_offset,
		.leaves_at_tick = service->leaves_at_tick,
		.stack = service->stack,
		.owes_carrier = true,
	};
	vcpu->carrier = (struct ob_carrier) { .to_run = vcpu->carrier.to_run };
	vcpu->bound_thread = 0;
	ob_machine.clock_offset = clock_offset;
	atomic_set(&ob_machine.spinners, 0);
}

/* Without random numbers from the host, two starts would have the same secrets. */
static bool ob_host_has_random(void)
{
	u64 unused;

	return !ob_host_random(ob_host, &unused, sizeof(unused));
}

/*
 * Goes on with the kernel. The calling thread carries the vCPU until the leader has renewed the
 * kernel, or has longer work (L1), which goes to the carrier; then the thread is a client. So the
 * thread need not wait until another one gets a processor. The vCPU's own threads are made after
 * that: while the process has one thread, changes of its mappings cost no interrupts to other
 * processors. But if the leader sleeps before it has renewed all, the vCPU needs a timer at once.
 *
 * No thread can be in a call before `ready` is set, also not in a signal handler that interrupts
 * this one. So if the host has no thread for the vCPU, the caller can release all memory.
 */
static int ob_carry_until_ready(struct ob_vcpu *vcpu)
{
	int error;

	ob_carry_without_task(vcpu);
	if (READ_ONCE(ob_machine.renew)) {
		error = ob_service_start(vcpu) ?: ob_renewal_wait();
		if (error)
			return error;
	}
	ob_become_first_client();
	error = ob_service_start(vcpu);
	if (error)
		ob_unbind();
	else
		ob_let_calls_in();
	return error;
}

/*
 * Starts from a snapshot in the place of a boot. Returns -ENOENT if the platform has none that
 * fits, and nothing has happened. Blocks.
 */
int ob_snapshot_start(const struct ob_boot_parameters *parameters, const struct ob_info *info)
{
	struct ob_vcpu *vcpu = &ob_vcpus[0];

	if (!ob_host_has_random() || ob_host_snapshot_load(ob_host))
		return -ENOENT;
	/* From here on the data are those of the snapshot. */
	ob_forget_host(vcpu, ob_host_clock_monotonic(ob_host) - ob_machine.saved_time);
	ob_configure(parameters, info);
	ob_renewal_start();
	return ob_carry_until_ready(vcpu);
}

/* By the leader of the clients' process, before the first call. */
void ob_snapshot_renew(void)
{
	ob_renew_secrets();
	ob_renew_wall_clock();
	ob_vcpus_start_later();
	WRITE_ONCE(ob_machine.renew, 0);
	ob_host_wake(ob_host, &ob_machine.renew, 1);
}
