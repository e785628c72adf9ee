// SPDX-License-Identifier: GPL-2.0-only
/*
 * A hostile program inside of the kernel (program_cases_test.c): hostile_inside CASE. Each case has
 * a second process beside it, which must find its registers and its memory as they were.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PAGE 4096ul
#define WORDS 4096ul
/* Above are pages of the host's, as far as a program can know. */
#define PROGRAM_END 0x7fffffc00000ul
#define ADDRESS_END 0x7ffffffff000ul
#define JUMPS 4

static volatile atomic_ulong *rounds;
static pid_t bystander;

static void stand_by(void)
{
	static uint64_t memory[WORDS];
	uint64_t seed = 0x9e3779b97f4a7c15, left;

	for (unsigned long i = 0; i < WORDS; i++)
		memory[i] = seed * i;
	for (;;) {
		__asm__ volatile("movq %1, %%xmm5; mov %1, %%r13; mov $5000, %%ecx; 1: dec %%ecx;"
				 "jnz 1b; movq %%xmm5, %0; xor %%r13, %0"
				 : "=&r"(left) : "r"(seed) : "rcx", "r13", "xmm5", "cc");
		CHECK_EQUAL(left, 0);
		for (unsigned long i = 0; i < WORDS; i++)
			CHECK_EQUAL(memory[i], seed * i);
		atomic_fetch_add(rounds, 1);
	}
}

static void begin(void)
{
	rounds = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(rounds != MAP_FAILED);
	bystander = fork();
	CHECK(bystander >= 0);
	if (!bystander)
		stand_by();
}

/* It lives and goes on. */
static void end(void)
{
	unsigned long before = atomic_load(rounds);
	int status;

	while (atomic_load(rounds) < before + 2)
		CHECK_EQUAL(waitpid(bystander, &status, WNOHANG), 0);
	CHECK(!kill(bystander, SIGKILL));
	CHECK(waitpid(bystander, &status, 0) == bystander);
}

/* Runs the attack in a process of its own. Returns how that ended. */
static int attack(void (*fn)(unsigned long), unsigned long argument)
{
	pid_t child = fork();
	int status = 0;

	CHECK(child >= 0);
	if (!child) {
		/* A fault ends it. */
		signal(SIGSEGV, SIG_DFL);
		fn(argument);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static void unmap_everything(unsigned long unused)
{
	(void)unused;
	syscall(SYS_munmap, 0, PROGRAM_END);
}

/* All registers point to memory that the program can write. A timer ends what goes on for ever. */
static void jump(unsigned long address)
{
	const struct itimerval soon = { .it_value = { .tv_usec = 30000 } };
	static uint64_t memory[WORDS];

	CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
	__asm__ volatile("mov %1, %%rsp; mov %1, %%rbp; mov %1, %%rbx; mov %1, %%rdi;"
			 "mov %1, %%r12; mov $15, %%eax; jmp *%0"
			 : : "r"(address), "r"(memory + WORDS / 2) : "memory", "rax", "rbx", "rdi",
			   "r12");
}

static sigjmp_buf back;

static void on_fault(int number)
{
	siglongjmp(back, number);
}

static int can_read(const volatile char *address)
{
	if (sigsetjmp(back, 1))
		return 0;
	(void)*address;
	return 1;
}

static void jumps(void)
{
	unsigned long pages = 0;

	signal(SIGSEGV, on_fault);
	for (unsigned long at = PROGRAM_END; at < ADDRESS_END; at += PAGE) {
		if (!can_read((char *)at))
			continue;
		pages++;
		for (unsigned long i = 0; i < JUMPS; i++)
			CHECK(attack(jump, at + (pages * 131 + i * 97) % 600));
	}
}

static void *wait_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void start_threads(unsigned long most)
{
	pthread_attr_t small;
	pthread_t thread;
	unsigned long count;

	CHECK(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 16384));
	for (count = 0; count < most; count++)
		if (pthread_create(&thread, &small, wait_for_ever, NULL))
			break;
	_exit(count > 100 && count < most ? 0 : 1);
}

static void many_threads(void)
{
	CHECK_EQUAL(attack(start_threads, 100000), 0);
}

static void unmapped(void)
{
	for (int i = 0; i < 20; i++)
		CHECK_EQUAL(WTERMSIG(attack(unmap_everything, 0)), SIGSEGV);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = { { "unmapped", unmapped }, { "jumps", jumps }, { "many_threads", many_threads } };

int main(int argc, char **argv)
{
	for (unsigned int i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		begin();
		cases[i].run();
		end();
		return 0;
	}
	return 2;
}
