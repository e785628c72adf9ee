// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults in signal handlers of the program that interrupt a call are the program's (V10):
 * handler_fault_test VCPUS
 *
 * SIGUSR1's handler reads a bad address, and a page of the client window that is not there yet,
 * under the program's own SIGSEGV handler. It interrupts
 *
 *   kernel code    the thread reads /dev/zero
 *   a wait         the thread is blocked in a read of a pipe
 *   a lent thread  the thread sleeps again and again, and carries the idle vCPU meanwhile
 *
 * until it has done so often. The calls go on, and the kernel works and halts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "client.h"
#include "threads.h"

#define PROBES 200
#define WINDOW_BYTES (1ul << 30)

static char *window, *bad;
static unsigned long next_page;
static volatile int inside, handled, stop, waits;
static int ends[2];
static volatile pid_t target;

/* Whether the signal has interrupted the library, or the host call of a thread that waits in it. */
static int is_inside(void *instruction)
{
	Dl_info found, own;

	CHECK(dladdr(&window, &own));
	return dladdr(instruction, &found) && found.dli_fbase != own.dli_fbase;
}

static void probe(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	char *page = window + next_page;

	(void)number;
	(void)info;
	CHECK(!client_can_read(bad));
	CHECK(!client_can_write(bad));
	/* Nobody can say what this gives: the signal may have come just outside of the call. */
	client_can_read(page);
	next_page = (next_page + 4096) % WINDOW_BYTES;
	inside += is_inside((void *)interrupted->uc_mcontext.gregs[REG_RIP]);
	handled++;
}

static void *run_kernel_code(void *unused)
{
	static char bytes[1 << 20];
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/dev/zero", O_RDONLY, 0));

	target = gettid();
	while (!stop)
		CHECK_EQUAL(OK(ob_sys_read(file, bytes, sizeof(bytes))), sizeof(bytes));
	OK(ob_sys_close(file));
	return unused;
}

static void *run_wait(void *unused)
{
	char byte = 0;

	OK(ob_sys_getppid());
	target = gettid();
	waits = 1;
	CHECK_EQUAL(OK(ob_sys_read(ends[0], &byte, 1)), 1);
	CHECK_EQUAL(byte, 'x');
	waits = 0;
	return unused;
}

static void *run_lent(void *unused)
{
	struct timespec moment = { 0, 1000 };

	OK(ob_sys_prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0));
	target = gettid();
	while (!stop)
		OK(ob_sys_nanosleep(&moment, NULL));
	return unused;
}

/* At another moment of what the thread does each time. */
static void interrupt(pthread_t thread)
{
	int before = handled;

	for (volatile int i = before * 61 % 5000; i > 0; i--)
		;
	CHECK(!pthread_kill(thread, SIGUSR1));
	while (handled == before)
		sched_yield();
}

static void interrupt_often(void *(*run)(void *unused))
{
	pthread_t thread;

	inside = 0;
	stop = 0;
	target = 0;
	CHECK(!pthread_create(&thread, NULL, run, NULL));
	while (!target)
		sched_yield();
	while (inside < PROBES)
		interrupt(thread);
	stop = 1;
	CHECK(!pthread_join(thread, NULL));
}

static void interrupt_wait(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, run_wait, NULL));
	while (!waits || host_state(target) != 'S')
		sched_yield();
	for (int i = 0; i < PROBES; i++)
		interrupt(thread);
	CHECK(waits);
	CHECK_EQUAL(OK(ob_sys_write(ends[1], "x", 1)), 1);
	CHECK(!pthread_join(thread, NULL));
}

static void check_window(void)
{
	for (unsigned long at = 0; at < next_page; at += 4096)
		CHECK(window[at] == 0);
	window[0] = 1;
	OK(ob_sys_munmap(window, WINDOW_BYTES));
}

int main(int count, char **arguments)
{
	struct sigaction action = { .sa_sigaction = probe, .sa_flags = SA_SIGINFO };

	CHECK_EQUAL(count, 2);
	bad = client_border();
	client_catch_faults();
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	client_boot((unsigned int)atoi(arguments[1]));
	window = ob_sys_mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(window != MAP_FAILED);
	OK(ob_sys_pipe2(ends, 0));
	interrupt_often(run_kernel_code);
	interrupt_wait();
	interrupt_often(run_lent);
	check_window();
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
