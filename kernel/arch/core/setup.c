// SPDX-License-Identifier: GPL-2.0-only
/* The hooks that start_kernel() and the rest of Linux want of an architecture. */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/log2.h>
#include <linux/memblock.h>
#include <linux/of_fdt.h>
#include <linux/printk.h>
#include <linux/reboot.h>
#include <linux/seq_file.h>
#include <net/tcp.h>
#include <asm/setup.h>
#include "deferred.h"
#include "machine.h"
#include "memory.h"
#include "panic.h"
#include "vcpu.h"

/* More would cost each kernel more than 200 KB of memory at boot. */
#define OB_TCP_ENTRIES_MOST 8192
/* The largest table of connections that Linux makes. */
#define OB_TCP_ENTRIES_LINUX (512 * 1024)

static char ob_command_line[COMMAND_LINE_SIZE];

void (*pm_power_off)(void);

/* Linux makes one for each 128 KB of memory. */
static u64 __init ob_tcp_entries(void)
{
	return min_t(u64, roundup_pow_of_two(ob_machine.memory >> 17), OB_TCP_ENTRIES_LINUX);
}

/*
 * Words that every boot gets. The program's own words follow, and win.
 *
 * Dodge console_msg_format: each line begins with its level, for the host.
 * Dodge memhp_default_state: memory that comes later is in use at once.
 * Dodge slab_min_objects: small slabs; Linux would choose their size by the number of possible
 * vCPUs.
 * Dodge rcupdate.rcu_expedited: a grace period would take ticks. When it is expedited, other vCPUs
 * are asked, of which those that idle need not answer, and the others do soon (V5).
 * Dodge loglevel: the program says what it wants to hear.
 * Dodge thash_entries: TCP's table of connections follows from the memory that there may be, not
 * from that at boot. Of much memory it takes less than Linux would.
 * Dodge bdev_allow_write_mounted: programs mount loop devices that mount(8) has open for writing.
 */
static void __init ob_command_line_setup(void)
{
	u64 connections = min_t(u64, ob_tcp_entries(), OB_TCP_ENTRIES_MOST);
	size_t length;

	length = scnprintf(ob_command_line, COMMAND_LINE_SIZE,
			   "console_msg_format=syslog memhp_default_state=online_kernel "
			   "slab_min_objects=4 rcupdate.rcu_expedited=1 "
			   "bdev_allow_write_mounted=1 loglevel=%d ",
			   ob_machine.console_level + 1);
	if (IS_ENABLED(CONFIG_INET))
		length += scnprintf(ob_command_line + length, COMMAND_LINE_SIZE - length,
				    "thash_entries=%llu ", connections);
	strscpy(ob_command_line + length, ob_machine.command_line, COMMAND_LINE_SIZE - length);
}

void __init setup_arch(char **command_line)
{
	unsigned int cpu;

	ob_panic_setup();
	ob_command_line_setup();
	strscpy(boot_command_line, ob_command_line, COMMAND_LINE_SIZE);
	ob_deferred_setup();
	*command_line = ob_command_line;
	for (cpu = 0; cpu < ob_machine.vcpus; cpu++) {
		set_cpu_possible(cpu, true);
		set_cpu_present(cpu, true);
	}
	ob_memory_setup();
	/* No devices need describing: the tree is an empty root. */
	if (IS_ENABLED(CONFIG_OF_EARLY_FLATTREE))
		unflatten_device_tree();
}

/*
 * Linux lets half as many connections wait for their end as its table has entries. It resets those
 * beyond, which lose the data that the peer does not have yet. Here the table is smaller.
 */
static int __init ob_tcp_limits_set(void)
{
	if (!IS_ENABLED(CONFIG_INET))
		return 0;
	sysctl_tcp_max_orphans = ob_tcp_entries() / 2;
	init_net.ipv4.tcp_death_row.sysctl_max_tw_buckets = ob_tcp_entries() / 2;
	return 0;
}
late_initcall(ob_tcp_limits_set);

void __init trap_init(void)
{
}

/*
 * Only ob_kernel_halt() stops the machine. The kernel must not do so behind the program's back.
 */
void machine_halt(void)
{
	panic("halt from inside");
}

void machine_power_off(void)
{
	panic("power-off from inside");
}

void machine_restart(char *command)
{
	panic("restart from inside");
}

static void *cpuinfo_start(struct seq_file *file, loff_t *position)
{
	ob_vcpus_wait();
	*position = cpumask_next(*position - 1, cpu_online_mask);
	return *position < nr_cpu_ids ? &ob_vcpus[*position] : NULL;
}

static void *cpuinfo_next(struct seq_file *file, void *vcpu, loff_t *position)
{
	++*position;
	return cpuinfo_start(file, position);
}

static void cpuinfo_stop(struct seq_file *file, void *vcpu)
{
}

static int cpuinfo_show(struct seq_file *file, void *vcpu)
{
	seq_printf(file, "processor\t: %u\nmodel name\t: Outboard vCPU\n\n",
		   ((struct ob_vcpu *)vcpu)->id);
	return 0;
}

const struct seq_operations cpuinfo_op = {
	.start = cpuinfo_start,
	.next = cpuinfo_next,
	.stop = cpuinfo_stop,
	.show = cpuinfo_show,
};
