// SPDX-License-Identifier: GPL-2.0-only
/*
 * A host that has no more threads for a while: a start from a snapshot gets the vCPU's service
 * thread, and its carrier only at the twentieth try. Calls work meanwhile, but for those that have
 * the kernel's coroutines do something: they wait. The argument is how many threads there are
 * before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "client.h"

#define REFUSED 20

static int room, refused;	/* atomic */

/* The library's calls come here. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *argument)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
		    void *) = dlsym(RTLD_NEXT, "pthread_create");

	if (__atomic_fetch_sub(&room, 1, __ATOMIC_SEQ_CST) > 0 ||
	    __atomic_load_n(&refused, __ATOMIC_SEQ_CST) == REFUSED)
		return real(thread, attributes, run, argument);
	__atomic_fetch_add(&refused, 1, __ATOMIC_SEQ_CST);
	return EAGAIN;
}

int main(int count, char **arguments)
{
	struct timespec time = { .tv_nsec = 1000000 };

	CHECK_EQUAL(count, 2);
	room = atoi(arguments[1]);
	client_boot(1);
	OK(ob_sys_getppid());
	OK(ob_sys_nanosleep(&time, NULL));
	/* This is done by kernel threads. */
	client_tmpfs("/few");
	OK(ob_sys_umount2("/few", 0));
	OK(ob_sys_sync());
	printf("refused: %d\n", __atomic_load_n(&refused, __ATOMIC_SEQ_CST));
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
