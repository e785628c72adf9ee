// SPDX-License-Identifier: GPL-2.0-only
/*
 * The zygote: a small process that makes, signals and ends stubs.
 *
 * The process of the kernel cannot do that itself. It may be sandboxed, and then it makes no
 * processes and sends no signals. And a copy of it would have its memory and its descriptors, for a
 * moment at least. So a copy executes a file that consists of stub.S alone, before that.
 *
 *   this process --vfork--> helper --vfork--> zygote --fork--> mapper --thread--> user threads
 *
 * The helper ends at once: the zygote is no child of this process, whose program waits for children
 * of its own. The zygote has a session of its own, so signals of a terminal do not reach it.
 *
 * The kernel's process may be sandboxed, and an image may take it over. So the zygote has a sandbox
 * of its own (filter.c). Landlock lets it signal its stubs only: without Landlock, or before Linux
 * 6.12, orders could also kill other processes of the user.
 *
 * The channel is a pair of sockets. A byte makes the zygote look at its list. When this process
 * ends, the zygote finds the end of the channel, and ends; with it all stubs (PR_SET_PDEATHSIG).
 *
 *   offset in the door       orders                                        written
 *   DOOR_LIST                for each vCPU: a signal to a user thread      at any time, by threads
 *                            of it, or ORDER_SKIP                          that hold no lock
 *   LIST_GATE                ORDER_GATE: the end, without a new request
 *   LIST_GATE + ORDER_BYTES  the orders of the request                     under `lock`
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../raw.h"
#include "../regions.h"
#include "orders.h"
#include "space.h"

/* Descriptors are copied from above this number to their places. */
#define ABOVE 64

/* Longest wait for the end of all stubs. */
#define END_MSEC 5000

#define STACK_BYTES (16ul << 10)

/* The helper and the zygote-to-be share this memory until execve(). */
struct birth {
	int descriptors[FD_HUGE + 1];	/* -1: none */
	pid_t zygote;
	_Alignas(64) char helper_stack[STACK_BYTES];
	_Alignas(64) char zygote_stack[STACK_BYTES];
};

static char *door_of(struct ob_spaces *all)
{
	return ob_space_page(all, 0, ZYGOTE_DOOR);
}

static bool place_descriptors(const struct birth *birth)
{
	int copies[FD_HUGE + 1];

	for (int i = 0; i <= FD_HUGE; i++) {
		copies[i] = birth->descriptors[i];
		if (copies[i] >= 0)
			copies[i] = raw_fcntl(copies[i], F_DUPFD_CLOEXEC, ABOVE);
		if (copies[i] < 0 && birth->descriptors[i] >= 0)
			return false;
	}
	for (int i = 0; i <= FD_HUGE; i++)
		if (copies[i] >= 0 && syscall(SYS_dup3, copies[i], i, 0) < 0)
			return false;
	return true;
}

static int zygote_main(void *pointer)
{
	struct birth *birth = pointer;
	char *arguments[] = { "outboard-spaces", NULL }, *environment[] = { NULL };

	syscall(SYS_setsid);
	syscall(SYS_chdir, "/");
	if (!place_descriptors(birth))
		return 1;
	syscall(SYS_execveat, FD_CODE, "", arguments, environment, AT_EMPTY_PATH);
	return 1;
}

static int helper_main(void *pointer)
{
	struct birth *birth = pointer;

	birth->zygote = clone(zygote_main, birth->zygote_stack + STACK_BYTES,
			      CLONE_VM | CLONE_VFORK, birth);
	return 0;
}

static int give_birth(struct birth *birth)
{
	pid_t helper;

	helper = clone(helper_main, birth->helper_stack + STACK_BYTES, CLONE_VM | CLONE_VFORK,
		       birth);
	if (helper < 0)
		return -EAGAIN;
	raw_waitpid(helper, NULL, __WALL);
	return birth->zygote > 0 ? 0 : -EAGAIN;
}

/* The file that is executed: code, and the door with the first list. */
static int make_code(void)
{
	const size_t size = (size_t)(ob_stub_code_end - ob_stub_code);
	/* The caller's stack may be small. */
	static char pages[2 * PAGE];
	char *door = pages + PAGE;
	uint32_t next = DOOR_LIST;
	int fd;

	memcpy(pages, ob_stub_code, size);
	next = ob_order(door, next, LIST_EXIT, SYS_close_range, FD_HUGE + 1, ~0u, 0, 0);
	next = ob_order_map(door, next, LIST_EXIT, ZYGOTE_CODE, PAGE, PROT_READ | PROT_EXEC, 0,
			    FD_CODE, 0);
	next = ob_order_map(door, next, LIST_EXIT, ZYGOTE_DOOR, DOOR_BYTES,
			    PROT_READ | PROT_WRITE, 0, FD_CONTROL,
			    ob_space_offset(0, ZYGOTE_DOOR));
	ob_order_special(door, next, ORDER_JUMP, ob_stub_address(ZYGOTE_CODE, ob_stub_start));
	ob_order(door, LIST_EXIT, LIST_EXIT, SYS_exit_group, 1, 0, 0, 0);
	fd = raw_memfd("outboard-stub", MFD_CLOEXEC);
	if (fd >= 0 && raw_pwrite(fd, pages, sizeof(pages), 0) == sizeof(pages))
		return fd;
	if (fd >= 0)
		raw_close(fd);
	return -1;
}

static void prepare_door(struct ob_spaces *all)
{
	char *door = door_of(all);

	*ob_space_word(door, DOOR_READS) = 1;
	*ob_space_word(door, DOOR_PASSES) = 1;
	ob_orders_tails(door, ZYGOTE_DOOR, ob_space_offset(0, ZYGOTE_DOOR));
	for (uint32_t i = 0; i < VCPUS_MOST; i++)
		ob_order_special(door, DOOR_LIST + i * ORDER_BYTES, ORDER_SKIP, 0);
	ob_order_special(door, LIST_GATE, ORDER_GATE, 0);
}

/* Has the zygote look at its list. A full channel is as good: it has not yet read what is there. */
static void ring(struct ob_spaces *all)
{
	raw_send(all->channel, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Nobody sends to this process: there is either nothing to read, or the end. */
static bool has_ended(struct ob_spaces *all)
{
	char byte;

	return raw_recv(all->channel, &byte, 1, MSG_DONTWAIT) == 0;
}

/* Has the orders carried out, which end at `end`. False: one failed, or there is no zygote. */
static bool request(struct ob_spaces *all, uint32_t end)
{
	char *door = door_of(all);
	uint32_t *word = ob_space_word(door, DOOR_REQUEST), number = *word + 1;

	ob_order_special(door, end, ORDER_GO, LIST_DONE);
	__atomic_store_n(word, number, __ATOMIC_SEQ_CST);
	ring(all);
	while (!ob_space_await(all, ob_space_word(door, DOOR_DONE), number, NULL, NULL))
		if (has_ended(all))
			return false;
	return *ob_space_word(door, DOOR_FAILED) != number;
}

/* As the host has it: Linux 6.12 and later have the last member. */
struct landlock_rules {
	uint64_t files, network, scopes;
};
#define ALL_SCOPES 3ull		/* abstract sockets, and signals */

#define DATA_ACTION DOOR_DATA
#define DATA_LANDLOCK (DATA_ACTION + 4 * 8)
#define DATA_FILTER (DATA_LANDLOCK + sizeof(struct landlock_rules))

/* Signals reach the zygote and its stubs alone, if the host can do that. */
static uint32_t scope_signals(struct ob_spaces *all, char *door, uint32_t next)
{
	const struct landlock_rules rules = { .scopes = ALL_SCOPES };
	const uint32_t behind = next + 3 * ORDER_BYTES;
	/* The first free number. */
	const uint64_t rules_fd = all->has_huge ? FD_HUGE + 1 : FD_HUGE;

	memcpy(door + DATA_LANDLOCK, &rules, sizeof(rules));
	next = ob_order(door, next, behind, SYS_landlock_create_ruleset,
			ZYGOTE_DOOR + DATA_LANDLOCK, sizeof(rules), 0, 0);
	ob_order_at(door, next - ORDER_BYTES)->expected = (uint32_t)rules_fd;
	next = ob_order(door, next, next + ORDER_BYTES, SYS_landlock_restrict_self, rules_fd, 0, 0,
			0);
	return ob_order(door, next, behind, SYS_close_range, rules_fd, rules_fd, 0, 0);
}

/* The zygote drops the memory that it has got as a program. */
static bool drop_memory(struct ob_spaces *all)
{
	const uint64_t above = ZYGOTE_DOOR + DOOR_BYTES;
	char *door = door_of(all);
	uint32_t next = LIST_REQUEST;

	next = ob_order(door, next, LIST_FAILED, SYS_munmap, 0, ZYGOTE_CODE, 0, 0);
	next = ob_order(door, next, LIST_FAILED, SYS_munmap, above, ADDRESS_END - above, 0, 0);
	return request(all, next);
}

/* Of arch_prctl(2), where the host has CONFIG_CHECKPOINT_RESTORE. */
#define ARCH_MAP_VDSO_64 0x2003

/* Copies the start of a page of the zygote. False: there is nothing to read. */
static bool peek(struct ob_spaces *all, uint64_t address, uint32_t *value)
{
	char *door = door_of(all);

	ob_order(door, LIST_REQUEST, LIST_FAILED, SYS_pwrite64, FD_CONTROL, address,
		 sizeof(*value), ob_space_offset(0, ZYGOTE_DOOR + DOOR_SCRATCH));
	if (!request(all, LIST_REQUEST + ORDER_BYTES))
		return false;
	*value = *ob_space_word(door, DOOR_SCRATCH);
	return true;
}

/*
 * Maps the host's code for clocks and the pages from which that reads, for all stubs. The code is
 * behind them, and begins as an ELF file does.
 */
static uint64_t map_clock(struct ob_spaces *all)
{
	const uint64_t offset = ob_clock_offset();
	char *door = door_of(all);
	uint32_t first, magic;

	memcpy(&magic, ELFMAG, SELFMAG);
	ob_order(door, LIST_REQUEST, LIST_FAILED, SYS_arch_prctl, ARCH_MAP_VDSO_64, CLOCK_AREA, 0,
		 0);
	if (!offset || !request(all, LIST_REQUEST + ORDER_BYTES))
		return 0;
	for (uint64_t i = 0; i < CLOCK_PAGES; i++)
		if (peek(all, CLOCK_AREA + i * PAGE, &first) && first == magic)
			return CLOCK_AREA + i * PAGE + offset;
	return 0;
}

/* The zygote drops what is left of its life as a program, and all rights that it does not need. */
static bool settle(struct ob_spaces *all)
{
	/* As the host has it: handler, flags, restorer, mask. */
	const uint64_t by_default[4] = { 0 };
	char *door = door_of(all);
	uint32_t next = LIST_REQUEST;

	if (!drop_memory(all))
		return false;
	all->clock = map_clock(all);
	memcpy(door + DATA_ACTION, by_default, sizeof(by_default));
	ob_filter_zygote(door + DATA_FILTER, ZYGOTE_DOOR + DATA_FILTER);
	next = ob_order(door, next, LIST_FAILED, SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0);
	/* It waits for stubs, so it must not ignore this. */
	next = ob_order(door, next, LIST_FAILED, SYS_rt_sigaction, SIGCHLD,
			ZYGOTE_DOOR + DATA_ACTION, 0, 8);
	next = scope_signals(all, door, next);
	next = ob_order(door, next, LIST_FAILED, SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			SECCOMP_FILTER_FLAG_SPEC_ALLOW, ZYGOTE_DOOR + DATA_FILTER, 0);
	return request(all, next);
}

static int open_files(struct ob_host *host, int huge, struct ob_spaces *all,
		      struct birth *birth, int *control)
{
	int pair[2], code = make_code();

	*control = raw_memfd("outboard-spaces", MFD_CLOEXEC);
	if (code < 0 || *control < 0 || ftruncate(*control, (off_t)(SPACES_MOST * AREA_BYTES)) ||
	    raw_socketpair(SOCK_STREAM | SOCK_CLOEXEC, pair)) {
		raw_close(code);
		raw_close(*control);
		return -ENOMEM;
	}
	all->channel = pair[0];
	birth->descriptors[FD_HUGE] = huge;
	all->has_huge = huge >= 0;
	birth->descriptors[FD_CHANNEL] = pair[1];
	birth->descriptors[FD_CONTROL] = *control;
	birth->descriptors[FD_CODE] = code;
	birth->descriptors[FD_RAM] = host->ram.fd;
	return 0;
}

static int map_control(struct ob_spaces *all, int control)
{
	const size_t size = SPACES_MOST * AREA_BYTES;
	void *got = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, control,
			 0);

	if (got == MAP_FAILED)
		return -ENOMEM;
	madvise(got, size, MADV_DONTFORK);
	madvise(got, size, MADV_DONTDUMP);
	all->control = got;
	return 0;
}

int ob_zygote_start(struct ob_host *host, int huge, struct ob_spaces *all)
{
	static struct birth birth;	/* of one zygote at a time: space.c */
	int control, error = open_files(host, huge, all, &birth, &control);

	if (error)
		return error;
	error = map_control(all, control);
	if (!error) {
		prepare_door(all);
		error = give_birth(&birth);
	}
	raw_close(birth.descriptors[FD_CHANNEL]);
	raw_close(birth.descriptors[FD_CODE]);
	raw_close(control);
	all->zygote = birth.zygote;
	if (!error && !settle(all))
		error = -EAGAIN;
	if (error && all->control)
		ob_zygote_end(all);
	if (error)
		ob_zygote_release(all);
	return error;
}

/*
 * Zygote and mappers share the other side of the channel: its end is that of all of them. It does
 * not come if somebody has stopped them; they end when they go on.
 */
void ob_zygote_end(struct ob_spaces *all)
{
	struct pollfd end = { .fd = all->channel, .events = POLLIN };
	char *door = door_of(all);

	ob_space_lock(&all->lock);
	ob_order(door, LIST_REQUEST, LIST_EXIT, SYS_exit_group, 0, 0, 0, 0);
	__atomic_add_fetch(ob_space_word(door, DOOR_REQUEST), 1, __ATOMIC_SEQ_CST);
	ring(all);
	raw_poll(&end, 1, END_MSEC);
	ob_space_unlock(&all->lock);
}

void ob_zygote_release(struct ob_spaces *all)
{
	if (all->control)
		munmap(all->control, SPACES_MOST * AREA_BYTES);
	all->control = NULL;
	raw_close(all->channel);
	all->channel = -1;
}

int ob_zygote_fork(struct ob_spaces *all, uint32_t index, pid_t *pid)
{
	char *door = door_of(all);
	uint32_t next = LIST_CHILD, end = LIST_REQUEST + ORDER_BYTES;
	bool done;

	ob_space_lock(&all->lock);
	next = ob_order(door, next, LIST_EXIT, SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
	/* Another parent: the zygote has ended before that. */
	next = ob_order(door, next, LIST_EXIT, SYS_getppid, 0, 0, 0, 0);
	ob_order_at(door, next - ORDER_BYTES)->expected = (uint32_t)all->zygote;
	next = ob_order_map(door, next, LIST_EXIT, MAPPER_CODE, PAGE, PROT_READ | PROT_EXEC, 0,
			    FD_CODE, 0);
	next = ob_order_map(door, next, LIST_EXIT, MAPPER_DOOR, DOOR_BYTES, PROT_READ, 0,
			    FD_CONTROL, ob_space_offset(index, MAPPER_DOOR));
	ob_order_special(door, next, ORDER_JUMP, ob_stub_address(MAPPER_CODE, ob_stub_start));
	ob_order(door, LIST_REQUEST, LIST_FAILED, SYS_clone,
		 STUB_CLONE, 0, ZYGOTE_DOOR + DOOR_CHILD, 0);
	ob_order_at(door, LIST_REQUEST)->arguments[5] = ZYGOTE_DOOR + LIST_CHILD;
	done = request(all, end);
	*pid = (pid_t)*ob_space_word(door, DOOR_CHILD);
	ob_space_unlock(&all->lock);
	if (done)
		return 0;
	return has_ended(all) ? -ESRCH : -EAGAIN;
}

bool ob_zygote_has_ended(struct ob_spaces *all, pid_t pid)
{
	char *door = door_of(all);
	bool is_over;

	ob_space_lock(&all->lock);
	ob_order(door, LIST_REQUEST, LIST_FAILED, SYS_wait4, (uint64_t)pid, 0, WNOHANG | __WALL, 0);
	ob_order_at(door, LIST_REQUEST)->expected = (uint32_t)pid;
	/* A stub does not outlive the zygote. */
	is_over = request(all, LIST_REQUEST + ORDER_BYTES) || has_ended(all);
	ob_space_unlock(&all->lock);
	return is_over;
}

void ob_zygote_kill(struct ob_spaces *all, pid_t pid)
{
	char *door = door_of(all);
	uint32_t next = LIST_REQUEST;

	ob_space_lock(&all->lock);
	next = ob_order(door, next, LIST_FAILED, SYS_kill, (uint64_t)pid, SIGKILL, 0, 0);
	next = ob_order(door, next, LIST_FAILED, SYS_wait4, (uint64_t)pid, 0, __WALL, 0);
	request(all, next);
	ob_space_unlock(&all->lock);
}

static struct ob_order *signal_order(struct ob_spaces *all, uint32_t vcpu)
{
	return ob_order_at(door_of(all), DOOR_LIST + vcpu * ORDER_BYTES);
}

void ob_zygote_signal(struct ob_spaces *all, uint32_t vcpu, struct ob_space_thread *thread)
{
	struct ob_order *order = signal_order(all, vcpu);
	uint32_t *senders = &all->vcpus[vcpu].senders;

	__atomic_fetch_add(senders, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&thread->signals, 1, __ATOMIC_SEQ_CST);
	order->arguments[0] = (uint64_t)thread->space->pid;
	order->arguments[1] = thread->tid;
	order->arguments[2] = STUB_SIGNAL;
	/* The thread may have come out meanwhile: that is no failure. */
	order->otherwise = DOOR_LIST + (vcpu + 1) * ORDER_BYTES;
	__atomic_store_n(&order->number, SYS_tgkill, __ATOMIC_SEQ_CST);
	ring(all);
	__atomic_fetch_sub(senders, 1, __ATOMIC_SEQ_CST);
}

void ob_zygote_signal_over(struct ob_spaces *all, uint32_t vcpu)
{
	struct ob_order *order = signal_order(all, vcpu);

	if (__atomic_load_n(&order->number, __ATOMIC_RELAXED) != ORDER_SKIP)
		__atomic_store_n(&order->number, ORDER_SKIP, __ATOMIC_RELAXED);
}

/* The zygote counts a pass first, then reads its orders: it finds this one, or is seen here. */
bool ob_zygote_recall_signal(struct ob_spaces *all, uint32_t vcpu)
{
	const uint32_t *passes = ob_space_word(door_of(all), DOOR_PASSES);

	__atomic_store_n(&signal_order(all, vcpu)->number, ORDER_SKIP, __ATOMIC_SEQ_CST);
	return !(__atomic_load_n(passes, __ATOMIC_SEQ_CST) & 1);
}
