// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that attack the stub they run in (invariant V19). Each must fail, and the host must stay
 * able to run other programs. Arguments: names of tests; none: all. Link with space_bed.c and
 * platform_bed.c.
 *
 * A tracer watches the user thread from outside, with ptrace(). At each system call it sees the
 * entry, also of a call that the filter refuses. So a call counts as made unless SIGSYS of the
 * filter, with the same number and the same address, follows before the next one:
 *
 *   stop of the thread            tracer
 *   entry of a call               a call that is noted was made; notes this one
 *   SIGSYS of the filter for it   drops the note
 *
 * A call that was made must be futex, at one of two instructions, or rt_sigreturn, at one.
 *
 * The last tests attack from the other side: orders to the zygote that the platform never gives.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "space_bed.h"
#include "space/orders.h"
#include "space/space.h"

#define SYSCALL "\x0f\x05"
#define LOOP "\xeb\xfe"

/* si_code of a SIGSYS that a filter raises. */
#define CODE_OF_FILTER 1

/* ---- the tracer ---------------------------------------------------------- */

static struct {
	pid_t thread;
	atomic_bool is_ready, is_over;
	uint64_t number, at;	/* noted; at 0: nothing is */
	atomic_ulong made, refused, escaped;
} traced;

static bool is_allowed(uint64_t number, uint64_t at)
{
	const uint64_t code = THREAD_CODE(0);

	/* Of Linux 6.11 and later: no filter sees them. Outside of a probe they do nothing. */
	if (number == 335 || number == 336)
		return true;
	if (number == SYS_futex)
		return at == ob_stub_address(code, ob_stub_wake) ||
		       at == ob_stub_address(code, ob_stub_asleep);
	return number == SYS_rt_sigreturn && at == ob_stub_address(code, ob_stub_return);
}

static void settle(void)
{
	if (!traced.at)
		return;
	traced.made++;
	if (!is_allowed(traced.number, traced.at)) {
		traced.escaped++;
		fprintf(stderr, "system call %ld was made at %#lx\n", (long)traced.number,
			(unsigned long)traced.at);
	}
	traced.at = 0;
}

static void note_entry(void)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, traced.thread, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	settle();
	traced.number = info.entry.nr;
	traced.at = info.instruction_pointer;
}

static int note_signal(int number)
{
	siginfo_t info;

	if (number == SIGSYS && !ptrace(PTRACE_GETSIGINFO, traced.thread, 0, &info) &&
	    info.si_code == CODE_OF_FILTER &&
	    (uint32_t)info.si_syscall == (uint32_t)traced.number &&
	    (uint64_t)info.si_call_addr == traced.at) {
		traced.refused++;
		traced.at = 0;
	}
	return number;
}

static void *trace(void *unused)
{
	int status, number;

	CHECK(!ptrace(PTRACE_SEIZE, traced.thread, 0, PTRACE_O_TRACESYSGOOD));
	CHECK(!ptrace(PTRACE_INTERRUPT, traced.thread, 0, 0));
	while (waitpid(traced.thread, &status, __WALL) == traced.thread && WIFSTOPPED(status)) {
		number = WSTOPSIG(status);
		if (status >> 16 == PTRACE_EVENT_STOP)
			number = 0;
		else if (number == (SIGTRAP | 0x80))
			number = (note_entry(), 0);
		else
			number = note_signal(number);
		traced.is_ready = true;
		ptrace(PTRACE_SYSCALL, traced.thread, 0, number);
	}
	settle();
	traced.is_over = true;
	return unused;
}

static pthread_t tracer;

/* The thread of vCPU 0, which waits. Returns when it is watched. */
static void watch(uint64_t space)
{
	traced.thread = (pid_t)mock_host->spaces->spaces[space].threads[0].tid;
	traced.is_ready = traced.is_over = false;
	CHECK(!pthread_create(&tracer, NULL, trace, NULL));
	while (!traced.is_ready)
		usleep(100);
}

/* The space is gone, or goes. */
static void end_watch(uint64_t space)
{
	kill(stub_of(space), SIGKILL);
	CHECK(!pthread_join(tracer, NULL));
	CHECK(traced.is_over);
}

/* ---- attacks ------------------------------------------------------------- */

/* An interrupt may have been left over. */
static void check_call(uint64_t space)
{
	do {
		enter_at_code(space);
	} while (event.kind == OB_SPACE_INTERRUPTED);
	CHECK_EQUAL(event.kind, OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.ip, CODE + 2);
}

/* Another space is as it was, and a new one can be made. */
static void check_others(uint64_t bystander)
{
	uint64_t space = 0;

	check_call(bystander);
	CHECK_EQUAL(ob_host_space_create(mock_host, &space), 0);
	map(space, CODE, CODE_PAGE, EXECUTE);
	check_call(space);
	ob_host_space_destroy(mock_host, space);
}

/* Calls that would do harm, as lists of orders that user code writes for the code of the stub. */
static const uint64_t harmful[][7] = {
	{ SYS_mmap, 0x10000000, 0x1000000, 3, 0x11, FD_RAM, 0 },
	{ SYS_pwrite64, FD_CONTROL, CODE, 4096, 0 },
	{ SYS_clone, 0x10f00, 0, 0, 0, 0, DATA },
	{ SYS_kill, (uint64_t)-1, SIGCONT },
	{ SYS_write, 2, CODE, 2 },
	{ SYS_futex, THREAD_DOOR(1) + DOOR_STATE, 0, 0 },
	{ SYS_futex, THREAD_SLOT(0), 9, 0 },
	{ SYS_exit_group, 0 },
};

#define HARMFUL (sizeof(harmful) / sizeof(harmful[0]))

static void write_orders(char *page, const uint64_t *call)
{
	for (uint32_t offset = 0; offset < PAGE; offset += ORDER_BYTES) {
		struct ob_order order = { .number = (int64_t)call[0] };

		memcpy(order.arguments, call + 1, sizeof(order.arguments));
		memcpy(page + offset, &order, sizeof(order));
	}
}

/* Registers for the jump: arguments in place, orders at DATA, a stack there. */
static void aim(uint64_t ip, const uint64_t *call)
{
	registers = (struct ob_space_registers){
		.ip = ip, .ax = call[0], .di = call[1], .si = call[2], .dx = call[3],
		.r10 = call[4], .r8 = call[5], .r9 = call[6], .bx = DATA, .bp = DATA, .cx = 1,
		.r12 = DATA, .sp = DATA + 1024, .flags = 0x202,
	};
}

static uint64_t new_attacker(void)
{
	uint64_t space = new_space(BYTES(SYSCALL LOOP));

	check_call(space);
	watch(space);
	return space;
}

/* Jumps to every byte of the stub's code, and of the mapper's, with each set of registers. */
static void test_jumps(void)
{
	const uint64_t size = (uint64_t)(ob_stub_code_end - ob_stub_code);
	const uint64_t pages[] = { THREAD_CODE(0), MAPPER_CODE };
	uint64_t bystander = new_space(BYTES(SYSCALL LOOP)), space = new_attacker();
	int jumps = 0, deaths = 0;

	repeat(interrupt_all);
	for (size_t p = 0; p < 2; p++) {
		for (uint64_t i = 0; i < size; i++) {
			const uint64_t *call = harmful[(i + i / HARMFUL) % HARMFUL];

			write_orders(ram(DATA_PAGE), call);
			for (int set = 0; set < 2; set++, jumps++) {
				aim(pages[p] + i, harmful[(i * 3 + (uint64_t)set) % HARMFUL]);
				registers.r13 = (uint64_t)set;
				if (enter(space) != OB_SPACE_GONE)
					continue;
				deaths++;
				end_watch(space);
				ob_host_space_destroy(mock_host, space);
				space = new_attacker();
			}
		}
	}
	end_repeating();
	end_watch(space);
	printf("%d jumps: %lu calls made, %lu refused, %d stubs died\n", jumps, traced.made,
	       traced.refused, deaths);
	fflush(stdout);
	CHECK_EQUAL(traced.escaped, 0);
	CHECK(traced.refused > 100 && traced.made > (unsigned long)jumps);
	check_others(bystander);
}

/* The program's own instructions can ask for these, besides. */
static void test_instructions(void)
{
	static const struct {
		const char *code;
		size_t size;
	} attempts[] = {
		{ BYTES(SYSCALL LOOP) },
		{ BYTES("\xcd\x80" LOOP) },		/* int $0x80 */
		{ BYTES("\x0f\x34" LOOP) },		/* sysenter */
		/* lret to a 32-bit segment, at CODE + 12; int $0x80 there */
		{ BYTES("\x6a\x23\x68\x0c\x00\x40\x00\x48\xcb\x90\x90\x90\xcd\x80" LOOP) },
	};
	uint64_t bystander = new_space(BYTES(SYSCALL LOOP)), space = new_attacker();

	repeat(interrupt_all);
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		memcpy(ram(CODE_PAGE), attempts[i].code, attempts[i].size);
		for (uint64_t number = 0; number < 500; number += 1 + 7 * (i > 0)) {
			aim(CODE, harmful[number % HARMFUL]);
			registers.ax = number;
			do {
				enter(space);
			} while (event.kind == OB_SPACE_INTERRUPTED && registers.ip == CODE);
			CHECK(event.kind != OB_SPACE_GONE);
			CHECK(event.kind != OB_SPACE_SYSCALL || !i);
			CHECK(event.kind != OB_SPACE_INTERRUPTED || number == 336);
		}
	}
	end_repeating();
	end_watch(space);
	CHECK_EQUAL(traced.escaped, 0);
	CHECK(traced.refused >= 500);
	memcpy(ram(CODE_PAGE), attempts[0].code, attempts[0].size);
	check_others(bystander);
}

/* rt_sigreturn in the stub with a frame that blocks all signals, then a loop. */
static void test_blocked_signals(void)
{
	uint64_t bystander = new_space(BYTES(SYSCALL LOOP));
	uint64_t space = new_space(BYTES(SYSCALL LOOP)), began;
	ucontext_t *context = (ucontext_t *)ram(DATA_PAGE);

	memset(context, 0, PAGE);
	context->uc_mcontext.gregs[REG_RIP] = CODE + 2;
	context->uc_mcontext.gregs[REG_CSGSFS] = 0x002b000000000033;
	memset(&context->uc_sigmask, 0xff, 8);
	registers = (struct ob_space_registers){
		.ip = ob_stub_address(THREAD_CODE(0), ob_stub_return) - 2, .ax = SYS_rt_sigreturn,
		.sp = DATA, .flags = 0x202,
	};
	began = ob_host_clock_monotonic(mock_host);
	repeat(interrupt_all);
	do {
		enter(space);
	} while (event.kind == OB_SPACE_INTERRUPTED);
	CHECK_EQUAL(event.kind, OB_SPACE_GONE);
	end_repeating();
	/* It did run on: the signals of the first looks had no effect. */
	CHECK(ob_host_clock_monotonic(mock_host) - began >= LOOK_NSEC);
	ob_host_space_destroy(mock_host, space);
	check_others(bystander);
}

/*
 * Code that reports the end of its entry in the slot, and runs on: it counts in a page. Returns
 * when it does.
 */
static uint64_t new_runner(void)
{
	/* mov %eax, (%rdx); 2: incl DATA; jmp 2 */
	static const char code[] = "\x89\x02\xff\x04\x25\x00\x00\x50\x00\xeb\xf7";
	uint64_t space = new_space(code, sizeof(code) - 1);
	volatile uint32_t *count = (volatile uint32_t *)ram(DATA_PAGE);
	uint32_t before = *count;

	registers = (struct ob_space_registers){ .ip = CODE, .dx = THREAD_SLOT(0) + SLOT_DONE,
						 .ax = 2 };
	/* The frame that is read is that of the first stop. */
	enter(space);
	while (*count == before)
		;
	return space;
}

static bool is_counting(void)
{
	volatile uint32_t *count = (volatile uint32_t *)ram(DATA_PAGE);
	uint32_t before = *count;

	usleep(20000);
	return *count != before;
}

/* A report is no proof: a page that is unmapped is out of reach. */
static void test_unmap_of_runner(void)
{
	uint64_t space = new_runner();

	CHECK(is_counting());
	ob_host_space_unmap(mock_host, space, DATA, PAGE);
	CHECK(!is_counting());
}

/* It does not run beside another program of its vCPU. */
static void test_runner_and_others(void)
{
	uint64_t bystander = new_space(BYTES(SYSCALL LOOP)), space;

	memcpy(ram(5 * PAGE), SYSCALL LOOP, 4);
	map(bystander, CODE, 5 * PAGE, EXECUTE);
	space = new_runner();
	CHECK(is_counting());
	check_call(bystander);
	CHECK(!is_counting());
	CHECK_EQUAL(enter(space), OB_SPACE_GONE);
	memcpy(ram(CODE_PAGE), SYSCALL LOOP, 4);
	check_others(bystander);
}

static bool scribbling;

static void *scribble(void *space)
{
	struct ob_space_registers mine = { .ip = CODE + 16, .dx = THREAD_SLOT(0), .ax = 12345 };
	struct ob_space_event last = { 0 };

	do {
		ob_host_space_enter(mock_host, *(uint64_t *)space, 1, &mine, &last);
	} while (last.kind == OB_SPACE_INTERRUPTED &&
		 __atomic_load_n(&scribbling, __ATOMIC_ACQUIRE));
	return NULL;
}

/* One thread of the program writes at random to the slot of another one, which makes calls. */
static void test_scribbling(void)
{
	/*
	 * 0: syscall; jmp 0. 16: imul $0x5851f42d, %rax, %rax; add $0x14057b7e, %rax; mov %rax,
	 * %rcx; shr $20, %rcx; and $0x5ff8, %ecx; mov %rax, (%rdx, %rcx); jmp 16
	 */
	static const char code[] =
		"\x0f\x05\xeb\xfc\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"
		"\x48\x69\xc0\x2d\xf4\x51\x58\x48\x05\x7e\x7b\x05\x14\x48\x89\xc1"
		"\x48\xc1\xe9\x14\x81\xe1\xf8\x5f\x00\x00\x48\x89\x04\x0a\xeb\xe0";
	uint64_t bystander = new_space(code, sizeof(code)), space;
	int rounds, deaths = 0, calls = 0;
	pthread_t thread;

	for (int i = 0; i < 8; i++) {
		space = new_space(code, sizeof(code));
		scribbling = true;
		CHECK(!pthread_create(&thread, NULL, scribble, &space));
		repeat(interrupt_all);
		enter_at_code(space);
		for (rounds = 0; rounds < 200 && event.kind != OB_SPACE_GONE; rounds++) {
			calls += event.kind == OB_SPACE_SYSCALL;
			aim(CODE, harmful[0]);
			enter(space);
		}
		deaths += event.kind == OB_SPACE_GONE;
		__atomic_store_n(&scribbling, false, __ATOMIC_RELEASE);
		CHECK(!pthread_join(thread, NULL));
		end_repeating();
		ob_host_space_destroy(mock_host, space);
	}
	printf("%d calls, %d of 8 stubs died\n", calls, deaths);
	fflush(stdout);
	check_others(bystander);
}

/* The stub has no descriptor in a user thread, and user code sees no page of other processes. */
static void test_reach(void)
{
	/* mov (%rbx), %rax; syscall */
	uint64_t space = new_space(BYTES("\x48\x8b\x03" SYSCALL)), pages = 0, seen = 0;

	for (uint64_t at = SPACE_END; at < ADDRESS_END; at += PAGE, pages++) {
		registers = (struct ob_space_registers){ .ip = CODE, .bx = at };
		seen += enter(space) == OB_SPACE_SYSCALL;
	}
	/* Code, door and slot of one thread; code and door of the mapper. */
	CHECK_EQUAL(seen, THREAD_BYTES / PAGE + 1 + DOOR_BYTES / PAGE);
	CHECK_EQUAL(pages, 1023);
}

/* No page of the platform but the slot can be written. */
static void test_writes(void)
{
	/* movb $1, (%rbx); syscall */
	uint64_t space = new_space(BYTES("\xc6\x03\x01" SYSCALL)), seen = 0;

	for (uint64_t at = SPACE_END; at < ADDRESS_END; at += PAGE) {
		registers = (struct ob_space_registers){ .ip = CODE, .bx = at + PAGE - 8 };
		if (enter(space) != OB_SPACE_SYSCALL)
			continue;
		CHECK(at >= THREAD_SLOT(0) && at < THREAD_SLOT(0) + SLOT_BYTES);
		seen++;
	}
	CHECK_EQUAL(seen, SLOT_BYTES / PAGE);
}

/* ---- attacks of a kernel's process that was taken over -------------------- */

enum answer { REFUSED, FAILED, DONE };

/* Writes an order to the zygote's list. REFUSED: the filter has ended the zygote. */
static enum answer order_zygote(const uint64_t *call)
{
	struct ob_spaces *all = mock_host->spaces;
	char *door = ob_space_page(all, 0, ZYGOTE_DOOR), byte;
	uint32_t number = *ob_space_word(door, DOOR_REQUEST) + 1;

	ob_order(door, LIST_REQUEST, LIST_FAILED, (long)call[0], call[1], call[2], call[3],
		 call[4]);
	ob_order_special(door, LIST_REQUEST + ORDER_BYTES, ORDER_GO, LIST_DONE);
	__atomic_store_n(ob_space_word(door, DOOR_REQUEST), number, __ATOMIC_SEQ_CST);
	CHECK_EQUAL(send(all->channel, "", 1, MSG_NOSIGNAL), 1);
	while (!ob_space_await(all, ob_space_word(door, DOOR_DONE), number, NULL, NULL))
		if (recv(all->channel, &byte, 1, MSG_DONTWAIT) == 0)
			return REFUSED;
	return *ob_space_word(door, DOOR_FAILED) == number ? FAILED : DONE;
}

/* The platform's orders are all that the zygote carries out. */
static void test_orders_to_zygote(void)
{
	const uint64_t self = (uint64_t)getpid(), door = ZYGOTE_DOOR;
	const uint64_t refused[][7] = {
		{ SYS_openat, FD_CODE, door, 0 }, { SYS_open, door, 0 },
		{ SYS_execveat, FD_CODE, door, 0, 0 }, { SYS_socket, 2, 1, 0 },
		{ SYS_ptrace, 0x4206, self, 0, 0 }, { SYS_process_vm_writev, self, door, 1, door },
		{ SYS_kill, self, 0 }, { SYS_kill, (uint64_t)-1, SIGKILL },
		{ SYS_kill, 0xffffffff, SIGKILL }, { SYS_tgkill, self, self, SIGKILL },
		{ SYS_clone, SIGCHLD, 0, 0, 0 }, { SYS_clone, 0x10000000 | SIGCHLD, 0, 0, 0 },
		{ SYS_fork }, { SYS_unshare, 0x10000000 }, { SYS_memfd_create, door, 0 },
		{ SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0 }, { SYS_sendto, FD_CHANNEL, door, 1, 0 },
		{ 0x40000000 | SYS_openat, FD_CODE, door, 0 },
	};
	const uint64_t allowed[7] = { SYS_getppid };

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		new_space(BYTES(SYSCALL LOOP));
		CHECK_EQUAL(order_zygote(allowed), DONE);
		CHECK_EQUAL(order_zygote(refused[i]), REFUSED);
		ob_posix_spaces_stop(mock_host);
	}
}

/* Nor does it kill processes that it has not made, if the host has Landlock for that. */
static void test_zygote_kills_stubs_only(void)
{
	uint64_t space = new_space(BYTES(SYSCALL LOOP));
	uint64_t call[7] = { SYS_kill, 0, SIGKILL };
	pid_t child;

	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 6)
		return;
	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	call[1] = (uint64_t)child;
	CHECK_EQUAL(order_zygote(call), FAILED);
	CHECK_EQUAL(waitpid(child, NULL, WNOHANG), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	call[1] = (uint64_t)stub_of(space);
	CHECK_EQUAL(order_zygote(call), DONE);
}

static const struct platform_test tests[] = {
	TEST(jumps), TEST(instructions), TEST(blocked_signals), TEST(unmap_of_runner),
	TEST(runner_and_others), TEST(scribbling), TEST(reach), TEST(writes),
	TEST(orders_to_zygote), TEST(zygote_kills_stubs_only),
	{ NULL, NULL },
};

int main(int count, char **arguments)
{
	return run_platform_tests(tests, count - 1, arguments + 1) != 0;
}
