// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signal handlers that make calls: handler_call_test VCPUS
 *
 * A handler that interrupts a call gets -EDEADLK, whatever the thread does for the kernel:
 *
 *   alone    it is blocked in a read, and watches the idle vCPU (it is lent: core/idle.c)
 *   called   the same while another thread calls all the time, and takes that vCPU
 *   moments  it sleeps and computes by turns: it is lent, parked, evicted, or on its way in
 *
 * A handler that interrupts the program's own code makes its call as its own thread's task. The
 * interrupted calls go on, and the kernel halts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "threads.h"

/* Where all hangs, the test is not to wait for the runner's limit. */
#define DEADLINE 300		/* seconds */
#define PROBES 50

static __thread long own;	/* number of the thread's task */
static sem_t handled;
static volatile int signals, refused, answered;
static volatile bool blocks;	/* the target is in a call */
static volatile bool stop;
static volatile pid_t target;
static int ends[2];

/* Every function that needs the kernel. Nothing of the refused disk is left: main(). */
static void check_all_are_refused(void)
{
	const struct ob_disk_config disk = {
		.size = sizeof(disk), .path = "/proc/self/exe",
		.flags = OB_DISK_READ_ONLY | OB_DISK_NO_LOCK,
	};

	CHECK_EQUAL(ob_sys_gettid(), -1);
	CHECK_EQUAL(errno, EDEADLK);
	CHECK_EQUAL(ob_disk_add(&disk, NULL), -EDEADLK);
	CHECK_EQUAL(ob_halt(), -EDEADLK);
}

static void on_signal(int number)
{
	int saved = errno;
	long result = ob_syscall(OB_SYS_gettid);

	(void)number;
	if (blocks) {
		CHECK_EQUAL(result, -EDEADLK);
		check_all_are_refused();
	}
	if (result == -EDEADLK) {
		refused++;
	} else {
		CHECK_EQUAL(result, own);
		answered++;
	}
	CHECK(!sem_post(&handled));
	errno = saved;
}

/* At another moment of what the thread does each time. */
static void interrupt(pthread_t thread)
{
	for (volatile int i = signals++ * 61 % 5000; i > 0; i--)
		;
	CHECK(!pthread_kill(thread, SIGUSR1));
	CHECK(!sem_wait(&handled));
}

static void *read_byte(void *unused)
{
	char byte = 0;

	own = OK(ob_sys_gettid());
	target = gettid();
	CHECK_EQUAL(OK(ob_sys_read(ends[0], &byte, 1)), 1);
	CHECK_EQUAL(byte, 'x');
	CHECK_EQUAL(OK(ob_sys_gettid()), own);
	return unused;
}

static void *call_always(void *unused)
{
	while (!stop)
		OK(ob_sys_getppid());
	return unused;
}

static void while_blocked(bool others_call)
{
	pthread_t reader, caller;

	target = 0;
	stop = false;
	if (others_call)
		CHECK(!pthread_create(&caller, NULL, call_always, NULL));
	CHECK(!pthread_create(&reader, NULL, read_byte, NULL));
	while (!target || host_state(target) != 'S')
		sched_yield();
	blocks = true;
	for (int i = 0; i < PROBES; i++)
		interrupt(reader);
	blocks = false;
	stop = true;
	CHECK_EQUAL(OK(ob_sys_write(ends[1], "x", 1)), 1);
	CHECK(!pthread_join(reader, NULL));
	if (others_call)
		CHECK(!pthread_join(caller, NULL));
}

static void *sleep_and_compute(void *unused)
{
	struct timespec moment = { 0, 1000 };

	own = OK(ob_sys_gettid());
	target = gettid();
	while (!stop) {
		OK(ob_sys_nanosleep(&moment, NULL));
		for (volatile int i = 0; i < 100000; i++)
			;
	}
	CHECK_EQUAL(OK(ob_sys_gettid()), own);
	return unused;
}

static void at_any_moment(bool others_call)
{
	pthread_t sleeper, caller;

	target = 0;
	stop = false;
	refused = answered = 0;
	if (others_call)
		CHECK(!pthread_create(&caller, NULL, call_always, NULL));
	CHECK(!pthread_create(&sleeper, NULL, sleep_and_compute, NULL));
	while (!target)
		sched_yield();
	while (refused < PROBES || answered < PROBES)
		interrupt(sleeper);
	stop = true;
	CHECK(!pthread_join(sleeper, NULL));
	if (others_call)
		CHECK(!pthread_join(caller, NULL));
}

int main(int count, char **arguments)
{
	struct client_belongings before;

	CHECK_EQUAL(count, 2);
	alarm(DEADLINE);
	CHECK(!sem_init(&handled, 0, 0));
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	client_boot((unsigned int)atoi(arguments[1]));
	OK(ob_sys_pipe2(ends, 0));
	/* The other vCPUs have their threads. */
	CHECK(ob_sys_sched_getaffinity(0, sizeof(unsigned long), &(unsigned long){ 0 }) > 0);
	while_blocked(false);
	before = client_belongings();
	while_blocked(false);
	while_blocked(true);
	at_any_moment(false);
	at_any_moment(true);
	client_check_nothing_is_left(before);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
