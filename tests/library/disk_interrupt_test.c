// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk's request is completed on the vCPU that submitted it, if that idles then, also while
 * another client's thread watches another idle vCPU. Argument: an image whose contents may be lost.
 *
 * The disk takes a millisecond for each request. A faster one may complete it before the vCPU
 * idles.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "../invariants/model_disk.h"
#include "client.h"

#define WRITES 50

static int ends[2];
static volatile long watcher;

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	OK(ob_sys_sched_setaffinity(0, sizeof(set), (unsigned long *)&set));
}

static void *watch(void *unused)
{
	char byte;

	(void)unused;
	stay_on(0);
	watcher = OK(ob_sys_gettid());
	CHECK_EQUAL(OK(ob_sys_read(ends[0], &byte, 1)), 1);
	return NULL;
}

/* Interrupts of disks that both vCPUs have taken. */
static void interrupts(long counts[2])
{
	static char text[65536];
	long length = 0, got, file = OK(ob_sys_openat(AT_FDCWD, "/proc/interrupts", O_RDONLY, 0));
	char *line, *end;

	while ((got = OK(ob_sys_read((int)file, text + length, 4096))) > 0) {
		length += got;
		CHECK(length < (long)sizeof(text) - 4096);
	}
	OK(ob_sys_close((int)file));
	text[length] = '\0';
	end = strstr(text, " block\n");
	CHECK(end);
	*end = '\0';
	line = strrchr(text, '\n');
	CHECK(line);
	CHECK_EQUAL(sscanf(line, " %*[^:]: %ld %ld", &counts[0], &counts[1]), 2);
}

int main(int count, char **arguments)
{
	struct ob_disk_config config = { .size = sizeof(config), .path = arguments[1] };
	long before[2], after[2], file;
	static char block[4096];
	char name[32], path[48];
	pthread_t thread;

	CHECK_EQUAL(count, 2);
	model_disk_delay = 1000;
	client_boot(2);
	CHECK(ob_disk_add(&config, name) >= 0);
	snprintf(path, sizeof(path), "/dev/%s", name);
	OK(ob_sys_pipe2(ends, 0));
	CHECK_EQUAL(pthread_create(&thread, NULL, watch, NULL), 0);
	client_wait_until_asleep(&watcher);
	stay_on(1);
	file = OK(ob_sys_openat(AT_FDCWD, path, O_RDWR, 0));
	interrupts(before);
	for (int i = 0; i < WRITES; i++) {
		block[0] = (char)i;
		CHECK_EQUAL(OK(ob_sys_pwrite64((int)file, block, sizeof(block), i * 4096l)), 4096);
		OK(ob_sys_fsync((int)file));
	}
	interrupts(after);
	/* The kernel's own work may run on any vCPU. */
	CHECK(after[1] - before[1] >= WRITES);
	CHECK(after[0] - before[0] < WRITES / 2);
	CHECK_EQUAL(OK(ob_sys_write(ends[1], "", 1)), 1);
	pthread_join(thread, NULL);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
