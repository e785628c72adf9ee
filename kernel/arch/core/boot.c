// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot as the host sees it. The booting thread lays out the address space, and starts the first
 * vCPU's carrier on a coroutine: start_kernel(), which becomes the idle task. It then waits until
 * the kernel is ready for system calls. Or it goes on from a snapshot (snapshot.c).
 */
#include <linux/kern_levels.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/sched/task.h>
#include <linux/start_kernel.h>
#include <asm/host.h>
#include <outboard/gate.h>
#include "boot.h"
#include "carrier.h"
#include "coroutine.h"
#include "gate.h"
#include "halt.h"
#include "host.h"
#include "kasan.h"
#include "machine.h"
#include "memory.h"
#include "patience.h"
#include "service.h"
#include "snapshot.h"
#include "spare.h"
#include "time.h"
#include "vcpu.h"

struct ob_layout ob_layout __ro_after_init;

/* Parked words have the number of the boot from that bit on (vcpu.h). User addresses end there. */
#define OB_REGIONS_END (1UL << 47)
#define OB_REGION_ALIGNMENT (16UL << 20)

static const char *const ob_region_names[OB_REGIONS] = {
	[OB_REGION_RAM] = "RAM",
	[OB_REGION_VMALLOC] = "VMALLOC",
	[OB_REGION_MODULES] = "MODULES",
	[OB_REGION_CLIENT] = "CLIENT",
	[OB_REGION_STACKS] = "STACKS",
	[OB_REGION_PAGES] = "PAGES",
};

static struct ob_range ob_reserved[OB_REGIONS];

/* Returns the fault of a region of the host's. NULL: it is as hypercall.h demands. */
static const char *ob_region_fault(u64 address, u64 size)
{
	const struct ob_range *other;

	if (address % OB_REGION_ALIGNMENT)
		return "not aligned to 16 MB";
	if (address >= OB_REGIONS_END || size > OB_REGIONS_END - address)
		return "not below 2^47";
	for (other = ob_reserved; other < ob_reserved + OB_REGIONS; other++)
		if (address < other->address + other->size && other->address < address + size)
			return "in another region";
	return NULL;
}

/* The kernel has no console yet. */
static int ob_region_refuse(enum ob_region region, u64 address, u64 size, const char *fault)
{
	char line[120];
	int length = scnprintf(line, sizeof(line),
			       "outboard: the host's region %s, %llu bytes at %#llx, is %s",
			       ob_region_names[region], size, address, fault);

	ob_host_console_write(ob_host, LOGLEVEL_ERR, line, length);
	return -EFAULT;
}

static int ob_reserve(enum ob_region region, u64 size, unsigned long *start, unsigned long *end)
{
	u64 address;
	int error = ob_host_region_reserve(ob_host, region, size, &address);
	const char *fault = error ? NULL : ob_region_fault(address, size);

	if (fault)
		return ob_region_refuse(region, address, size, fault);
	if (error)
		return error;
	ob_reserved[region] = (struct ob_range) { address, size };
	*start = address;
	*end = address + size;
	return 0;
}

/* Modules first: they must be near the text, and nothing else may take that room. */
static int ob_reserve_windows(const struct ob_info *info)
{
	const u64 *sizes = info->windows;
	int error = 0;

	if (IS_ENABLED(CONFIG_MMU) && ob_host_groups.mapping)
		error = ob_reserve(OB_REGION_MODULES, sizes[OB_REGION_MODULES],
				   &ob_layout.modules, &ob_layout.modules_end) ?:
			ob_reserve(OB_REGION_VMALLOC, sizes[OB_REGION_VMALLOC],
				   &ob_layout.vmalloc, &ob_layout.vmalloc_end) ?:
			ob_reserve(OB_REGION_CLIENT, sizes[OB_REGION_CLIENT],
				   &ob_layout.client, &ob_layout.client_end);
	return error ?: ob_reserve(OB_REGION_STACKS, sizes[OB_REGION_STACKS],
				   &ob_layout.stacks, &ob_layout.stacks_end);
}

/*
 * The array of struct page covers RAM up to its ceiling. It begins with RAM's first page frame.
 */
static int ob_reserve_page_array(u64 memory)
{
#ifdef CONFIG_SPARSEMEM_VMEMMAP
	u64 size = PAGE_ALIGN((memory >> PAGE_SHIFT) * sizeof(struct page));
	unsigned long start, end;
	int error = ob_reserve(OB_REGION_PAGES, size, &start, &end);

	if (error)
		return error;
	ob_layout.page_array = start - ARCH_PFN_OFFSET * sizeof(struct page);
#endif
	return 0;
}

static int ob_layout_reserve(const struct ob_info *info, u64 memory)
{
	int error = ob_reserve_windows(info) ?:
		    ob_reserve(OB_REGION_RAM, memory, &ob_layout.ram, &ob_layout.ram_ceiling) ?:
		    ob_reserve_page_array(memory);

	ob_layout.direct_offset = ob_layout.ram - OB_PHYS_OFFSET;
	return error ?: ob_host_ram_extend(ob_host, ob_layout.ram, ob_memory_at_boot());
}

/* A component that waits for what never comes must not hold up the program for ever. */
static int ob_wait_for(u32 *word)
{
	return ob_changes_in_time(word, 0, OB_BOOT_PATIENCE) ? 0 : -ETIMEDOUT;
}

static void __ref ob_boot_main(void)
{
	start_kernel();
}

static int ob_boot_first_vcpu(void)
{
	void *stack = ob_stack_alloc();
	int error;

	if (!stack)
		return -ENOMEM;
	init_task.thread.stack = stack;
	init_task.thread.coroutine = ob_coroutine_prepare(stack, ob_boot_main);
	init_task.thread.vcpu = &ob_vcpus[0];
	error = ob_service_start(&ob_vcpus[0]);
	if (error)
		return error;
	error = ob_vcpu_start(&ob_vcpus[0], &init_task);
	if (error)
		ob_service_stop(&ob_vcpus[0]);
	return error;
}

/* Sets what the program asked for: at boot, and again on a start from a snapshot. */
void ob_configure(const struct ob_boot_parameters *parameters, const struct ob_info *info)
{
	ob_machine.memory = ob_memory_ceiling(parameters->memory);
	ob_machine.vcpus = min3((u64)parameters->vcpus, (u64)NR_CPUS,
				ob_machine.memory / OB_MEMORY_FOR_VCPU);
	ob_machine.ram_is_pinned = info->features & OB_HOST_RAM_IS_PINNED;
	ob_machine.ram_is_executable = info->features & OB_HOST_RAM_IS_EXECUTABLE;
	ob_machine.spinners_max = info->processors > 1 ? info->processors : 0;
	ob_machine.console_level = parameters->log_level;
	ob_machine.command_line = parameters->command_line ?: "";
	ob_machine.components = parameters->components ?: "";
	ob_machine.spare_interfaces = parameters->spare_interfaces;
	ob_layout.space_end = ob_host_groups.spaces ? info->space_end : 0;
}

static int ob_boot_cold(const struct ob_boot_parameters *parameters, const struct ob_info *info)
{
	int error;

	ob_configure(parameters, info);
	ob_machine.snapshot = IS_ENABLED(CONFIG_OUTBOARD_SNAPSHOT) && parameters->snapshot &&
			      !ob_machine.ram_is_pinned;
	ob_machine.boot_time = ob_clock();
	error = ob_layout_reserve(info, ob_machine.memory) ?:
		ob_kasan_setup();
	if (!error && ob_machine.snapshot)
		ob_spares_open(ob_machine.spare_interfaces);
	error = error ?: ob_boot_first_vcpu();
	if (error)
		ob_spares_close();
	if (!error && ob_machine.snapshot)
		error = ob_wait_for(&ob_machine.savable) ?: ob_snapshot_take();
	return error ?: ob_wait_for(&ob_machine.ready);
}

/*
 * Makes the calling thread a task. If that fails, its first call tries again, and returns the
 * error.
 */
static void ob_become_client(void)
{
	if (!ob_enter())
		ob_leave(0);
}

int ob_kernel_boot(const struct ob_boot_parameters *parameters)
{
	struct ob_info info = {};
	int error = -ENOENT;

	if (!parameters->vcpus || !(u16)parameters->boot || parameters->memory < OB_MEMORY_LEAST)
		return -EINVAL;
	if (xchg(&ob_machine.booted, 1))
		return -EALREADY;
	WRITE_ONCE(ob_boot, parameters->boot);
	ob_thread_begin(OB_THREAD_CLIENT);
	ob_host_info(ob_host, &info);
	if (parameters->snapshot && !(info.features & OB_HOST_RAM_IS_PINNED))
		error = ob_snapshot_start(parameters, &info);
	if (error == -ENOENT)
		error = ob_boot_cold(parameters, &info);
	if (error == -ETIMEDOUT) {
		ob_abandon();
		return error;
	}
	if (error) {
		WRITE_ONCE(ob_machine.gone, 1);
		ob_host_regions_release(ob_host);
		return error;
	}
	ob_become_client();
	return ob_machine.components_error;
}
