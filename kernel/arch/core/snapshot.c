// SPDX-License-Identifier: GPL-2.0-only
/*
 * Snapshots: a kernel that has booted is saved once, and later processes go on from there (V14).
 *
 *   booted -> prepared -> at rest -> saved ----> go on -> renewed -> ready
 *                                     restored ---^
 *
 *   step       who                   what
 *   prepared   the leader            has loaded components, has made spare interfaces
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
 *
 * The memory of a snapshot is the file's, and each page is copied when it is first written. A
 * window of the kernel shows pages of RAM a second time, and such a copy would not be seen there.
 * So pages that vmalloc shows are saved as shared. Pages of components, which nobody uses through
 * RAM, are saved as the window's own. All others leave the file when they are allocated anew.
 */
#include <linux/bitmap.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <outboard/gate.h>
#include <outboard/hypercall_snapshot.h>
#include "deferred.h"
#include "driver.h"
#include "patience.h"
#include "snapshot.h"
#include "spare.h"
#include "vcpu.h"

/* RAM at boot is much less. A kernel that has used more is not saved. */
#define OB_SNAPSHOT_PAGES (SZ_128M >> PAGE_SHIFT)

/* Shorter runs of free pages are saved along with the pages around them. */
#define OB_SNAPSHOT_GAP_ORDER 3

/* Page frames below this one may be from a snapshot; 0: none is. */
unsigned long ob_snapshot_end;

/* In vmlinux.lds.S. */
extern char ob_image_data[], ob_image_data_end[], __bss_start[], __bss_stop[];

/* Free pages of a snapshot are the file's until they are used. Their contents do not matter. */
void ob_snapshot_page_used(struct page *page, unsigned int order)
{
	if (page_to_pfn(page) < ob_snapshot_end)
		ob_host_ram_renew(ob_host, (unsigned long)page_to_virt(page), PAGE_SIZE << order);
}

/* Pages of RAM by number. */
static DECLARE_BITMAP(ob_snapshot_shown, OB_SNAPSHOT_PAGES);
static DECLARE_BITMAP(ob_snapshot_elsewhere, OB_SNAPSHOT_PAGES);

static int ob_snapshot_note_shown(unsigned long address, u64 physical, u32 protection)
{
	__set_bit(physical >> PAGE_SHIFT, ob_snapshot_shown);
	return 0;
}

static int ob_snapshot_add_component(unsigned long address, u64 physical, u32 protection)
{
	__set_bit(physical >> PAGE_SHIFT, ob_snapshot_elsewhere);
	return ob_host_snapshot_add_window(ob_host, address, physical, protection);
}

static int ob_snapshot_windows(void)
{
	return ob_window_visit(ob_layout.vmalloc, ob_layout.vmalloc_end, ob_snapshot_note_shown) ?:
	       ob_window_visit(ob_layout.modules, ob_layout.modules_end, ob_snapshot_add_component);
}

static int ob_snapshot_add(const void *start, const void *end, enum ob_snapshot_kind kind)
{
	return ob_host_snapshot_add(ob_host, (unsigned long)start, end - start, kind);
}

enum ob_page_use {
	OB_PAGE_FREE = -1,
	OB_PAGE_PRIVATE = OB_SNAPSHOT_PRIVATE,
	OB_PAGE_SHARED = OB_SNAPSHOT_SHARED,
};

/* The use of the page; `count`: of how many pages from there on. */
static enum ob_page_use ob_page_use(unsigned long pfn, unsigned long *count)
{
	struct page *page = pfn_to_page(pfn);

	*count = 1;
	if (PageBuddy(page)) {
		*count = 1UL << page_private(page);
		return page_private(page) < OB_SNAPSHOT_GAP_ORDER ? OB_PAGE_PRIVATE : OB_PAGE_FREE;
	}
	if (test_bit(pfn - ARCH_PFN_OFFSET, ob_snapshot_elsewhere))
		return OB_PAGE_FREE;
	/* A client may map pages of the page cache later. */
	if (test_bit(pfn - ARCH_PFN_OFFSET, ob_snapshot_shown) || PageLRU(page) ||
	    page == ob_zero_page)
		return OB_PAGE_SHARED;
	return OB_PAGE_PRIVATE;
}

static int ob_snapshot_run(unsigned long start, unsigned long end, enum ob_page_use use)
{
	if (use == OB_PAGE_FREE || start == end)
		return 0;
	return ob_snapshot_add(pfn_to_virt(start), pfn_to_virt(end), (enum ob_snapshot_kind)use);
}

/* Adds all RAM that is not free, in runs of one kind. */
static int ob_snapshot_ram(void)
{
	unsigned long pfn, start = ARCH_PFN_OFFSET, count;
	enum ob_page_use use = OB_PAGE_FREE;
	int error = 0;

	for (pfn = start; pfn < max_pfn && !error; pfn += count) {
		enum ob_page_use this = ob_page_use(pfn, &count);

		if (this == use)
			continue;
		error = ob_snapshot_run(start, pfn, use);
		start = pfn;
		use = this;
	}
	return error ?: ob_snapshot_run(start, max_pfn, use);
}

/* Stacks of the tasks that run before the first call: the idle task, and the leader. */
static bool ob_stack_is_urgent(const void *stack)
{
	return stack == idle_task(0)->thread.stack || stack == ob_machine.leader->thread.stack;
}

static int ob_snapshot_stack(void *stack, size_t size)
{
	return ob_snapshot_add(stack, stack + size, ob_stack_is_urgent(stack) ?
			       OB_SNAPSHOT_URGENT : OB_SNAPSHOT_PRIVATE);
}

static int ob_snapshot_write(void)
{
	struct page *pages = pfn_to_page(ARCH_PFN_OFFSET);

	if (ob_machine.components_error)
		return ob_machine.components_error;
	if (num_online_cpus() > 1 || max_pfn - ARCH_PFN_OFFSET > OB_SNAPSHOT_PAGES)
		return -EBUSY;
	ob_snapshot_end = max_pfn;
	ob_machine.saved_time = ob_clock();
	return ob_host_snapshot_begin(ob_host) ?:
	       ob_snapshot_add(ob_image_data, ob_image_data_end, OB_SNAPSHOT_PRIVATE) ?:
	       ob_snapshot_add(__bss_start, __bss_stop, OB_SNAPSHOT_PRIVATE) ?:
	       ob_snapshot_add(pages, pages + (max_pfn - ARCH_PFN_OFFSET), OB_SNAPSHOT_PRIVATE) ?:
	       ob_stacks_visit(ob_snapshot_stack) ?:
	       ob_snapshot_windows() ?:
	       ob_snapshot_ram() ?:
	       ob_host_snapshot_commit(ob_host);
}

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
 * Saves the kernel, which is prepared, and has it go on, even if it could not be saved. By the
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
