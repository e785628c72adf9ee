// SPDX-License-Identifier: GPL-2.0-only
/*
 * A halt does not wait for ever for a call that adds a network interface and does not come back.
 * What the halt leaves behind keeps the memory. The arguments are the module `stuck`, and a network
 * interface to be added.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"

static void *add(void *description)
{
	ob_net_add(description, NULL);
	CHECK(!"the component lets it go");
	return NULL;
}

/* Of the interface that the component does not let the thread add. */
static bool is_adding(void)
{
	return ob_sys_access("/sys/class/net/eth0", F_OK) == 0;
}

int main(int count, char **arguments)
{
	struct ob_instance *other;
	pthread_t thread;

	CHECK_EQUAL(count, 3);
	alarm(120);
	client_boot(2);
	client_load(arguments[1], "");
	CHECK(!pthread_create(&thread, NULL, add, arguments[2]));
	while (!is_adding())
		usleep(10000);
	CHECK_EQUAL(ob_halt(), 0);
	CHECK_EQUAL(ob_syscall(OB_SYS_getpid), -ENODEV);
	CHECK_EQUAL(ob_boot(NULL), -EBUSY);
	/* Another kernel is not disturbed. */
	CHECK_EQUAL(ob_instance_new(&other), 0);
	CHECK_EQUAL(ob_boot_on(other, NULL), 0);
	CHECK(ob_sys_getpid_on(other) > 0);
	CHECK_EQUAL(ob_halt_on(other), 0);
	return 0;
}
