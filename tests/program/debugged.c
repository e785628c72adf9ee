// SPDX-License-Identifier: GPL-2.0-only
/* A program for debuggers: debugged count | signals | fork | crash. test_run_debuggers.py */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int counter;

__attribute__((noinline)) static int add(int a, int b)
{
	counter = a + b;
	return a + b;
}

static int count(void)
{
	int sum = add(20, 22);

	printf("sum %d\n", sum);
	return 0;
}

static volatile int handled;

static void handler(int number)
{
	handled = number;
}

__attribute__((noinline)) static void before_read(void)
{
	asm volatile("");
}

/* A child sends a signal while read() waits, and writes when the handler has run. */
static int signals(void)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	int ends[2];
	char byte;

	sigaction(SIGUSR1, &action, NULL);
	if (pipe(ends))
		return 1;
	if (!fork()) {
		usleep(300000);
		kill(getppid(), SIGUSR1);
		usleep(300000);
		_exit(write(ends[1], "x", 1) != 1);
	}
	before_read();
	if (read(ends[0], &byte, 1) != 1)
		return 1;
	wait(NULL);
	printf("handled %d\n", handled);
	return 0;
}

__attribute__((noinline)) static void in_child(int value)
{
	counter = value;
}

static int fork_one(void)
{
	int status;

	if (!fork()) {
		in_child(7);
		_exit(counter);
	}
	wait(&status);
	printf("child %d\n", WEXITSTATUS(status));
	return 0;
}

static atomic_int is_waiting;

__attribute__((noinline)) static void *wait_for_ever(void *name)
{
	atomic_store(&is_waiting, 1);
	for (;;)
		pause();
	return name;
}

__attribute__((noinline)) static void crash_here(volatile int *nowhere)
{
	asm volatile("mov $0x123456789abc, %%r12\n\tmovq %%r12, %%xmm3" : : : "r12", "xmm3");
	*nowhere = 1;
}

static int crash(void)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	pthread_t thread;

	setrlimit(RLIMIT_CORE, &unlimited);
	pthread_create(&thread, NULL, wait_for_ever, NULL);
	while (!atomic_load(&is_waiting))
		usleep(1000);
	crash_here(NULL);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "count"))
		return count();
	if (argc > 1 && !strcmp(argv[1], "signals"))
		return signals();
	if (argc > 1 && !strcmp(argv[1], "fork"))
		return fork_one();
	if (argc > 1 && !strcmp(argv[1], "crash"))
		return crash();
	return 2;
}
