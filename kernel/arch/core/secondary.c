// SPDX-License-Identifier: GPL-2.0-only
/*
 * When vCPUs other than the first come up: when a second client thread appears, when a client asks
 * how many there are, or soon after boot. A program that ends before that needs one.
 */
#include <linux/cpu.h>
#include <linux/sched/mm.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <asm/setup.h>
#include "deferred.h"
#include "machine.h"

#define OB_VCPUS_DELAY (HZ / 50)

static void ob_vcpus_up(struct work_struct *work)
{
	/* This must not wait until memory grows: growing waits for vCPUs that come up. */
	unsigned int flags = memalloc_noreclaim_save(), cpu;

	for_each_present_cpu(cpu)
		if (!cpu_online(cpu) && cpu_device_up(get_cpu_device(cpu)))
			pr_err("vCPU %u does not come up\n", cpu);
	memalloc_noreclaim_restore(flags);
}

static DECLARE_DELAYED_WORK(ob_vcpus_work, ob_vcpus_up);
static bool ob_vcpus_later __ro_after_init;

void ob_vcpus_start_later(void)
{
	if (ob_vcpus_later)
		queue_delayed_work(system_unbound_wq, &ob_vcpus_work, OB_VCPUS_DELAY);
}

void ob_vcpus_start_now(void)
{
	if (ob_vcpus_later && delayed_work_pending(&ob_vcpus_work))
		mod_delayed_work(system_unbound_wq, &ob_vcpus_work, 0);
}

void ob_vcpus_wait(void)
{
	if (ob_vcpus_later)
		flush_delayed_work(&ob_vcpus_work);
}

void ob_vcpus_cancel(void)
{
	disable_delayed_work_sync(&ob_vcpus_work);
}

/* A command line that says how many CPUs come up at boot gets them at boot. */
void __init ob_vcpus_setup(void)
{
	cpu_hotplug_disable_offlining();
	ob_vcpus_later = ob_machine.vcpus > 1 && !strstr(boot_command_line, "maxcpus=") &&
			 !strstr(boot_command_line, "nosmp");
	if (ob_vcpus_later)
		setup_max_cpus = 1;
}
