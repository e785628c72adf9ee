// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client's thread that does not come when its task is switched to delays its own task only (V15):
 *
 *   late_thread_test VCPUS handler|stopped lent|waits
 *
 * A thread is blocked in a call. There it is held up: in a signal handler of the program that waits
 * until another thread is done, or by a tracer. Meanwhile the other thread wakes the first one's
 * task, and goes on: it blocks and runs again many times on the very vCPU that they share. Then the
 * first thread may go on, too, and its call ends well.
 *
 *   lent     when it is held up it watches the idle vCPU
 *   waits    the other thread does that
 *
 * A thread that runs kernel code is not held up: that would hold up its vCPU. So what the signal or
 * the tracer has interrupted is looked at.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../library/client.h"

#define ROUNDS 20

/* Where all hangs, the test is not to wait for the runner's limit. */
#define DEADLINE 120		/* seconds */

static volatile struct {
	pid_t host_thread;	/* of the first thread */
	int asks;		/* the tracer shall stop it */
	int is_held, is_done;
	int handled;
} *shared;

static volatile long first_task, second_task;
static int wakes_first[2], wakes_second[2];
static long processor;

static void share_vcpu(void)
{
	unsigned long set[16] = { 1ul << processor };

	OK(ob_sys_sched_setaffinity(0, sizeof(set), set));
}

static int is_futex_wait(unsigned long number, unsigned long operation)
{
	return number == SYS_futex && operation == FUTEX_WAIT_PRIVATE;
}

/* The signal has no SA_RESTART: an interrupted host call has returned. */
static int has_interrupted_wait(const ucontext_t *context)
{
	const greg_t *registers = context->uc_mcontext.gregs;
	const unsigned char *before = (const unsigned char *)registers[REG_RIP] - 2;

	return before[0] == 0x0f && before[1] == 0x05 && registers[REG_RAX] == -EINTR &&
	       registers[REG_RSI] == FUTEX_WAIT_PRIVATE;
}

static void handler(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (has_interrupted_wait(context)) {
		shared->is_held = 1;
		while (!shared->is_done)
			usleep(1000);
	}
	shared->handled++;
}

static void *first(void *unused)
{
	char byte = 0;

	share_vcpu();
	shared->host_thread = gettid();
	first_task = OK(ob_sys_gettid());
	CHECK_EQUAL(OK(ob_sys_read(wakes_first[0], &byte, 1)), 1);
	CHECK_EQUAL(byte, '1');
	CHECK(shared->is_done);
	return unused;
}

static void work(void)
{
	struct timespec moment = { .tv_nsec = 1000000 };

	for (int i = 0; i < ROUNDS; i++) {
		OK(ob_sys_nanosleep(&moment, NULL));
		OK(ob_sys_sched_yield());
	}
}

static void *second(void *unused)
{
	char byte;

	share_vcpu();
	second_task = OK(ob_sys_gettid());
	CHECK_EQUAL(OK(ob_sys_read(wakes_second[0], &byte, 1)), 1);
	work();
	CHECK_EQUAL(OK(ob_sys_write(wakes_first[1], "1", 1)), 1);
	work();
	shared->is_done = 1;
	return unused;
}

static void hold_by_signal(pthread_t thread)
{
	while (!shared->is_held) {
		int before = shared->handled;

		CHECK(!pthread_kill(thread, SIGUSR1));
		while (shared->handled == before && !shared->is_held)
			usleep(1000);
	}
}

/*
 * Does the first thread, which is blocked, watch the idle vCPU? It does if it was the last to block
 * there.
 */
static void block(pthread_t *threads, int lent)
{
	if (lent) {
		CHECK(!pthread_create(&threads[1], NULL, second, NULL));
		client_wait_until_asleep(&second_task);
	}
	CHECK(!pthread_create(&threads[0], NULL, first, NULL));
	client_wait_until_asleep(&first_task);
	if (!lent) {
		CHECK(!pthread_create(&threads[1], NULL, second, NULL));
		client_wait_until_asleep(&second_task);
	}
}

static int client(unsigned int vcpus, int by_tracer, int lent)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	pthread_t threads[2];

	alarm(DEADLINE);
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	client_boot(vcpus);
	processor = vcpus - 1;
	OK(ob_sys_pipe2(wakes_first, 0));
	OK(ob_sys_pipe2(wakes_second, 0));
	block(threads, lent);
	if (by_tracer) {
		shared->asks = 1;
		while (!shared->is_held)
			usleep(1000);
	} else {
		hold_by_signal(threads[0]);
	}
	CHECK_EQUAL(OK(ob_sys_write(wakes_second[1], "2", 1)), 1);
	CHECK(!pthread_join(threads[1], NULL));
	CHECK(!pthread_join(threads[0], NULL));
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}

/* Whether the thread was stopped in a wait; else it goes on. */
static int stop(pid_t thread)
{
	struct user_regs_struct registers;
	int status;

	CHECK(!ptrace(PTRACE_INTERRUPT, thread, NULL, NULL));
	CHECK_EQUAL(waitpid(thread, &status, __WALL), thread);
	CHECK(WIFSTOPPED(status));
	CHECK(!ptrace(PTRACE_GETREGS, thread, NULL, &registers));
	if (status >> 16 == PTRACE_EVENT_STOP && is_futex_wait(registers.orig_rax, registers.rsi))
		return 1;
	CHECK(!ptrace(PTRACE_CONT, thread, NULL, NULL));
	return 0;
}

static void trace(pid_t child)
{
	int status;

	while (!shared->asks)
		CHECK(!waitpid(child, &status, WNOHANG) && !usleep(1000));
	CHECK(!ptrace(PTRACE_SEIZE, shared->host_thread, NULL, NULL));
	while (!stop(shared->host_thread))
		usleep(1000);
	shared->is_held = 1;
	while (!shared->is_done)
		CHECK(!waitpid(child, &status, WNOHANG) && !usleep(1000));
	CHECK(!ptrace(PTRACE_DETACH, shared->host_thread, NULL, NULL));
}

int main(int count, char **arguments)
{
	int by_tracer, status;
	pid_t child;

	CHECK_EQUAL(count, 4);
	by_tracer = !strcmp(arguments[2], "stopped");
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_Exit(client((unsigned int)atoi(arguments[1]), by_tracer,
			     !strcmp(arguments[3], "lent")));
	}
	if (by_tracer)
		trace(child);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	return 0;
}
