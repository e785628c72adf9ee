// SPDX-License-Identifier: GPL-2.0-only
/*
 * A component that never comes to the end of its start does not hold up the boot for ever. The
 * clock of the host, which is the test's, makes the time short.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

static long passed;		/* in seconds; atomic */
static int has_returned;	/* the boot; atomic */

/* The library's calls come here. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = (int)syscall(SYS_clock_gettime, clock, time);

	time->tv_sec += __atomic_load_n(&passed, __ATOMIC_SEQ_CST);
	return result;
}

static void *let_time_pass(void *unused)
{
	/* Again and again: the boot may not have begun to wait. */
	while (!__atomic_load_n(&has_returned, __ATOMIC_SEQ_CST)) {
		sleep(1);
		__atomic_add_fetch(&passed, 1000, __ATOMIC_SEQ_CST);
	}
	return unused;
}

int main(void)
{
	struct ob_config config = {
		.size = sizeof(config), .memory = 64 << 20, .log_level = OB_LOG_DEFAULT,
		.components = "endless",
	};
	struct ob_instance *other;
	pthread_t thread;

	alarm(120);
	CHECK(!pthread_create(&thread, NULL, let_time_pass, NULL));
	CHECK_EQUAL(ob_boot(&config), -ETIMEDOUT);
	__atomic_store_n(&has_returned, 1, __ATOMIC_SEQ_CST);
	CHECK(!pthread_join(thread, NULL));
	puts(ob_boot_error());
	CHECK_EQUAL(ob_syscall(OB_SYS_getpid), -ENODEV);
	CHECK_EQUAL(ob_halt(), -ENODEV);
	CHECK_EQUAL(ob_boot(NULL), -EBUSY);
	config.components = NULL;
	CHECK_EQUAL(ob_instance_new(&other), 0);
	CHECK_EQUAL(ob_boot_on(other, &config), 0);
	CHECK(ob_sys_getpid_on(other) > 0);
	CHECK_EQUAL(ob_halt_on(other), 0);
	return 0;
}
