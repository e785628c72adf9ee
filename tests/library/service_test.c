// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clients go on without the service thread of their vCPU, which is stopped by a debugger. A parent
 * plays that.
 *
 *   service_test sleep    A thread that sleeps in the kernel with a timeout, on a vCPU that idles,
 *                         is woken by its own timeout. The slack of the thread's own timers stays
 *                         as the program wants it.
 *   service_test turns    Two threads call in turn. Each finds the vCPU parked on the task of the
 *                         other, which is out in host code, and evicts it.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "threads.h"

#define SLEEPS 20
#define TURNS 200
#define SLACK 70000ul		/* nanoseconds */
#define PATIENCE 300000		/* milliseconds */

static void sleep_often(void)
{
	struct timespec pause = { .tv_nsec = 50000 };

	for (int i = 0; i < SLEEPS; i++) {
		/* The kernel writes what is left of it. */
		struct timespec timeout = { .tv_nsec = 300000 };

		OK(ob_sys_nanosleep(&pause, NULL));
		CHECK_EQUAL(OK(ob_sys_ppoll(NULL, 0, &timeout, NULL, 0)), 0);
	}
}

/* Of the two threads. Their tasks are on the vCPU before the first turn. */
static sem_t turn_of[2];

static void take_turns(int own, int turns)
{
	long number = OK(ob_sys_gettid());

	for (int i = 0; i < turns; i++) {
		CHECK(!sem_wait(&turn_of[own]));
		CHECK_EQUAL(OK(ob_sys_gettid()), number);
		CHECK(!sem_post(&turn_of[!own]));
	}
}

static void *take_other_turns(void *unused)
{
	take_turns(1, 2 * TURNS);
	return unused;
}

static void call_in_turn(void)
{
	static pthread_t other;

	if (!other) {
		CHECK(!sem_init(&turn_of[0], 0, 1) && !sem_init(&turn_of[1], 0, 0));
		CHECK(!pthread_create(&other, NULL, take_other_turns, NULL));
	}
	take_turns(0, TURNS);
	/* The last turn of the other is over, too. */
	CHECK(!sem_wait(&turn_of[0]));
	CHECK(!sem_post(&turn_of[0]));
}

/* The program: says which thread is to be stopped, waits until that is so, and works. */
static void program(void (*work)(void), int to_debugger, int from_debugger)
{
	pid_t thread;
	char go;

	client_boot(1);
	OK(prctl(PR_SET_TIMERSLACK, SLACK));
	/* All that the kernel does once is done now. */
	work();
	/* The service thread of the only vCPU. */
	CHECK_EQUAL(threads_named("outboard-timer", &thread), 1);
	CHECK(write(to_debugger, &thread, sizeof(thread)) == sizeof(thread));
	CHECK(read(from_debugger, &go, 1) == 1);
	work();
	CHECK_EQUAL(prctl(PR_GET_TIMERSLACK), SLACK);
	CHECK(write(to_debugger, &thread, sizeof(thread)) == sizeof(thread));
	CHECK(read(from_debugger, &go, 1) == 1);
	OK(ob_halt());
}

static void receive(int from_program, pid_t *thread)
{
	struct pollfd ready = { .fd = from_program, .events = POLLIN };

	CHECK_EQUAL(poll(&ready, 1, PATIENCE), 1);
	CHECK(read(from_program, thread, sizeof(*thread)) == sizeof(*thread));
}

/*
 * Whether the stopped thread sleeps in futex(2): it then watches a parked vCPU, and has taken
 * nothing.
 */
static bool is_asleep(pid_t child, pid_t thread)
{
	char path[64];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", child, thread);
	file = fopen(path, "r");
	CHECK(file);
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number == SYS_futex;
}

static void stop(pid_t child, pid_t thread)
{
	int status;

	OK(ptrace(PTRACE_SEIZE, thread, 0, 0));
	for (;;) {
		OK(ptrace(PTRACE_INTERRUPT, thread, 0, 0));
		CHECK_EQUAL(waitpid(thread, &status, __WALL), thread);
		CHECK(WIFSTOPPED(status));
		if (is_asleep(child, thread))
			return;
		OK(ptrace(PTRACE_CONT, thread, 0, 0));
		usleep(1000);
	}
}

int main(int count, char **arguments)
{
	int up[2], down[2], status;
	pid_t child, thread;

	CHECK_EQUAL(count, 2);
	OK(pipe(up));
	OK(pipe(down));
	child = OK(fork());
	if (!child) {
		close(up[0]);
		close(down[1]);
		OK(prctl(PR_SET_PDEATHSIG, SIGKILL));
		program(strcmp(arguments[1], "turns") ? sleep_often : call_in_turn, up[1], down[0]);
		return 0;
	}
	close(up[1]);
	close(down[0]);
	receive(up[0], &thread);
	stop(child, thread);
	CHECK_EQUAL(write(down[1], "", 1), 1);
	receive(up[0], &thread);
	OK(ptrace(PTRACE_DETACH, thread, 0, 0));
	CHECK_EQUAL(write(down[1], "", 1), 1);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	return 0;
}
