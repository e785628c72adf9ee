// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot as the host sees it: lay out the address space, start the first vCPU's
 * carrier on the coroutine that is to become init's parent, the first idle task, and wait
 * until system calls can be made. Or go on from a snapshot (snapshot.c).
 */
#include <linux/mm.h>
#include <linux/sched/task.h>
#include <linux/start_kernel.h>
#include <outboard/gate.h>
#include "kasan.h"
#include "snapshot.h"
#include "vcpu.h"

struct ob_layout ob_layout __ro_after_init;

/* Address space is free; these are generous. */
#define OB_VMALLOC_SIZE (32ULL << 30)
#define OB_MODULES_SIZE (128ULL << 20)
#define OB_CLIENT_SIZE (64ULL << 30)
#define OB_STACKS_SIZE (2ULL << 30)

#define OB_MEMORY_MINIMUM (32ULL << 20)
#define OB_SECTION (1ULL << 24)

static int ob_reserve(enum ob_region region, u64 size, unsigned long *start, unsigned long *end)
{
	u64 address;
	int error = ob_host_region_reserve(ob_host, region, size, &address);

	if (error)
		return error;
	*start = address;
	*end = address + size;
	return 0;
}

/* Modules first: they must be near the text, where nothing else may take the room. */
static int ob_reserve_windows(void)
{
#ifdef CONFIG_MMU
	int error = ob_reserve(OB_REGION_MODULES, OB_MODULES_SIZE,
			       &ob_layout.modules, &ob_layout.modules_end) ?:
		    ob_reserve(OB_REGION_VMALLOC, OB_VMALLOC_SIZE,
			       &ob_layout.vmalloc, &ob_layout.vmalloc_end) ?:
		    ob_reserve(OB_REGION_CLIENT, OB_CLIENT_SIZE,
			       &ob_layout.client, &ob_layout.client_end);
	if (error)
		return error;
#endif
	return ob_reserve(OB_REGION_STACKS, OB_STACKS_SIZE,
			  &ob_layout.stacks, &ob_layout.stacks_end);
}

/* The array of struct page covers all of RAM's ceiling; it begins with the page frame of RAM's first byte. */
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

static int ob_layout_reserve(u64 memory)
{
	int error = ob_reserve_windows() ?:
		    ob_reserve(OB_REGION_RAM, memory, &ob_layout.ram, &ob_layout.ram_ceiling) ?:
		    ob_reserve_page_array(memory);

	ob_layout.direct_offset = ob_layout.ram - OB_PHYS_OFFSET;
	return error;
}

static void ob_wait_for(u32 *word)
{
	while (!READ_ONCE(*word))
		ob_host_wait(ob_host, word, 0, OB_FOREVER);
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

/* What a kernel that starts from a snapshot is told anew. */
void ob_configure(const struct ob_boot_parameters *parameters)
{
	ob_machine.vcpus = min(parameters->vcpus, NR_CPUS);
	ob_machine.memory = round_down(parameters->memory, OB_SECTION);
	ob_machine.spinners_max = ob_host_processor_count(ob_host);
	if (ob_machine.spinners_max == 1)
		ob_machine.spinners_max = 0;
	ob_machine.console_level = parameters->log_level;
	ob_machine.command_line = parameters->command_line ?: "";
	ob_machine.components = parameters->components ?: "";
}

static int ob_boot_cold(const struct ob_boot_parameters *parameters)
{
	int error;

	ob_configure(parameters);
	ob_machine.snapshot = IS_ENABLED(CONFIG_OUTBOARD_SNAPSHOT) && parameters->snapshot;
	ob_machine.boot_time = ob_clock();
	error = ob_layout_reserve(ob_machine.memory) ?: ob_kasan_setup() ?: ob_boot_first_vcpu();
	if (!error && ob_machine.snapshot) {
		ob_wait_for(&ob_machine.prepared);
		ob_snapshot_take();
	}
	return error;
}

/* The calling thread is a task from now on. If that fails, its first call tries again, and tells why. */
void ob_become_client(void)
{
	if (!ob_enter())
		ob_leave(0);
}

int ob_kernel_boot(const struct ob_boot_parameters *parameters)
{
	int error;

	if (!parameters->vcpus || !(u16)parameters->boot || parameters->memory < OB_MEMORY_MINIMUM)
		return -EINVAL;
	if (xchg(&ob_machine.booted, 1))
		return -EALREADY;
	WRITE_ONCE(ob_boot, parameters->boot);
	ob_thread_begin(OB_THREAD_CLIENT);
	error = parameters->snapshot ? ob_snapshot_start(parameters) : -ENOENT;
	if (error == -ENOENT)
		error = ob_boot_cold(parameters);
	if (error) {
		ob_host_regions_release(ob_host);
		return error;
	}
	ob_wait_for(&ob_machine.ready);
	ob_become_client();
	return ob_machine.components_error;
}
