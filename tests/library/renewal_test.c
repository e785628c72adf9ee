// SPDX-License-Identifier: GPL-2.0-only
/*
 * A start from a snapshot in which the leader sleeps before it has renewed the kernel: component
 * held_lock. The boot returns after the leader has gone on, and both vCPUs come up. With an
 * argument, the directory of snapshots: before that, the host has no thread for the vCPU, and the
 * boot is refused.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

static bool refuses;
static int refused;

/* The library's calls come here. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *argument)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym(RTLD_NEXT, "pthread_create");

	if (!refuses)
		return real(thread, attributes, run, argument);
	refused++;
	return EAGAIN;
}

/* If the kernel could not fail any more, it would ask again and again, and panic. */
static void check_refused(const char *directory)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .memory = 512ull << 20,
		.log_level = OB_LOG_DEFAULT, .snapshots = directory,
		.components = getenv("COMPONENTS"),
	};

	refuses = true;
	CHECK_EQUAL(ob_boot(&config), -EAGAIN);
	CHECK(strstr(ob_snapshot_status(), "started from"));
	CHECK_EQUAL(refused, 1);
	refuses = false;
}

static unsigned long long wall_clock(void)
{
	struct timespec now;

	CHECK(!clock_gettime(CLOCK_REALTIME, &now));
	return (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
}

static unsigned long long released_at(void)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/sys/module/held_lock/parameters/released_at",
					 O_RDONLY, 0));
	char text[32] = "";

	CHECK(OK(ob_sys_read(file, text, sizeof(text) - 1)) > 0);
	OK(ob_sys_close(file));
	return strtoull(text, NULL, 10);
}

int main(int count, char **arguments)
{
	unsigned long long start, released;
	unsigned long set[16] = { 0 };

	if (count > 1)
		check_refused(arguments[1]);
	start = wall_clock();
	client_boot(2);
	released = released_at();
	/* The leader waited for the lock. So it was not released before, nor in another process. */
	CHECK(released > start && released < wall_clock());
	/* Waits until all are up that can be. */
	CHECK(ob_sys_sched_getaffinity(0, sizeof(set), set) > 0);
	CHECK_EQUAL(set[0], 3);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
