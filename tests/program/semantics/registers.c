// SPDX-License-Identifier: GPL-2.0-only
/* Registers over signals, forks and context switches, and contexts that handlers change. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "registers.h"
#include "semantics.h"

/* ---- all registers -------------------------------------------------------- */

#define FLAGS_CHANGED 0xcd5
#define MXCSR_CHANGED 0xe07f		/* rounding, flushing to zero, flags */
#define MXCSR_MASKED 0x1f80		/* no exceptions */
#define X87_MASKED 0x37f
#define X87_ROUNDING 0xc00

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state ^ *state >> 29;
}

static enum width width_here(void)
{
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		return WIDTH_512;
	return __builtin_cpu_supports("avx") ? WIDTH_256 : WIDTH_128;
}

static void randomize(struct registers *registers, uint64_t *state)
{
	uint8_t *bytes = (uint8_t *)registers;

	for (size_t i = 0; i < sizeof(*registers); i++)
		bytes[i] = (uint8_t)(next_random(state) >> 11);
	registers->flags &= FLAGS_CHANGED;
	registers->mxcsr = (registers->mxcsr & MXCSR_CHANGED) | MXCSR_MASKED;
	registers->x87_control = (registers->x87_control & X87_ROUNDING) | X87_MASKED;
	/* A normal number. */
	registers->x87[7] |= 0x80;
	registers->x87[9] = 0x3f;
}

static void check_same(const struct registers *load, const struct registers *store,
		       enum width width)
{
	unsigned int vectors = width == WIDTH_512 ? 32 : 16;

	for (unsigned int i = 0; i < vectors; i++)
		CHECK(!memcmp(load->vectors[i], store->vectors[i], 16u << width));
	if (width == WIDTH_512)
		CHECK(!memcmp(load->masks, store->masks, sizeof(load->masks)));
	CHECK(!memcmp(load->general, store->general, sizeof(load->general)));
	CHECK(!memcmp(load->red_zone, store->red_zone, sizeof(load->red_zone)));
	CHECK_EQUAL(store->flags & FLAGS_CHANGED, load->flags);
	CHECK(!memcmp(load->x87, store->x87, sizeof(load->x87)));
	CHECK_EQUAL(store->x87_control, load->x87_control);
	CHECK_EQUAL(store->mxcsr, load->mxcsr);
}

static void keep_once(uint64_t *state, uint64_t turns)
{
	static _Thread_local struct registers load, store;
	enum width width = width_here();

	randomize(&load, state);
	registers_keep(&load, &store, turns, width);
	check_same(&load, &store, width);
}

static timer_t timer;
static uint64_t handler_state = 77;
static char *alternate;

#define ALTERNATE_SIZE (256ul << 10)

static void wake_soon(void)
{
	struct itimerspec soon = {
		.it_value = { 0, 1000 + (long)(next_random(&handler_state) % 60000) },
	};

	CHECK(!timer_settime(timer, 0, &soon, NULL));
}

/* Changes all registers, and interrupts itself by another signal. */
static void on_timer(int number, siginfo_t *info, void *context)
{
	struct registers load, store;
	char *here = (char *)&load;

	(void)info;
	(void)context;
	CHECK(here > alternate && here < alternate + ALTERNATE_SIZE);
	randomize(&load, &handler_state);
	registers_keep(&load, &store, 1, width_here());
	if (number == SIGUSR1)
		return;
	CHECK(!raise(SIGUSR1));
	counted = counted + 1;
	if (counted < rounds(300, 200000))
		wake_soon();
}

static void use_alternate_stack(void)
{
	stack_t stack = { .ss_size = ALTERNATE_SIZE };

	alternate = stack.ss_sp = map(ALTERNATE_SIZE, MAP_PRIVATE);
	CHECK(!sigaltstack(&stack, NULL));
}

void every_instruction(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	uint64_t state = 1, seen, local = 0x1234567890abcdef;
	static __thread int own;

	own = 5;
	use_alternate_stack();
	CHECK(!syscall(SYS_arch_prctl, ARCH_SET_GS, &local));
	set_handler(SIGALRM, on_timer, SA_ONSTACK | SA_RESTART);
	set_handler(SIGUSR1, on_timer, SA_ONSTACK);
	CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
	wake_soon();
	while (counted < rounds(300, 200000)) {
		keep_once(&state, 200);
		__asm__("mov %%gs:0, %0" : "=r"(seen));
		CHECK(seen == local && own == 5);
	}
	CHECK(!timer_delete(timer));
}

/* The child of a fork has the parent's vector registers, and then its own. */
static __attribute__((target("avx"))) void check_fork(uint64_t seed)
{
	uint64_t found[4];
	long child = SYS_fork;

	__asm__ volatile("vmovq %[seed], %%xmm5\n vpshufd $0x44, %%xmm5, %%xmm5\n"
			 "vinsertf128 $1, %%xmm5, %%ymm5, %%ymm5\n syscall\n"
			 "vmovdqu %%ymm5, %[found]\n vzeroupper\n"
			 : "+a"(child), [found] "=m"(found)
			 : [seed] "r"(seed)
			 : "rcx", "r11", "xmm5", "memory");
	for (int i = 0; i < 4; i++)
		CHECK(found[i] == seed);
	CHECK(child >= 0);
	if (!child) {
		uint64_t state = seed;

		keep_once(&state, 1000);
		_exit(0);
	}
	wait_for_success((pid_t)child);
}

/* More processes than processors compute. */
void vector_state(void)
{
	pid_t children[6];

	for (unsigned int i = 0; i < 6; i++) {
		uint64_t state = i + 1000;

		children[i] = fork_or_die();
		if (children[i])
			continue;
		for (long round = 0; round < rounds(10, 500); round++)
			keep_once(&state, 100000);
		_exit(0);
	}
	if (__builtin_cpu_supports("avx"))
		for (uint64_t seed = 1; seed < 20; seed++)
			check_fork(seed * 0x0123456789abcdef);
	for (unsigned int i = 0; i < 6; i++)
		wait_for_success(children[i]);
}

/* ---- handlers that change the context ------------------------------------- */

/* rax = *nowhere: an instruction of 3 bytes. */
static __attribute__((noinline)) long load_from(void *nowhere, double *number, bool *carry)
{
	long value;
	double is = 1.5;
	unsigned char set;

	__asm__ volatile("clc\n mov (%[nowhere]), %%rax\n setc %[set]\n"
			 : "=&a"(value), [set] "=&q"(set), [is] "+x"(is)
			 : [nowhere] "D"(nowhere) : "cc", "memory");
	*number = is;
	*carry = set;
	return value;
}

enum change { SKIP, BAD_FORMAT, BAD_CONTROL, BAD_PLACE, BAD_IP, NO_VECTORS };
static enum change change;

static void on_change(int number, siginfo_t *info, void *argument)
{
	ucontext_t *context = argument;
	greg_t *registers = context->uc_mcontext.gregs;
	struct _libc_fpstate *vectors = context->uc_mcontext.fpregs;

	(void)number;
	(void)info;
	registers[REG_RIP] += 3;
	registers[REG_RAX] = 4711;
	registers[REG_EFL] |= 1;
	sigaddset(&context->uc_sigmask, SIGUSR2);
	for (int i = 0; i < 16; i++)
		memcpy(&vectors->_xmm[i], &(double) { 2.75 }, sizeof(double));
	/* The bits of the header: the component is there. */
	((uint64_t *)vectors)[64] |= 3;
	switch (change) {
	case SKIP:
		break;
	case BAD_FORMAT:
		((uint64_t *)vectors)[66] = 1;
		break;
	case BAD_CONTROL:
		vectors->mxcsr = 0xffff0000;
		break;
	case BAD_PLACE:
		context->uc_mcontext.fpregs = (void *)8;
		break;
	case BAD_IP:
		registers[REG_RIP] = 1l << 60;
		break;
	case NO_VECTORS:
		context->uc_mcontext.fpregs = NULL;
		break;
	}
}

static void change_in_child(enum change what, const char *name)
{
	pid_t child;
	bool carry;
	double number;

	fflush(stdout);
	child = fork_or_die();
	if (!child) {
		change = what;
		set_handler(SIGSEGV, on_change, SA_RESETHAND);
		load_from((void *)16, &number, &carry);
		printf("%s: ends, 2.75 stays: %d\n", name, number == 2.75);
		fflush(stdout);
		_exit(0);
	}
	printf("%s: %x\n", name, (unsigned int)wait_for(child) & ~0x80u);
}

void changed_context(void)
{
	double number;
	bool carry;
	sigset_t blocked;

	set_handler(SIGSEGV, on_change, 0);
	CHECK_EQUAL(load_from((void *)16, &number, &carry), 4711);
	CHECK(carry && number == 2.75);
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &blocked) && sigismember(&blocked, SIGUSR2));
	change_in_child(BAD_FORMAT, "bad format");
	change_in_child(BAD_CONTROL, "bad control word");
	change_in_child(BAD_PLACE, "bad place");
	change_in_child(BAD_IP, "bad ip");
	change_in_child(NO_VECTORS, "no vectors");
}

/* ---- handlers that do not return ------------------------------------------ */

static sigjmp_buf back;

static void jump_back(int number, siginfo_t *info, void *context)
{
	char here;

	(void)info;
	(void)context;
	CHECK(&here > alternate && &here < alternate + ALTERNATE_SIZE);
	if (number == SIGUSR1)
		raise(SIGUSR2);
	siglongjmp(back, number);
}

void jumps(void)
{
	sigset_t blocked;
	volatile int times = 0;

	use_alternate_stack();
	set_handler(SIGUSR1, jump_back, SA_ONSTACK);
	set_handler(SIGUSR2, jump_back, SA_ONSTACK);
	set_handler(SIGSEGV, jump_back, SA_ONSTACK);
	for (int i = 0; i < 300; i++) {
		int number = sigsetjmp(back, 1);

		if (number) {
			times++;
			continue;
		}
		if (i % 2)
			raise(SIGUSR1);
		*(volatile char *)8 = 1;
	}
	CHECK_EQUAL(times, 300);
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &blocked));
	CHECK(!sigismember(&blocked, SIGUSR1) && !sigismember(&blocked, SIGSEGV));
}

static ucontext_t main_context, other_context, handler_context;
static int switches;

static void run_aside(int step)
{
	double sum = 0;

	for (int i = 0; i < 50; i++) {
		sum += step / 2.0;
		switches++;
		CHECK(!swapcontext(&other_context, &main_context));
	}
	CHECK(sum == 50 * step / 2.0);
}

static void on_switch(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	switches = 100;
	/* The handler waits here, and another context goes on. */
	CHECK(!swapcontext(&handler_context, &main_context));
	switches++;
}

static void signal_aside(void)
{
	CHECK(!raise(SIGUSR1));
	switches++;
}

static void begin_aside(void (*function)(void), int argument)
{
	static char stack[64 << 10];

	CHECK(!getcontext(&other_context));
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = sizeof(stack);
	other_context.uc_link = &main_context;
	makecontext(&other_context, function, 1, argument);
	CHECK(!swapcontext(&main_context, &other_context));
}

void contexts(void)
{
	begin_aside((void (*)(void))run_aside, 3);
	for (int i = 0; i < 50; i++)
		CHECK(!swapcontext(&main_context, &other_context));
	CHECK_EQUAL(switches, 50);
	set_handler(SIGUSR1, on_switch, 0);
	begin_aside(signal_aside, 0);
	CHECK_EQUAL(switches, 100);
	/* The handler returns to what it has interrupted, which returns to us. */
	CHECK(!swapcontext(&main_context, &handler_context));
	CHECK_EQUAL(switches, 102);
}
