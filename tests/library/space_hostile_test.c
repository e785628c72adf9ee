// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that attack the stub they run in (invariant V19): by jumps into its code, by calls, and
 * by reports that are lies. Each must fail, and the host must stay able to run other programs.
 * space_forged_test.c has forged frames and odd registers. Arguments: names of tests; none: all but
 * those that take minutes; "long": only these. Link with space_tracer.c, space_bed.c and
 * platform_bed.c.
 *
 * The last tests attack from the other side: orders to the zygote that the platform never gives.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "space_tracer.h"
#include "space/orders.h"
#include "space/space.h"

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

static const uint64_t code_pages[] = { THREAD_CODE(0), MAPPER_CODE };
static int jumps, deaths;

/* Enters with `registers`. A new attacker takes the place of one whose stub has died. */
static void jump(uint64_t *space)
{
	jumps++;
	if (enter(*space) != OB_SPACE_GONE)
		return;
	deaths++;
	end_attacker(*space);
	*space = new_attacker();
}

static void begin_jumps(uint64_t *bystander, uint64_t *space)
{
	*bystander = new_space(BYTES(SYSCALL LOOP));
	*space = new_attacker();
	repeat(interrupt_all);
}

static void end_jumps(uint64_t bystander, uint64_t space)
{
	end_repeating();
	end_attacker(space);
	printf("%d jumps: %lu calls made, %lu refused, %d stubs died\n", jumps, traced.made,
	       traced.refused, deaths);
	fflush(stdout);
	CHECK_EQUAL(traced.escaped, 0);
	CHECK(traced.refused > 100 && traced.made > (unsigned long)jumps);
	check_others(bystander);
}

/* Jumps to every byte of the stub's code, and of the mapper's, with some sets of registers. */
static void test_jumps(void)
{
	const uint64_t size = (uint64_t)(ob_stub_code_end - ob_stub_code);
	uint64_t bystander, space;

	begin_jumps(&bystander, &space);
	for (uint64_t i = 0; i < 2 * size; i++) {
		write_orders(ram(DATA_PAGE), harmful[(i + i / HARMFUL) % HARMFUL]);
		for (uint64_t set = 0; set < 2; set++) {
			aim(code_pages[i / size] + i % size, harmful[(i * 3 + set) % HARMFUL]);
			registers.r13 = set;
			jump(&space);
		}
	}
	end_jumps(bystander, space);
}

/* All numbers of the host's table, those of x32, and some that no table has. */
#define NUMBERS 480u

static uint64_t number_of(uint64_t i)
{
	static const uint64_t odd[] = { 512, 547, 0x40000000, 0x400000ca, ~0ull, 1ull << 32 | 9 };
	const uint64_t ordinary = NUMBERS - sizeof(odd) / sizeof(odd[0]);

	return i < ordinary ? i : odd[i - ordinary];
}

/* The same with every number of a call, to every byte of the pages with code in them. */
static void test_every_call(void)
{
	const uint64_t size = (uint64_t)(ob_stub_code_end - ob_stub_code);
	uint64_t bystander, space;

	begin_jumps(&bystander, &space);
	for (uint64_t i = 0; i < 2 * PAGE; i++) {
		/* Behind the code there are zeros only. */
		uint64_t step = i % PAGE < size ? 1 : NUMBERS / 2;

		write_orders(ram(DATA_PAGE), harmful[i % HARMFUL]);
		for (uint64_t n = 0; n < NUMBERS; n += step) {
			aim(code_pages[i / PAGE] + i % PAGE, harmful[(i + n) % HARMFUL]);
			registers.ax = number_of(n);
			registers.r13 = n & 1;
			jump(&space);
		}
	}
	end_jumps(bystander, space);
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
	end_attacker(space);
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
	check_call(bystander);
	CHECK(!is_counting());
	ob_host_space_destroy(mock_host, space);
	memcpy(ram(CODE_PAGE), SYSCALL LOOP, 4);
	check_others(bystander);
}

/* Nor while the thread of its vCPU sleeps. */
static void test_runner_and_sleep(void)
{
	const uint32_t word = 0;

	new_runner();
	ob_host_wait(mock_host, &word, 0, 1000000);
	CHECK(!is_counting());
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
		/* The host's code for clocks, and its data, which every process has. */
		if (at >= CLOCK_AREA && at < CLOCK_AREA + CLOCK_PAGES * PAGE)
			continue;
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
		{ SYS_sched_setaffinity, self, 8, door },
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

static const struct platform_test long_tests[] = { TEST(every_call), { NULL, NULL } };

static const struct platform_test tests[] = {
	TEST(jumps), TEST(instructions), TEST(blocked_signals), TEST(unmap_of_runner),
	TEST(runner_and_others), TEST(runner_and_sleep), TEST(scribbling),
	TEST(reach), TEST(writes), TEST(orders_to_zygote), TEST(zygote_kills_stubs_only),
	{ NULL, NULL },
};

int main(int count, char **arguments)
{
	if (count > 1 && !strcmp(arguments[1], "long"))
		return run_platform_tests(long_tests, 0, NULL) != 0;
	return run_platform_tests(tests, count - 1, arguments + 1) != 0;
}
