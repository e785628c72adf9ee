// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages [vvar] and [vdso] of programs: the time without a system call.
 *
 *   [vvar]  what the timekeeper of Linux knows: data.h. Written at each of its updates, under its
 *           lock
 *   [vdso]  an ELF file (vdso/clock.c), whose code computes with that
 *
 * The clock itself is the host's monotonic one, as for the kernel (time.c). Code of the platform
 * reads it, which each space has above its end. On a platform without such code there is no [vdso],
 * and programs make calls. Both pages are made when the first program starts.
 */
#include <linux/binfmts.h>
#include <linux/elf.h>
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pvclock_gtod.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/timekeeper_internal.h>
#include <linux/uaccess.h>
#include <asm/host.h>
#include <asm/ptrace.h>
#include <asm/unistd.h>
#include <outboard/hypercall_spaces.h>
#include "../vdso/data.h"
#include "machine.h"
#include "time.h"
#include "vdso.h"

extern const char ob_vdso_image[], ob_vdso_image_end[];

static struct ob_vdso_data *ob_vdso_data;	/* NULL: there is none, or not yet */

/* Both end with NULL. */
static struct page *ob_vdso_data_pages[2], *ob_vdso_code_pages[2];

static const struct vm_special_mapping ob_vdso_data_mapping = {
	.name = "[vvar]",
	.pages = ob_vdso_data_pages,
};

static const struct vm_special_mapping ob_vdso_code_mapping = {
	.name = "[vdso]",
	.pages = ob_vdso_code_pages,
};

static struct ob_vdso_clock ob_vdso_clock_of(const struct tk_read_base *base, u64 seconds)
{
	return (struct ob_vdso_clock) {
		.seconds = seconds,
		.nanoseconds = base->xtime_nsec,
		.mult = base->mult,
		.shift = base->shift,
	};
}

/* By the timekeeper, under its lock. */
static int ob_vdso_update(struct notifier_block *unused, unsigned long was_set, void *argument)
{
	const struct timekeeper *keeper = argument;
	struct ob_vdso_data *data = ob_vdso_data;

	WRITE_ONCE(data->sequence, data->sequence + 1);
	smp_wmb();
	data->tai_offset = keeper->tai_offset;
	data->last = keeper->tkr_mono.cycle_last;
	data->wall = ob_vdso_clock_of(&keeper->tkr_mono, keeper->xtime_sec);
	data->raw = ob_vdso_clock_of(&keeper->tkr_raw, keeper->raw_sec);
	data->monotonic_seconds = keeper->wall_to_monotonic.tv_sec;
	data->monotonic_nanoseconds = keeper->wall_to_monotonic.tv_nsec;
	data->boot = keeper->offs_boot;
	data->resolution = hrtimer_resolution;
	data->coarse_resolution = TICK_NSEC;
	smp_wmb();
	WRITE_ONCE(data->sequence, data->sequence + 1);
	return NOTIFY_OK;
}

static struct notifier_block ob_vdso_notifier = { .notifier_call = ob_vdso_update };

/* From `next` on, of our clock, a program has to ask for the wall clock by a call. */
void ob_vdso_set_compared(u64 next, bool wall_is_own)
{
	struct ob_vdso_data *data = READ_ONCE(ob_vdso_data);

	if (!data)
		return;
	WRITE_ONCE(data->wall_is_own, wall_is_own);
	WRITE_ONCE(data->compare_at, wall_is_own ? U64_MAX : next);
}

static struct ob_vdso_data *ob_vdso_make(u64 host_clock)
{
	struct page *data_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	struct page *code_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	struct ob_vdso_data *data;

	if (!data_page || !code_page) {
		if (data_page)
			__free_page(data_page);
		if (code_page)
			__free_page(code_page);
		return NULL;
	}
	memcpy(page_address(code_page), ob_vdso_image, ob_vdso_image_end - ob_vdso_image);
	ob_vdso_data_pages[0] = data_page;
	ob_vdso_code_pages[0] = code_page;
	data = page_address(data_page);
	data->host_clock = host_clock;
	data->offset = ob_machine.clock_offset;
	return data;
}

/* Before a program is executed. Without memory, or code of the host, programs make calls. */
void ob_vdso_setup(void)
{
	static DEFINE_MUTEX(lock);
	static bool done;
	u64 host_clock;

	guard(mutex)(&lock);
	if (done)
		return;
	done = true;
	if (ob_host_space_clock(ob_host, &host_clock))
		return;
	WRITE_ONCE(ob_vdso_data, ob_vdso_make(host_clock));
	if (!ob_vdso_data)
		return;
	pvclock_gtod_register_notifier(&ob_vdso_notifier);
	ob_wall_clock_show();
}

static int ob_vdso_map(struct mm_struct *mm, unsigned long address)
{
	struct vm_area_struct *vma;

	vma = _install_special_mapping(mm, address, PAGE_SIZE,
				       VM_READ | VM_MAYREAD | VM_DONTDUMP, &ob_vdso_data_mapping);
	if (IS_ERR(vma))
		return PTR_ERR(vma);
	/* A debugger may write a breakpoint, which is a copy. */
	vma = _install_special_mapping(mm, address + PAGE_SIZE, PAGE_SIZE,
				       VM_READ | VM_EXEC | VM_MAYREAD | VM_MAYWRITE | VM_MAYEXEC,
				       &ob_vdso_code_mapping);
	return PTR_ERR_OR_ZERO(vma);
}

/* By execve(). */
int arch_setup_additional_pages(struct linux_binprm *program, int has_interpreter)
{
	struct mm_struct *mm = current->mm;
	unsigned long address;
	int error;

	if (!ob_vdso_data)
		return 0;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	address = get_unmapped_area(NULL, 0, 2 * PAGE_SIZE, 0, 0);
	error = IS_ERR_VALUE(address) ? (int)address : ob_vdso_map(mm, address);
	mmap_write_unlock(mm);
	return error;
}

/* By execve(), too, after that: a new program has few mappings. 0: it has no [vdso]. */
unsigned long ob_vdso_address(void)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	unsigned long address = 0;

	VMA_ITERATOR(areas, mm, 0);

	mmap_read_lock(mm);
	for_each_vma(areas, vma)
		if (vma_is_special_mapping(vma, &ob_vdso_code_mapping))
			address = vma->vm_start;
	mmap_read_unlock(mm);
	return address;
}

static u64 ob_vdso_host_time(int clock)
{
	return clock == CLOCK_MONOTONIC ? ob_host_clock_monotonic(ob_host) :
					  ob_host_clock_realtime_coarse(ob_host);
}

/*
 * The host's code may have to make a call itself. Then it wants the host's clock. Returns whether
 * this is such a call, which is done then. Other code above the end of a space gains nothing by it.
 */
bool ob_vdso_host_clock(struct pt_regs *regs)
{
	struct timespec64 time;
	int clock = regs->di;

	if (regs->ax != __NR_clock_gettime ||
	    (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME_COARSE))
		return false;
	time = ns_to_timespec64(ob_vdso_host_time(clock));
	regs->orig_ax = -1;
	regs->ax = copy_to_user((void __user *)regs->si, &time, sizeof(time)) ? -EFAULT : 0;
	return true;
}
