// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory grows by hot-add, up to the ceiling, before anything is reclaimed that will be wanted
 * again.
 *
 * The allocator's slow path wakes kswapd when a zone runs low; the linker wraps that call. While
 * there is room to grow, the wrap wakes the grower instead, with one exception: clean pages of
 * files that were read once are recycled first, as long as none that was dropped is read again (a
 * refault of mm/workingset.c). So a file that is read once takes no memory of the host, and the
 * second reading of a large file makes room for it. The grower doubles memory: a program
 * that needs little takes little, and one that needs much waits for few steps. The pages that are
 * still to come count as present in the total, so Linux does not size or refuse things by the
 * present memory.
 *
 * An allocation that finds no page before the grower is done waits for the grower in
 * out_of_memory(), which is wrapped as well. A library has no process that could be killed to free
 * memory, so at the ceiling an allocation fails. An allocation of a file system first waits for
 * pages that are being written: they become free.
 */
#include <linux/cgroup.h>
#include <linux/kthread.h>
#include <linux/memblock.h>
#include <linux/memcontrol.h>
#include <linux/memory_hotplug.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/sched/mm.h>
#include <linux/swap.h>
#include <linux/wait.h>
#include <linux/writeback.h>
#include <asm/host.h>
#include "adopt.h"
#include "dma.h"
#include "machine.h"
#include "memory.h"
#include "program.h"

/* How long an allocation waits for the grower, and what counts as recent growth, in jiffies. */
#define OB_GROW_PATIENCE (10 * HZ)
#define OB_GROW_RECENT (HZ / 10)

/* So many clean pages of files are kept before others are recycled. */
#define OB_RECYCLE_LEAST (SZ_64M >> PAGE_SHIFT)

/* So many refaults since memory grew last say that files are read again. */
#define OB_RECYCLE_REFAULTS (SZ_1M >> PAGE_SHIFT)

struct ob_grower {
	struct task_struct *task;
	wait_queue_head_t wanted, grown;
	unsigned long steps;		/* taken so far */
	unsigned long last;		/* when the last one was, in jiffies */
	unsigned long refaults;		/* of pages of files, before the last one */
	bool want;
	bool finished;			/* at the ceiling, or the host refused */
};

static struct ob_grower ob_grower = {
	.wanted = __WAIT_QUEUE_HEAD_INITIALIZER(ob_grower.wanted),
	.grown = __WAIT_QUEUE_HEAD_INITIALIZER(ob_grower.grown),
};

int arch_add_memory(int node, u64 start, u64 size, struct mhp_params *params)
{
	int error = __add_pages(node, PFN_DOWN(start), PFN_DOWN(size), params);

	if (!error) {
		max_pfn = max_low_pfn = max(max_pfn, (unsigned long)PFN_DOWN(start + size));
		high_memory = __va((max_pfn << PAGE_SHIFT) - 1) + 1;
	}
	return error;
}

/* mm/page_alloc.c */
extern int min_free_kbytes;
void setup_per_zone_wmarks(void);

/*
 * Growing starts when free memory falls below a mark, and takes some itself. Linux's own mark, for
 * little memory, is less than what the vCPUs may have taken without having counted it yet.
 */
static void ob_raise_marks(void)
{
	int least = 1024 + 64 * ob_machine.vcpus;

	if (min_free_kbytes < least) {
		min_free_kbytes = least;
		setup_per_zone_wmarks();
	}
}

/* Adds memory in small steps: other tasks may run between them. Returns the bytes added. */
static u64 ob_extend(u64 size, u64 more)
{
	u64 done = 0;
	int error = 0;

	while (done < more) {
		local_irq_disable();
		error = ob_host_ram_extend(ob_host, ob_layout.ram + size + done, OB_MEMORY_STEP);
		local_irq_enable();
		if (error)
			break;
		done += OB_MEMORY_STEP;
		cond_resched();
	}
	return round_down(done, memory_block_size_bytes());
}

/* No more memory will come than these bytes. */
static void ob_grow_no_more(u64 size, int error)
{
	WRITE_ONCE(ob_grower.finished, true);
	totalram_pages_add(-(long)PFN_DOWN(ob_machine.memory - size));
	if (error)
		pr_warn("memory stays at %llu MB: error %d\n", size >> 20, error);
}

static void ob_grow(void)
{
	u64 size = (u64)(max_pfn << PAGE_SHIFT) - OB_PHYS_OFFSET;
	u64 wanted = min(size, ob_machine.memory - size);
	u64 step = ob_extend(size, wanted);
	int error = step ? add_memory(0, OB_PHYS_OFFSET + size, step, MHP_NONE) : 0;

	if (error) {
		ob_grow_no_more(size, error);
		return;
	}
	totalram_pages_add(-(long)PFN_DOWN(step));
	if (step < wanted || size + step >= ob_machine.memory)
		ob_grow_no_more(size + step, step < wanted ? -ENOMEM : 0);
}

/* How many pages of files were read again after they had been dropped. */
static unsigned long ob_refaults(void)
{
	return global_node_page_state(WORKINGSET_REFAULT_FILE);
}

static int ob_grower_main(void *unused)
{
	/* Growing takes a little memory itself: it may use the reserves. */
	current->flags |= PF_MEMALLOC;
	while (!ob_grower.finished) {
		wait_event_idle(ob_grower.wanted, READ_ONCE(ob_grower.want));
		ob_grow();
		ob_raise_marks();
		WRITE_ONCE(ob_grower.last, jiffies);
		WRITE_ONCE(ob_grower.refaults, ob_refaults());
		WRITE_ONCE(ob_grower.want, false);
		WRITE_ONCE(ob_grower.steps, ob_grower.steps + 1);
		wake_up_all(&ob_grower.grown);
	}
	return 0;
}

static bool ob_can_grow(void)
{
	return ob_grower.task && !READ_ONCE(ob_grower.finished);
}

static void ob_grow_request(void)
{
	if (!xchg(&ob_grower.want, true))
		wake_up(&ob_grower.wanted);
}

/* Whether the caller makes do with a smaller block than it asks for. */
static bool ob_takes_less(gfp_t gfp)
{
	return gfp & __GFP_NORETRY || !(gfp & __GFP_DIRECT_RECLAIM);
}

/*
 * Whether the wake-up of kswapd means that memory is low. Linux also wakes kswapd when it turns
 * blocks of pages of one kind into another, when it tries again after reported memory came back,
 * and for a large folio that may be made of single pages: then memory is not low. Memory is low if
 * too many pages are dirty: with more memory more may be, and no writer waits.
 */
static bool ob_is_low(struct zone *zone, gfp_t gfp, int order, enum zone_type highest)
{
	bool dirty = gfp & __GFP_WRITE && !node_dirty_ok(zone->zone_pgdat);
	int wanted = ob_takes_less(gfp) ? 0 : order;

	return !READ_ONCE(ob_memory_is_reported) &&
	       (dirty || !zone_watermark_ok(zone, wanted, low_wmark_pages(zone), highest, 0));
}

static unsigned long ob_pages_to_write(void)
{
	return global_node_page_state(NR_FILE_DIRTY) + global_node_page_state(NR_WRITEBACK);
}

/* "recycle_files" on the command line: no memory for files, however often they are read. */
static bool ob_always_recycles __ro_after_init;

static int __init ob_recycle_set(char *value)
{
	ob_always_recycles = true;
	return 1;
}
__setup("recycle_files", ob_recycle_set);

static bool ob_files_are_read_again(void)
{
	return ob_refaults() - READ_ONCE(ob_grower.refaults) >= OB_RECYCLE_REFAULTS;
}

/*
 * Whether reclaiming pages of files costs less than growing, as nobody will want them again. That
 * makes no large block for a caller that insists on one: most reclaimed pages are single ones.
 */
static bool ob_can_recycle(gfp_t gfp, int order)
{
	unsigned long busy = ob_pages_to_write() + OB_RECYCLE_LEAST;

	return (order <= PAGE_ALLOC_COSTLY_ORDER || ob_takes_less(gfp)) && !(gfp & __GFP_WRITE) &&
	       global_node_page_state(NR_INACTIVE_FILE) > busy &&
	       (ob_always_recycles || !ob_files_are_read_again());
}

/* Memory that comes now does not belong to ZONE_DMA32. */
static bool ob_grows_in_vain(enum zone_type highest)
{
	return highest < ZONE_NORMAL && max_pfn >= PHYS_PFN(ob_dma_low_end());
}

/* Dodge wakeup_kswapd: memory grows before Linux takes pages back that may be wanted again. */
void __real_wakeup_kswapd(struct zone *zone, gfp_t gfp, int order, enum zone_type highest);
void __wrap_wakeup_kswapd(struct zone *zone, gfp_t gfp, int order, enum zone_type highest);

void __wrap_wakeup_kswapd(struct zone *zone, gfp_t gfp, int order, enum zone_type highest)
{
	if (!ob_can_grow() || ob_can_recycle(gfp, order) || ob_grows_in_vain(highest))
		__real_wakeup_kswapd(zone, gfp, order, highest);
	else if (ob_is_low(zone, gfp, order, highest))
		ob_grow_request();
}

/* Memory that came a moment ago may have come too late for this caller's last look. */
static bool ob_has_just_grown(void)
{
	return READ_ONCE(ob_grower.steps) &&
	       time_before(jiffies, READ_ONCE(ob_grower.last) + OB_GROW_RECENT);
}

/* A file system that gets no memory may have to give up. Is there hope for it? */
static bool ob_wait_for_writing(void)
{
	unsigned long deadline = jiffies + OB_GROW_PATIENCE, before = ob_pages_to_write();

	while (time_before(jiffies, deadline) && ob_pages_to_write() &&
	       !fatal_signal_pending(current)) {
		schedule_timeout_uninterruptible(1);
		if (ob_pages_to_write() < before)
			return true;
	}
	return false;
}

bool __real_out_of_memory(struct oom_control *control);

/* Bytes of a control group's path that a line of the log has room for. */
#define OB_GROUP_PATH 192

/* In the place of a victim: one that was killed before is not gone yet. */
#define OB_VICTIM_ENDS ((void *)-1UL)

/* Linux's line says which program it has killed. This one follows, and says why. */
static void ob_limit_report(void)
{
	u64 size = (u64)(max_pfn << PAGE_SHIFT) - OB_PHYS_OFFSET;

	if (size < ob_machine.memory)
		pr_err("Out of memory: the host gives no more than %llu MB of the kernel's %llu "
		       "MB\n", size >> 20, ob_machine.memory >> 20);
	else
		pr_err("Out of memory: the kernel has used its %llu MB\n",
		       ob_machine.memory >> 20);
}

/*
 * Linux kills the program that has most memory. It panics if there is none, except for a user's
 * request, which has the order -1: the last program may end meanwhile.
 */
static bool ob_kill_for_memory(const struct oom_control *control)
{
	struct oom_control request = {
		.zonelist = control->zonelist,
		.nodemask = control->nodemask,
		.gfp_mask = control->gfp_mask,
		.order = -1,
	};

	bool again = __real_out_of_memory(&request);

	if (request.chosen && request.chosen != OB_VICTIM_ENDS)
		ob_limit_report();
	return again;
}

/* As ob_limit_report(), for a control group. */
#ifdef CONFIG_MEMCG
static void ob_group_limit_report(const struct mem_cgroup *group)
{
	unsigned long limit = READ_ONCE(group->memory.max);
	char path[OB_GROUP_PATH];

	/* The end of a longer path is missing. */
	cgroup_path(group->css.cgroup, path, sizeof(path));
	pr_err("Memory cgroup out of memory: memory.max of %s is %lu KB\n", path,
	       limit << (PAGE_SHIFT - 10));
}
#else
static void ob_group_limit_report(const struct mem_cgroup *group)
{
}
#endif

/*
 * A control group has reached its own limit, which more memory for the kernel would not raise. Only
 * programs of the group are killed. The call of a client fails instead (ENOMEM): its process has no
 * memory of its own that its end would free.
 */
static bool ob_kill_for_group(struct oom_control *control)
{
	bool again;

	if (ob_is_of_process(current))
		return false;
	again = __real_out_of_memory(control);
	if (control->chosen && control->chosen != OB_VICTIM_ENDS)
		ob_group_limit_report(control->memcg);
	return again;
}

#ifdef CONFIG_MEMCG
/*
 * Dodge mem_cgroup_flush_stats_ratelimited: Linux adds up the pages of groups every two seconds. In
 * a younger kernel their sum is 0, so it drops the traces of pages that it has reclaimed, and no
 * file is found to be read again.
 */
void __wrap_mem_cgroup_flush_stats_ratelimited(struct mem_cgroup *group);

void __wrap_mem_cgroup_flush_stats_ratelimited(struct mem_cgroup *group)
{
	mem_cgroup_flush_stats(group);
}
#endif

/*
 * The allocation is tried again after true, and fails after false.
 *
 * Dodge out_of_memory: memory grows; where it cannot, Linux may kill a program, if there is one.
 */
bool __wrap_out_of_memory(struct oom_control *control);

bool __wrap_out_of_memory(struct oom_control *control)
{
	unsigned long steps = READ_ONCE(ob_grower.steps);

	if (control->memcg)
		return ob_kill_for_group(control);
	if (current == ob_grower.task)
		return false;
	if (ob_has_just_grown()) {
		/* A host that cannot interrupt us has its timer run now: the moment must end. */
		ob_host_thread_yield(ob_host);
		return true;
	}
	if (READ_ONCE(ob_memory_is_reported)) {
		schedule_timeout_uninterruptible(1);
		return true;
	}
	if (!ob_can_grow() && ob_programs_exist())
		return ob_kill_for_memory(control);
	if (!ob_can_grow())
		return !(control->gfp_mask & __GFP_FS) && ob_wait_for_writing();
	ob_grow_request();
	return wait_event_timeout(ob_grower.grown, READ_ONCE(ob_grower.steps) != steps,
				  OB_GROW_PATIENCE);
}

#ifdef CONFIG_HOTPLUG_CPU
/*
 * A vCPU comes up under the lock that cpus_read_lock() waits for, and needs kernel threads. Their
 * maker may wait for memory, so the grower must not wait for vCPUs. Growing does not rely on which
 * are up.
 *
 * Dodge cpus_read_lock: memory grows also while a vCPU comes up, which may wait for memory.
 * Dodge cpus_read_unlock: goes with cpus_read_lock.
 */
void __real_cpus_read_lock(void);
void __wrap_cpus_read_lock(void);
void __real_cpus_read_unlock(void);
void __wrap_cpus_read_unlock(void);

void __wrap_cpus_read_lock(void)
{
	if (current != ob_grower.task)
		__real_cpus_read_lock();
}

void __wrap_cpus_read_unlock(void)
{
	if (current != ob_grower.task)
		__real_cpus_read_unlock();
}
#endif

static int __init ob_grower_start(void)
{
	u64 size = (u64)(max_pfn << PAGE_SHIFT) - OB_PHYS_OFFSET;
	struct task_struct *task;

	if (size >= ob_machine.memory)
		return 0;
	totalram_pages_add(PFN_DOWN(ob_machine.memory - size));
	task = kthread_run(ob_grower_main, NULL, "grower");
	if (IS_ERR(task))
		return PTR_ERR(task);
	ob_grower.task = task;
	ob_raise_marks();
	return 0;
}
/* Late: drivers size their tables by what there is. */
late_initcall(ob_grower_start);
