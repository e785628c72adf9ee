// SPDX-License-Identifier: GPL-2.0-only
/* A thread calls and ends: what exit_wait.py stops on its way. */
#include <pthread.h>

#include "../library/client.h"

static void *call(void *unused)
{
	OK(ob_sys_getppid());
	return unused;
}

int main(void)
{
	pthread_t thread;

	client_boot(1);
	CHECK(!pthread_create(&thread, NULL, call, NULL));
	CHECK(!pthread_join(thread, NULL));
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
