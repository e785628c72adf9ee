// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host lacks threads for some vCPUs, just after the boot, before these come up:
 * few_threads_test space KILOBYTES   so much address space is left
 * few_threads_test without NUMBER    the thread of that number is refused, others are not
 * Prints how many vCPUs are up.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client.h"

/* How many threads until one is refused; zero: none is. */
static int until_refused;

/* In the place of the C library's, for the library that is tested as well. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
		   void *argument)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (__atomic_load_n(&until_refused, __ATOMIC_SEQ_CST) &&
	    __atomic_sub_fetch(&until_refused, 1, __ATOMIC_SEQ_CST) == 0)
		return ENOMEM;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attributes, start, argument);
}

static rlim_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages;

	CHECK(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return (rlim_t)pages * 4096;
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 8, .memory = 256 << 20, .log_level = 0
	};
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	cpu_set_t set;

	CHECK_EQUAL(count, 3);
	CHECK_EQUAL(ob_boot(&config), 0);
	if (strcmp(arguments[1], "space"))
		until_refused = atoi(arguments[2]);
	else
		limit.rlim_cur = address_space() + (rlim_t)atol(arguments[2]) * 1024;
	CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
	CPU_ZERO(&set);
	/* Waits until all are up that can be. */
	CHECK(ob_sys_sched_getaffinity(0, sizeof(set), (unsigned long *)&set) > 0);
	limit.rlim_cur = RLIM_INFINITY;
	CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
	printf("%d\n", CPU_COUNT(&set));
	OK(ob_sys_getppid());
	client_tmpfs("/files");
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
