// SPDX-License-Identifier: GPL-2.0-only
/*
 * A host that has no thread for the first vCPU: no_thread_test DIRECTORY
 *
 * The boot is refused, with and without a snapshot. A thread that calls all the time meanwhile gets
 * -ENODEV from each call: the failing boot would take the memory from a call that was let in. So
 * does a signal handler that interrupts the booting thread. Nothing is left of the kernel, and the
 * next boot works.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

/* Where a call is let in that never ends, the test is not to wait for the runner's limit. */
#define DEADLINE 300		/* seconds */
#define BOOTS 20
/* Calls that the other thread makes before the booting one learns that it gets no thread. */
#define CALLS 1000

static bool refuses, stop;	/* atomic, as the next two lines */
static long answered, refused, handled;
static long tries;		/* to make one thread more than there is room for */
static pthread_t booting;
static int room;		/* threads that it can still make */

static long get(const long *number)
{
	return __atomic_load_n(number, __ATOMIC_SEQ_CST);
}

static void add(long *number)
{
	__atomic_fetch_add(number, 1, __ATOMIC_SEQ_CST);
}

/* The library's calls come here. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *argument)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym(RTLD_NEXT, "pthread_create");
	long before = get(&answered) + get(&refused);

	if (!__atomic_load_n(&refuses, __ATOMIC_SEQ_CST))
		return real(thread, attributes, run, argument);
	/* The kernel tries again only where it cannot fail any more. Then it may need one more. */
	if (pthread_self() != booting)
		return get(&tries) > 1 ? real(thread, attributes, run, argument) : EAGAIN;
	CHECK(!raise(SIGUSR1));
	if (room-- > 0 || __atomic_fetch_add(&tries, 1, __ATOMIC_SEQ_CST))
		return real(thread, attributes, run, argument);
	while (get(&answered) + get(&refused) < before + CALLS)
		sched_yield();
	return EAGAIN;
}

/* In the booting thread, which is about to make another thread. */
static void on_signal(int number)
{
	(void)number;
	CHECK_EQUAL(ob_syscall(OB_SYS_getpid), -ENODEV);
	add(&handled);
}

static void *call_always(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		long result = ob_syscall(OB_SYS_getpid);

		CHECK(result > 0 || result == -ENODEV);
		add(result > 0 ? &answered : &refused);
	}
	return unused;
}

static int boot(const char *directory)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .memory = 64 << 20,
		.log_level = OB_LOG_DEFAULT, .snapshots = directory,
	};

	return ob_boot(&config);
}

static void check_boot(const char *directory, const char *status)
{
	int error = boot(directory);

	if (error || !strstr(ob_snapshot_status(), status))
		fprintf(stderr, "%s; %s\n", ob_boot_error(), ob_snapshot_status());
	CHECK_EQUAL(error, 0);
	CHECK(strstr(ob_snapshot_status(), status));
}

/*
 * Boots where the host has so many threads and no more. `directory`: where the snapshot is; NULL:
 * the kernel boots. Returns false if the boot has succeeded, and halts the kernel.
 *
 * This happens with a snapshot whose kernel threads have something to do at once. Then the kernel
 * waits for a host thread, and gets one here at the second try.
 */
static bool is_refused(const char *directory, int threads)
{
	long before = get(&refused), handled_before = get(&handled);
	int error;

	tries = 0;
	room = threads;
	__atomic_store_n(&refuses, true, __ATOMIC_SEQ_CST);
	error = boot(directory);
	__atomic_store_n(&refuses, false, __ATOMIC_SEQ_CST);
	CHECK(get(&handled) > handled_before);
	CHECK(strstr(ob_snapshot_status(), directory ? "started from" : "not wanted"));
	if (!error) {
		CHECK(directory && tries > 1);
		CHECK_EQUAL(ob_halt(), 0);
		return false;
	}
	CHECK_EQUAL(error, -EAGAIN);
	CHECK(strstr(ob_boot_error(), "the kernel does not start with 2 vCPUs and 64 MB"));
	CHECK_EQUAL(tries, 1);
	CHECK(get(&refused) >= before + CALLS);
	CHECK_EQUAL(ob_syscall(OB_SYS_getpid), -ENODEV);
	CHECK_EQUAL(ob_halt(), -ENODEV);
	return true;
}

/* Returns whether the boot was refused. If not, another snapshot takes the place of this one. */
static bool is_refused_with_snapshot(const char *directory)
{
	char path[512];
	long before = get(&answered);

	if (is_refused(directory, 0)) {
		CHECK_EQUAL(get(&answered), before);
		return true;
	}
	client_find_snapshot(directory, path, sizeof(path));
	CHECK(!unlink(path));
	check_boot(directory, "saved as");
	CHECK_EQUAL(ob_halt(), 0);
	return false;
}

int main(int count, char **arguments)
{
	struct client_belongings before = { 0 };
	const char *directory;
	pthread_t caller;
	int boots = 0;

	CHECK_EQUAL(count, 2);
	directory = arguments[1];
	booting = pthread_self();
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	alarm(DEADLINE);
	check_boot(directory, "saved as");
	CHECK_EQUAL(ob_halt(), 0);
	CHECK(!pthread_create(&caller, NULL, call_always, NULL));
	for (int i = 0; boots < BOOTS; i++) {
		CHECK(i < 10 * BOOTS);
		boots += is_refused_with_snapshot(directory);
		CHECK(is_refused(NULL, 0));
		/* The service thread has to end again. */
		CHECK(is_refused(NULL, 1));
		/* The first times, the C library and others allocate. */
		if (boots <= BOOTS / 2)
			before = client_belongings();
	}
	client_check_nothing_is_left(before);
	check_boot(directory, "started from");
	while (!get(&answered))
		sched_yield();
	__atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
	CHECK(!pthread_join(caller, NULL));
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
