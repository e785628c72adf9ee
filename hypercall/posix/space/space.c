// SPDX-License-Identifier: GPL-2.0-only
/*
 * Spaces as the kernel sees them: create, destroy, map, unmap. See space.h for the processes.
 *
 * The first create starts the zygote, unless ob_posix_spaces_prepare() did that before the boot.
 *
 *   no stub --create--> used --destroy--> stub waits --create--> used ...
 *                         `--the stub has died--> gone --destroy--> no stub
 *
 * `map` only notes an order. The stub carries it out before user code enters the next time, so many
 * pages cost one switch to the mapper. `unmap` does the same if all user threads of the space stand
 * still. Otherwise it returns when the order is carried out.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../raw.h"
#include "../regions.h"
#include "space.h"

static void free_all(struct ob_spaces *all)
{
	munmap(all, sizeof(*all));
}

static void publish(struct ob_host *host, struct ob_spaces *all)
{
	__atomic_store_n(&host->huge.is_hidden, all && !all->has_huge, __ATOMIC_RELEASE);
	__atomic_store_n(&host->spaces, all, __ATOMIC_RELEASE);
}

/* `huge`: the file with huge pages; -1: none. */
static int start(struct ob_host *host, int huge, struct ob_spaces **started)
{
	struct ob_spaces *all;
	int error;

	if (!ob_posix_space_end())
		return -EAGAIN;
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return -ENOMEM;
	all->can_spin = ob_platform_processors() > 1;
	syscall(SYS_sched_getaffinity, 0, sizeof(all->processors), all->processors);
	error = ob_zygote_start(host, huge, all);
	if (error) {
		free_all(all);
		return error;
	}
	*started = all;
	publish(host, all);
	return 0;
}

/* Of all kernels of the process; atomic. */
static uint32_t create_lock;

/*
 * The caller's interrupts are on. A preemption, or a handler of the program, would keep the lock
 * for long: signals are blocked meanwhile.
 */
static void lock_create(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, before);
	ob_space_lock(&create_lock);
}

static void unlock_create(const sigset_t *before)
{
	ob_space_unlock(&create_lock);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

void ob_posix_spaces_prepare(struct ob_host *host, int huge)
{
	struct ob_spaces *all;
	sigset_t before;

	lock_create(&before);
	if (!host->spaces && ob_posix_ram_prepare(host) && start(host, huge, &all))
		ob_posix_ram_drop(host);
	unlock_create(&before);
}

/*
 * Whether the space has a stub that waits, as good as new: user code of the next space finds
 * nothing that user code of the last one has left. Somebody may have killed a stub while it waited.
 * One that sleeps is alive.
 */
static bool waits(struct ob_spaces *all, struct ob_space *space)
{
	if (!space->pid || space->is_gone)
		return false;
	if (!ob_space_stands_still(all, &space->threads[0]) &&
	    ob_zygote_has_ended(all, space->pid)) {
		space->pid = 0;
		return false;
	}
	for (uint32_t i = 0; i < VCPUS_MOST; i++) {
		struct ob_space_thread *thread = &space->threads[i];

		if (thread->tid && !thread->is_clean && !ob_space_renew(all, thread, i))
			return false;
	}
	return true;
}

/* One whose stub waits; else one without a stub; else NULL. */
static struct ob_space *find_free(struct ob_spaces *all)
{
	struct ob_space *empty = NULL;

	for (uint32_t i = 1; i < SPACES_MOST; i++) {
		struct ob_space *space = &all->spaces[i];

		if (__atomic_load_n(&space->is_used, __ATOMIC_ACQUIRE))
			continue;
		space->index = i;
		if (waits(all, space))
			return space;
		if (!empty && !space->pid)
			empty = space;
		/* Neither this nor any later one was ever used. */
		if (!space->request)
			break;
	}
	return empty;
}

static int start_if_none(struct ob_host *host, struct ob_spaces **all)
{
	int huge = host->ram.huge_from ? host->ram.huge_fd : -1;

	*all = host->spaces;
	return *all ? 0 : start(host, huge, all);
}

static int create(struct ob_host *host, uint64_t *number)
{
	struct ob_spaces *all;
	int error = start_if_none(host, &all);
	struct ob_space *space;

	if (error)
		return error;
	space = find_free(all);
	if (!space)
		return -EAGAIN;
	if (!space->pid)
		error = ob_mapper_start(all, space);
	if (error)
		return error;
	*number = space->index;
	__atomic_store_n(&space->is_used, true, __ATOMIC_RELEASE);
	return 0;
}

int ob_host_space_create(struct ob_host *host, uint64_t *space)
{
	sigset_t before;
	int error;

	lock_create(&before);
	error = create(host, space);
	unlock_create(&before);
	return error;
}

int ob_host_space_clock(struct ob_host *host, uint64_t *address)
{
	struct ob_spaces *all;
	sigset_t before;
	int error;

	lock_create(&before);
	error = start_if_none(host, &all);
	if (!error)
		*address = all->clock;
	unlock_create(&before);
	return error || *address ? error : -ENOSYS;
}

/* Whether the processor has the instructions of ob_stub_call that not all have: Intel's manual. */
static bool has_instructions(void)
{
	unsigned int a, b, c, d;

	if (!__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || !(a & bit_XSAVEOPT))
		return false;
	return __get_cpuid(0x80000001, &a, &b, &c, &d) && c & bit_LAHF_LM;
}

int ob_host_space_calls(struct ob_host *host, uint64_t *address)
{
	struct ob_spaces *all;
	sigset_t before;
	int error;

	if (!has_instructions())
		return -ENOSYS;
	lock_create(&before);
	error = start_if_none(host, &all);
	if (!error) {
		*address = ob_stub_address(MAPPER_CODE, ob_stub_call);
		__atomic_store_n(&all->has_calls, true, __ATOMIC_RELEASE);
	}
	unlock_create(&before);
	return error;
}

/* The space is locked: no thread enters before what is noted is carried out. */
static bool stands_still(struct ob_spaces *all, struct ob_space *space)
{
	for (uint32_t i = 0; i < VCPUS_MOST; i++)
		if (space->threads[i].tid && !ob_space_stands_still(all, &space->threads[i]))
			return false;
	return true;
}

/* Noted changes take effect now, or before any user code runs. */
static void settle(struct ob_spaces *all, struct ob_space *space)
{
	if (!stands_still(all, space))
		ob_mapper_flush(all, space);
}

static void unmap(struct ob_host *host, struct ob_space *space, uint64_t address, uint64_t size)
{
	ob_space_lock(&space->lock);
	ob_mapper_unmap(host->spaces, space, address, size);
	settle(host->spaces, space);
	ob_space_unlock(&space->lock);
}

void ob_host_space_destroy(struct ob_host *host, uint64_t number)
{
	struct ob_space *space = ob_space_find(host->spaces, number);

	if (!space)
		return;
	unmap(host, space, 0, SPACE_END);
	for (uint32_t i = 0; i < VCPUS_MOST; i++)
		space->threads[i].is_still = false;
	__atomic_store_n(&space->is_used, false, __ATOMIC_RELEASE);
}

static bool is_range(uint64_t address, uint64_t size)
{
	return ob_posix_is_page_range(address, size) && address < SPACE_END &&
	       size <= SPACE_END - address;
}

/* Pages of one of RAM's files. */
static int show(struct ob_host *host, struct ob_space *space, uint64_t address, uint64_t physical,
		uint64_t size, uint32_t protection)
{
	bool is_huge = ob_posix_ram_fd(host, physical) != host->ram.fd;

	if (is_huge && !host->spaces->has_huge)
		return -ENOMEM;
	ob_mapper_map(host->spaces, space, address, size, ob_posix_protection(protection),
		      is_huge ? FD_HUGE : FD_RAM, physical);
	return 0;
}

int ob_host_space_map(struct ob_host *host, uint64_t number, uint64_t address, uint64_t physical,
		      uint64_t size, uint32_t protection)
{
	struct ob_space *space = ob_space_find(host->spaces, number);
	uint64_t ram_size = host->regions[OB_REGION_RAM].size;
	uint64_t border = host->ram.huge_from, below = size;
	int error = 0;

	if (!space || !is_range(address, size) || physical % PAGE_BYTES || physical > ram_size ||
	    size > ram_size - physical)
		return -EINVAL;
	if (ob_posix_pages_share(host, physical, size))
		return -ENOMEM;
	if (physical < border && border - physical < size)
		below = border - physical;
	ob_space_lock(&space->lock);
	error = show(host, space, address, physical, below, protection);
	if (!error && below < size)
		error = show(host, space, address + below, physical + below, size - below,
			     protection);
	ob_space_unlock(&space->lock);
	return error;
}

void ob_host_space_unmap(struct ob_host *host, uint64_t number, uint64_t address, uint64_t size)
{
	struct ob_space *space = ob_space_find(host->spaces, number);

	if (space && is_range(address, size))
		unmap(host, space, address, size);
}

int ob_host_space_protect(struct ob_host *host, uint64_t number, uint64_t address, uint64_t size,
			  uint32_t protection)
{
	struct ob_space *space = ob_space_find(host->spaces, number);
	bool is_possible;

	if (!space || !is_range(address, size))
		return -ENOSYS;
	ob_space_lock(&space->lock);
	is_possible = ob_mapper_protect(host->spaces, space, address, size,
					ob_posix_protection(protection));
	settle(host->spaces, space);
	ob_space_unlock(&space->lock);
	return is_possible ? 0 : -ENOSYS;
}

void ob_posix_spaces_stop(struct ob_host *host)
{
	struct ob_spaces *all = __atomic_exchange_n(&host->spaces, NULL, __ATOMIC_SEQ_CST);

	if (!all)
		return;
	__atomic_store_n(&host->huge.is_hidden, false, __ATOMIC_RELEASE);
	/* They would go with the zygote, but their new parent might not wait for them. */
	for (uint32_t i = 1; i < SPACES_MOST && all->spaces[i].request; i++)
		if (all->spaces[i].pid)
			ob_mapper_kill(all, &all->spaces[i]);
	ob_zygote_end(all);
	/* A thread that did not come out uses these. */
	if (ob_platform_has_left_behind(host))
		return;
	ob_zygote_release(all);
	free_all(all);
}

/* The stubs are the parent's. They end when it does, and not before the child closes this. */
void ob_posix_spaces_forked(struct ob_host *host)
{
	struct ob_spaces *all = host->spaces;

	publish(host, NULL);
	create_lock = 0;	/* another thread of the parent may have held it */
	if (!all)
		return;
	raw_close(all->channel);
	free_all(all);
}
