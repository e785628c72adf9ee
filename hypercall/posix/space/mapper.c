// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mapper of a stub: the only one there that has the files of RAM. The platform writes a list of
 * orders to its door, and may do so only while the mapper waits for a request:
 *
 *   list is empty --map, unmap--> list grows --flush, start--> request --> done --> list is empty
 *
 * `start` lets a user thread run when the list is carried out. The mapper itself does that: one
 * switch between processes less.
 *
 * If the host refuses a mapping, it has no room for more of them (max_map_count). Then the mapper
 * drops everything that is shown: user code faults again, and what it needs is shown again.
 *
 * On a host with several processors the mapper follows the vCPU's thread that waits for it from one
 * to the other (move_near()).
 *
 * User threads are made here, too, since they share the mapper's memory. The host ends all threads
 * of a process that a signal ends: stub and mapper live and die together.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "orders.h"
#include "space.h"

/* The host's flag for sa_restorer, which its headers hide. */
#define WITH_RESTORER 0x04000000ul

/* As the host's calls have them. */
struct host_action {
	uint64_t handler, flags, restorer, mask;
};

struct host_stack {
	uint64_t address;
	uint32_t flags, padding;
	uint64_t size;
};

/* In a mapper's door. */
#define DATA_ACTION DOOR_DATA
#define DATA_NAME (DATA_ACTION + sizeof(struct host_action))
#define DATA_FILTER (DATA_NAME + 16)
/* Masks of processors: of new user threads, and of the mapper. */
#define DATA_ALL_PROCESSORS (LIST_CHILD - PROCESSORS_MOST / 8)
#define DATA_PROCESSORS (LIST_DONE - PROCESSORS_MOST / 8)
_Static_assert(LIST_DROP + 2 * ORDER_BYTES <= DATA_PROCESSORS, "the mask fits");

/* In the door of a user thread. */
#define DATA_MASK DOOR_DATA
#define DATA_STACK (DATA_MASK + 8)
#define DATA_THREAD_FILTER (DATA_STACK + sizeof(struct host_stack))

static const int events[] = {
	SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, STUB_SIGNAL,
};

static char *door_of(struct ob_spaces *all, struct ob_space *space)
{
	return ob_space_page(all, space->index, MAPPER_DOOR);
}

void ob_mapper_kill(struct ob_spaces *all, struct ob_space *space)
{
	pid_t pid = __atomic_exchange_n(&space->pid, 0, __ATOMIC_SEQ_CST);

	if (pid > 0)
		ob_zygote_kill(all, pid);
	__atomic_store_n(&space->is_gone, true, __ATOMIC_SEQ_CST);
}

/* Waits for an answer of the stub. False: it is gone. */
static bool await(struct ob_spaces *all, struct ob_space *space, uint32_t *word, uint32_t value)
{
	while (!ob_space_await(all, word, value, NULL, NULL)) {
		if (__atomic_load_n(&space->is_gone, __ATOMIC_SEQ_CST))
			return false;
		if (!ob_zygote_has_ended(all, space->pid))
			continue;
		space->pid = 0;
		__atomic_store_n(&space->is_gone, true, __ATOMIC_SEQ_CST);
		return false;
	}
	return true;
}

/* Whether the mapper waits for a request: only then the list may change. False: it is gone. */
static bool is_ready(struct ob_spaces *all, struct ob_space *space)
{
	char *door = door_of(all, space);

	return !__atomic_load_n(&space->is_gone, __ATOMIC_SEQ_CST) &&
	       await(all, space, ob_space_word(door, DOOR_DONE), space->request);
}

/* The host may refuse this. */
static void add_move(struct ob_spaces *all, struct ob_space *space, uint32_t mask)
{
	uint32_t next = space->end + ORDER_BYTES;

	space->end = ob_order(door_of(all, space), space->end, next, SYS_sched_setaffinity, 0,
			      PROCESSORS_MOST / 8, MAPPER_DOOR + mask, 0);
}

/*
 * Moves the mapper to the processor of this thread, which sleeps while the mapper works. A wake-up
 * of another processor takes several times as long as the work.
 */
static void move_near(struct ob_spaces *all, struct ob_space *space)
{
	char *door = door_of(all, space), *mask = door + DATA_PROCESSORS;
	const int here = sched_getcpu();

	if (!all->can_spin || here == space->processor || here < 0 ||
	    (uint32_t)here >= PROCESSORS_MOST)
		return;
	space->processor = here;
	memset(mask, 0, PROCESSORS_MOST / 8);
	mask[here / 8] = (char)(1 << here % 8);
	add_move(all, space, DATA_PROCESSORS);
}

/* Has the list carried out, and then what is at `next`, also if the host refuses a mapping. */
static void submit(struct ob_spaces *all, struct ob_space *space, uint32_t next)
{
	char *door = door_of(all, space);

	move_near(all, space);
	ob_order_special(door, space->end, ORDER_GO, next);
	ob_order_special(door, LIST_DROP + ORDER_BYTES, ORDER_GO, next);
	space->end = DOOR_LIST;
	space->hidden = space->hidden_end = 0;
	__atomic_store_n(ob_space_word(door, DOOR_REQUEST), ++space->request, __ATOMIC_SEQ_CST);
	ob_space_wake(ob_space_word(door, DOOR_REQUEST));
}

bool ob_mapper_flush(struct ob_spaces *all, struct ob_space *space)
{
	if (!is_ready(all, space))
		return false;
	if (space->end == DOOR_LIST)
		return true;
	submit(all, space, LIST_DONE);
	return is_ready(all, space);
}

void ob_mapper_await(struct ob_spaces *all, struct ob_space *space, uint32_t request)
{
	uint32_t *word = ob_space_word(door_of(all, space), DOOR_DONE);
	const uint32_t done = __atomic_load_n(word, __ATOMIC_SEQ_CST);
	const struct timespec time = { 0, (long)LOOK_NSEC };

	if ((int32_t)(done - request) < 0)
		syscall(SYS_futex, word, FUTEX_WAIT, done, &time, NULL, 0);
}

bool ob_mapper_is_idle(struct ob_spaces *all, struct ob_space *space)
{
	return space->end == DOOR_LIST && is_ready(all, space);
}

void ob_mapper_start_thread(struct ob_spaces *all, struct ob_space *space, uint32_t vcpu,
			    uint32_t state)
{
	char *door = door_of(all, space);
	uint32_t next = LIST_START;

	*ob_space_word(door, DOOR_START) = state;
	next = ob_order(door, next, LIST_EXIT, SYS_pwrite64, FD_CONTROL, MAPPER_DOOR + DOOR_START,
			sizeof(state),
			ob_space_offset(space->index, THREAD_DOOR(vcpu) + DOOR_STATE));
	next = ob_order(door, next, LIST_EXIT, SYS_futex, THREAD_DOOR(vcpu) + DOOR_STATE,
			FUTEX_WAKE, 1, 0);
	ob_order_special(door, next, ORDER_GO, LIST_DONE);
	submit(all, space, LIST_START);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Makes room for one more order, and those that submit() adds. */
static bool has_room(struct ob_spaces *all, struct ob_space *space)
{
	if (space->end + 3 * ORDER_BYTES > DOOR_BYTES)
		return ob_mapper_flush(all, space);
	return is_ready(all, space);
}

/* A mapping replaces what is there: the order before need not unmap just this. */
static void forget_unmap(struct ob_spaces *all, struct ob_space *space, uint64_t address,
			 uint64_t size)
{
	struct ob_order *last = ob_order_at(door_of(all, space), space->end - ORDER_BYTES);

	if (space->end != DOOR_LIST && last->number == SYS_munmap &&
	    last->arguments[0] == address && last->arguments[1] == size)
		space->end -= ORDER_BYTES;
}

/* The order before, if it maps what is just before this in the space and in the file. */
static struct ob_order *neighbour(struct ob_spaces *all, struct ob_space *space, uint64_t address,
				  int protection, int descriptor, uint64_t offset)
{
	struct ob_order *last = ob_order_at(door_of(all, space), space->end - ORDER_BYTES);

	if (space->end == DOOR_LIST || last->number != SYS_mmap)
		return NULL;
	if (last->arguments[0] + last->arguments[1] != address ||
	    last->arguments[5] + last->arguments[1] != offset ||
	    last->arguments[2] != (uint64_t)protection ||
	    last->arguments[4] != (uint64_t)descriptor)
		return NULL;
	return last;
}

void ob_mapper_map(struct ob_spaces *all, struct ob_space *space, uint64_t address, uint64_t size,
		   int protection, int descriptor, uint64_t offset)
{
	struct ob_order *last = neighbour(all, space, address, protection, descriptor, offset);

	if (last) {
		last->arguments[1] += size;
	} else if (has_room(all, space)) {
		forget_unmap(all, space, address, size);
		space->end = ob_order_map(door_of(all, space), space->end, LIST_DROP, address,
					  size, protection, MAP_POPULATE, descriptor, offset);
	} else {
		return;
	}
	space->shown = space->shown_end ? least(space->shown, address) : address;
	space->shown_end = most(space->shown_end, address + size);
	ob_runs_add(space, address, address + size, protection);
}

void ob_mapper_unmap(struct ob_spaces *all, struct ob_space *space, uint64_t address,
		     uint64_t size)
{
	uint64_t end = address + size;

	if (address >= space->shown_end || end <= space->shown)
		return;
	ob_runs_remove(space, address, end);
	if (address <= space->shown && end >= space->shown_end) {
		/* Nothing of the list is needed but what it unmaps. */
		if (space->hidden_end) {
			address = least(address, space->hidden);
			end = most(end, space->hidden_end);
		}
		space->end = DOOR_LIST;
		space->shown = space->shown_end = 0;
		ob_runs_clear(space);
	}
	if (!has_room(all, space))
		return;
	space->end = ob_order(door_of(all, space), space->end, LIST_DROP, SYS_munmap, address,
			      end - address, 0, 0);
	space->hidden = space->hidden_end ? least(space->hidden, address) : address;
	space->hidden_end = most(space->hidden_end, end);
}

bool ob_mapper_protect(struct ob_spaces *all, struct ob_space *space, uint64_t address,
		       uint64_t size, int protection)
{
	if (!ob_runs_protect(space, address, address + size, protection))
		return false;
	for (uint32_t i = 0; i < space->run_count; i++) {
		struct ob_space_run *run = &space->runs[i];

		if (!run->changes)
			continue;
		run->changes = false;
		if (!has_room(all, space))
			return true;
		space->end = ob_order(door_of(all, space), space->end, LIST_DROP, SYS_mprotect,
				      run->address, run->end - run->address,
				      (uint64_t)run->protection, 0);
	}
	return true;
}

/* ---- user threads -------------------------------------------------------- */

static void prepare_thread_door(char *door, uint32_t vcpu)
{
	const uint64_t at = THREAD_DOOR(vcpu);
	const struct host_stack stack = {
		.address = THREAD_SLOT(vcpu) + SLOT_STACK, .size = SLOT_BYTES - SLOT_STACK,
	};
	uint32_t next = DOOR_LIST;

	*ob_space_word(door, DOOR_STATE) = 1 << 1 | 1;
	*ob_space_word(door, DOOR_HOST_SLEEPS) = 1;
	memcpy(door + DATA_STACK, &stack, sizeof(stack));
	ob_filter_thread(door + DATA_THREAD_FILTER, at + DATA_THREAD_FILTER, vcpu);
	ob_order(door, LIST_EXIT, LIST_EXIT, SYS_exit_group, 1, 0, 0, 0);
	next = ob_order(door, next, LIST_EXIT, SYS_close_range, 0, ~0u, 0, 0);
	next = ob_order(door, next, LIST_EXIT, SYS_sigaltstack, at + DATA_STACK, 0, 0, 0);
	next = ob_order(door, next, LIST_EXIT, SYS_rt_sigprocmask, SIG_SETMASK, at + DATA_MASK, 0,
			8);
	next = ob_order(door, next, LIST_EXIT, SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			SECCOMP_FILTER_FLAG_SPEC_ALLOW, at + DATA_THREAD_FILTER, 0);
	ob_order_special(door, next, ORDER_STOP, 0);
}

static void add_thread_orders(struct ob_spaces *all, struct ob_space *space, uint32_t vcpu)
{
	const uint64_t code = THREAD_CODE(vcpu);
	char *door = door_of(all, space);
	uint32_t next;

	ob_order_special(door, LIST_CHILD, ORDER_JUMP, ob_stub_address(code, ob_stub_start));
	/* The new thread would be tied to the mapper's processor. */
	add_move(all, space, DATA_ALL_PROCESSORS);
	space->processor = -1;
	next = ob_order_map(door, space->end, LIST_FAILED, code, PAGE, PROT_READ | PROT_EXEC, 0,
			    FD_CODE, 0);
	next = ob_order_map(door, next, LIST_FAILED, THREAD_DOOR(vcpu), PAGE, PROT_READ, 0,
			    FD_CONTROL, ob_space_offset(space->index, THREAD_DOOR(vcpu)));
	next = ob_order_map(door, next, LIST_FAILED, THREAD_SLOT(vcpu), SLOT_BYTES,
			    PROT_READ | PROT_WRITE, MAP_POPULATE, FD_CONTROL,
			    ob_space_offset(space->index, THREAD_SLOT(vcpu)));
	space->end = ob_order(door, next, LIST_FAILED, SYS_clone,
			      THREAD_CLONE, 0, THREAD_SLOT(vcpu) + SLOT_THREAD, 0);
	ob_order_at(door, next)->arguments[5] = MAPPER_DOOR + LIST_CHILD;
}

bool ob_mapper_thread(struct ob_spaces *all, struct ob_space *space, uint32_t vcpu)
{
	struct ob_space_thread *thread = &space->threads[vcpu];

	thread->space = space;
	thread->door = ob_space_page(all, space->index, THREAD_DOOR(vcpu));
	thread->slot = ob_space_page(all, space->index, THREAD_SLOT(vcpu));
	memset(thread->door, 0, PAGE);
	memset(thread->slot, 0, SLOT_BYTES);
	prepare_thread_door(thread->door, vcpu);
	if (!ob_mapper_flush(all, space))
		return false;
	add_thread_orders(all, space, vcpu);
	submit(all, space, LIST_DONE);
	if (!is_ready(all, space) ||
	    *ob_space_word(door_of(all, space), DOOR_FAILED) == space->request)
		return false;
	if (!await(all, space, ob_space_word(thread->slot, SLOT_DONE), 1))
		return false;
	thread->entry = 1;
	*ob_space_word(thread->door, DOOR_HOST_SLEEPS) = 0;
	__atomic_store_n(ob_space_word(thread->door, DOOR_STATE), 1 << 1, __ATOMIC_SEQ_CST);
	/* User code of other vCPUs can write this. A signal reaches threads of this stub only. */
	thread->tid = __atomic_load_n(ob_space_word(thread->slot, SLOT_THREAD), __ATOMIC_RELAXED);
	thread->is_clean = true;
	return thread->tid != 0;
}

/* ---- the process --------------------------------------------------------- */

static void prepare_door(struct ob_spaces *all, struct ob_space *space)
{
	char *door = door_of(all, space);
	/* All threads have one handler, and each has its own page of the same code. */
	const struct host_action action = {
		.handler = ob_stub_address(MAPPER_CODE, ob_stub_handler),
		.flags = SA_SIGINFO | SA_ONSTACK | WITH_RESTORER,
		.restorer = ob_stub_address(MAPPER_CODE, ob_stub_return),
		.mask = ~0ull,
	};
	uint32_t next = DOOR_LIST;

	memset(door, 0, DOOR_BYTES);
	ob_orders_tails(door, MAPPER_DOOR, ob_space_offset(space->index, MAPPER_DOOR));
	memcpy(door + DATA_ACTION, &action, sizeof(action));
	strcpy(door + DATA_NAME, "outboard-space");
	memcpy(door + DATA_ALL_PROCESSORS, all->processors, sizeof(all->processors));
	ob_order(door, LIST_DROP, LIST_EXIT, SYS_munmap, 0, SPACE_END, 0, 0);
	ob_filter_mapper(door + DATA_FILTER, MAPPER_DOOR + DATA_FILTER);
	next = ob_order(door, next, LIST_FAILED, SYS_munmap, ZYGOTE_CODE, PAGE + DOOR_BYTES, 0, 0);
	next = ob_order(door, next, LIST_FAILED, SYS_prctl, PR_SET_NAME, MAPPER_DOOR + DATA_NAME, 0,
			0);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		next = ob_order(door, next, LIST_FAILED, SYS_rt_sigaction, (uint64_t)events[i],
				MAPPER_DOOR + DATA_ACTION, 0, 8);
	next = ob_order(door, next, LIST_FAILED, SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			SECCOMP_FILTER_FLAG_SPEC_ALLOW, MAPPER_DOOR + DATA_FILTER, 0);
	ob_order_special(door, next, ORDER_GO, LIST_DONE);
	*ob_space_word(door, DOOR_KNOWN) = 1;
	space->request = 1;
	space->end = DOOR_LIST;
	space->shown = space->shown_end = 0;
	space->hidden = space->hidden_end = 0;
	space->processor = -1;
	ob_runs_clear(space);
	__atomic_store_n(ob_space_word(door, DOOR_REQUEST), 1, __ATOMIC_SEQ_CST);
}

int ob_mapper_start(struct ob_spaces *all, struct ob_space *space)
{
	int error;

	memset(space->threads, 0, sizeof(space->threads));
	space->is_gone = false;
	prepare_door(all, space);
	error = ob_zygote_fork(all, space->index, &space->pid);
	if (error) {
		space->pid = 0;
		return error;
	}
	/* No user code has run there, so the frame is the host's. */
	if (await(all, space, ob_space_word(door_of(all, space), DOOR_DONE), 1) &&
	    *ob_space_word(door_of(all, space), DOOR_FAILED) != 1 &&
	    ob_mapper_thread(all, space, 0) && ob_frame_learn(space->threads[0].slot))
		return 0;
	ob_mapper_kill(all, space);
	return -EAGAIN;
}
