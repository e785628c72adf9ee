// SPDX-License-Identifier: GPL-2.0-only
/*
 * Halt: nothing that was written is lost, and every thread of the kernel ends.
 *
 *  1. The kernel takes no new calls. Calls in progress end as by a fatal signal. Tasks whose
 *     threads are out in host code end as coroutines, with their files, namespaces and io_urings.
 *     Then all programs are killed.
 *  2. The clients' mappings and files are closed, and everything is unmounted.
 *  3. Reboot notifiers run, unless a thread is stuck (see below): md marks its arrays clean.
 *     Drivers of PCI devices shut them down. Then no device may access RAM, and the interrupts of
 *     devices are masked.
 *  4. Carriers and service threads leave, and the host joins them.
 *
 * A thread that sleeps uninterruptibly keeps its stack and the memory. So does a kernel thread that
 * loops with interrupts off, and the vCPU's thread that runs it. Halt waits for neither longer than
 * OB_PATIENCE. It waits for disks as long as they take: what was written is not lost.
 */
#include <linux/cred.h>
#include <linux/init_task.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/syscalls.h>
#include <asm/host.h>
#include <outboard/gate.h>
#include "check.h"
#include "deferred.h"
#include "driver.h"
#include "end_clients.h"
#include "gate.h"
#include "halt.h"
#include "machine.h"
#include "program.h"
#include "stop.h"
#include "unmount.h"
#include "vcpu.h"

/*
 * As before a reboot. Not with a client thread that stays in the kernel: it may hold a lock of a
 * device or an array, and a driver would wait for that lock for ever.
 *
 * Without hardware there is no device to shut down, and a visit of all devices takes time.
 */
static void ob_prepare_for_end(void)
{
	if (ob_drivers_have_hardware())
		kernel_restart_prepare(NULL);
	else
		blocking_notifier_call_chain(&reboot_notifier_list, SYS_RESTART, NULL);
}

struct ob_halt {
	unsigned int stuck;		/* number of client threads that did not come out */
	int result;
};

/* Runs as a system call of the halting thread, which may have dropped its capabilities. */
static long ob_halt_call(void *argument)
{
	struct ob_halt *halt = argument;
	const struct cred *client = override_creds(&init_cred);
	int error;

	ob_vcpus_cancel();
	halt->stuck = ob_clients_end();
	/* No client starts one any more. */
	halt->stuck += ob_programs_end();
	ob_files_close();
	ob_unmount_memory();
	ksys_sync();
	halt->result = ob_unmount_all();
	ksys_sync();
	if (!halt->stuck)
		ob_prepare_for_end();
	/* After the reboot notifiers, which write, too. */
	error = ob_drivers_stop();
	if (!halt->result)
		halt->result = error;
	revert_creds(client);
	return 0;
}

/* Some calls of clients did not come out, or threads of the kernel did not, so the memory stays. */
static bool ob_memory_is_used;

/* By a boot that waits no longer. What runs goes on for ever, but no call comes in. */
void ob_abandon(void)
{
	WRITE_ONCE(ob_machine.halting, 1);
	ob_memory_is_used = true;
}

int ob_kernel_halt(int *halted)
{
	struct ob_halt halt = {};
	int error = ob_enter();

	*halted = OB_HALTED_NOT;
	if (error)
		return error;
	if (xchg(&ob_machine.halting, 1)) {
		ob_leave(0);
		return -ENODEV;
	}
	ob_halt_call(&halt);
	/* The calling thread leaves with its vCPU: no thread runs on it again. */
	raw_local_irq_disable();
	ob_vcpu_check(ob_this_vcpu(), OB_VCPU_HELD, OB_VCPU_STOPPED);
	WRITE_ONCE(ob_this_vcpu()->state, OB_VCPU_STOPPED);
	ob_machine.ready = 0;
	ob_unbind();
	ob_this_thread->irqs_off = 0;
	ob_stop_vcpus();
	ob_memory_is_used = !ob_join_threads() || halt.stuck;
	ob_drivers_close();
	*halted = ob_memory_is_used ? OB_HALTED_IN_USE : OB_HALTED;
	return halt.result;
}

int ob_kernel_free(void)
{
	if (ob_memory_is_used)
		return -EBUSY;
	WRITE_ONCE(ob_machine.gone, 1);
	ob_host_regions_release(ob_host);
	return 0;
}
