// SPDX-License-Identifier: GPL-2.0-only
/* What a program finds that another one has executed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "executed.h"
#include "semantics.h"

/* A thread has executed it: it is alone, with the number of the process. */
static int alone(char **words)
{
	CHECK(getpid() == gettid() && getpid() == atoi(words[0]));
	CHECK(access("/proc/self/task", F_OK) == 0);
	CHECK(fcntl(20, F_GETFD) == -1 && errno == EBADF && fcntl(21, F_GETFD) == 0);
	CHECK(environ[0] && !strcmp(environ[0], "ONE=1") && !environ[1]);
	return 0;
}

/* Of all strings: their number, their bytes and a sum. */
static int strings(char **words)
{
	unsigned long sum = 0, bytes = 0, count = 0;

	for (char **word = words; *word; word++, count++)
		for (char *c = *word; *c; c++, bytes++)
			sum = sum * 31 + (unsigned char)*c;
	for (char **word = environ; *word; word++, count++)
		bytes += strlen(*word);
	printf("  strings %lu bytes %lu sum %lx\n", count, bytes, sum);
	return 0;
}

static int arguments(char **words)
{
	for (; *words; words++)
		printf("  argument %s\n", *words);
	return 0;
}

static const char *disposition(int number)
{
	struct sigaction action;

	CHECK(!sigaction(number, NULL, &action));
	if (action.sa_handler == SIG_DFL)
		return "default";
	return action.sa_handler == SIG_IGN ? "ignored" : "handler";
}

/* What of the process stays, and what does not. */
static int kept(char **words)
{
	struct itimerval left;
	uint32_t vector_control;
	uint16_t x87_control;
	sigset_t set;
	stack_t stack;
	char name[16];

	(void)words;
	__asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(vector_control), "=m"(x87_control));
	printf("  control words %x %x\n", vector_control, x87_control);
	printf("  handled %s, ignored %s\n", disposition(SIGUSR1), disposition(SIGUSR2));
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &set));
	printf("  blocked %d\n", sigismember(&set, SIGRTMIN));
	CHECK(!sigpending(&set));
	printf("  pending %d\n", sigismember(&set, SIGRTMIN));
	CHECK(!sigaltstack(NULL, &stack));
	printf("  alternate stack %x\n", (unsigned int)stack.ss_flags);
	CHECK(!getitimer(ITIMER_REAL, &left));
	printf("  interval timer %d\n", left.it_value.tv_sec > 100);
	CHECK(!prctl(PR_GET_NAME, name));
	printf("  name %s\n", name);
	printf("  timer deleted %d\n", timer_gettime((timer_t)0, &(struct itimerspec) {}) == -1);
	printf("  locked memory %d\n", !munlockall());
	printf("  personality %x\n", (unsigned int)personality(0xffffffff));
	return 0;
}

static int addresses(char **words)
{
	static int data;
	int local;

	(void)words;
	printf("%p %p %p %p\n", (void *)&data, (void *)&local, malloc(8), map(PAGE, MAP_PRIVATE));
	return 0;
}

static int vectors_of_auxv(char **words)
{
	(void)words;
	printf("  page %lu clock %lu machine %s\n", getauxval(AT_PAGESZ), getauxval(AT_CLKTCK),
	       (const char *)getauxval(AT_PLATFORM));
	printf("  secure %lu capabilities %lx\n", getauxval(AT_SECURE), getauxval(AT_HWCAP));
	printf("  random %d path %s\n", getauxval(AT_RANDOM) != 0,
	       (const char *)getauxval(AT_EXECFN));
	CHECK(getauxval(AT_MINSIGSTKSZ) >= 1000 && getauxval(AT_ENTRY) && getauxval(AT_PHDR));
	return 0;
}

static int exits(char **words)
{
	return atoi(words[0]);
}

static int sleeps(char **words)
{
	(void)words;
	while (pause())
		;
	return 1;
}

#define SYNCED_PAGES 64

/* Writes a file by a mapping, and reports when it is on the disk. Then writes more, for ever. */
static int syncs(char **words)
{
	int fd = open(words[0], O_CREAT | O_RDWR, 0644);
	uint32_t *memory;

	CHECK(fd >= 0 && !ftruncate(fd, 2 * SYNCED_PAGES * PAGE));
	memory = mmap(NULL, 2 * SYNCED_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(memory != MAP_FAILED);
	/* Twice: pages that are clean again must count, too. */
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < SYNCED_PAGES * PAGE / sizeof(*memory); i++)
			memory[i] = i * 7 + round;
		CHECK(!msync(memory, SYNCED_PAGES * PAGE, MS_SYNC));
	}
	CHECK(write(1, "synced", 6) == 6);
	for (uint32_t i = 0;; i++)
		memory[SYNCED_PAGES * PAGE / sizeof(*memory) + i % 1024] = i;
}

int executed(char **words)
{
	static const struct {
		const char *name;
		int (*run)(char **words);
	} kinds[] = {
		{ "alone", alone }, { "strings", strings }, { "arguments", arguments },
		{ "kept", kept }, { "addresses", addresses }, { "auxv", vectors_of_auxv },
		{ "exits", exits }, { "sleeps", sleeps }, { "syncs", syncs },
	};

	for (unsigned int i = 0; words[0] && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(words[0], kinds[i].name))
			return kinds[i].run(words + 1);
	/* A script. */
	return arguments(words);
}
