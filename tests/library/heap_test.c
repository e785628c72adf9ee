// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that run vCPUs take no memory from the program's heap: a thread of the program may be
 * stopped while it holds the heap's lock. A kernel boots with spare interfaces, gives one to a hub,
 * and halts. The arguments are a directory for snapshots, and the hub.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <outboard/net.h>

#include "client.h"

/* The C library's own. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

static unsigned int allocations;	/* by threads of vCPUs; atomic */

static void count_if_of_vcpu(void)
{
	char name[16] = "";

	if (!pthread_getname_np(pthread_self(), name, sizeof(name)) &&
	    !strcmp(name, "outboard-cpu"))
		__atomic_add_fetch(&allocations, 1, __ATOMIC_SEQ_CST);
}

void *malloc(size_t size)
{
	count_if_of_vcpu();
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	count_if_of_vcpu();
	return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	count_if_of_vcpu();
	return __libc_realloc(memory, size);
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .memory = 128 << 20, .vcpus = 1,
		.log_level = OB_LOG_DEFAULT, .snapshots = arguments[1], .spare_interfaces = 2,
	};

	CHECK_EQUAL(count, 3);
	CHECK_EQUAL(ob_boot(&config), 0);
	puts(ob_snapshot_status());
	CHECK(ob_net_add(arguments[2], NULL) >= 0);
	CHECK_EQUAL(ob_halt(), 0);
	CHECK_EQUAL(__atomic_load_n(&allocations, __ATOMIC_SEQ_CST), 0);
	return 0;
}
