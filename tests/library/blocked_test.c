// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that starts from a snapshot with all signals blocked, or calls in a thread that blocks
 * them: memory that is made accessible when it is touched would end it. And each kernel stack still
 * has its guard area.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>

#include "client.h"

#define STACK_BYTES (64ul << 10)

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
}

/*
 * Wakes kernel threads that have slept since the kernel was saved, and runs what was loaded before.
 */
static void *work(void *unused)
{
	struct timespec nap = { .tv_nsec = 1000000 };

	(void)unused;
	block_all();
	OK(ob_sys_mkdir("/tmp/mount", 0700));
	CHECK(ob_sys_mount("/dev/nothing", "/tmp/mount", "ext4", 0, NULL) == -1);
	OK(ob_sys_mount("none", "/tmp/mount", "tmpfs", 0, NULL));
	OK(ob_sys_nanosleep(&nap, NULL));
	ob_sys_sync();
	OK(ob_sys_umount2("/tmp/mount", 0));
	OK(ob_sys_rmdir("/tmp/mount"));
	return NULL;
}

/* All are open in this program. A mapping of the file that is as large as a stack is a stack. */
static void guards(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, inaccessible_from = 0, inaccessible_to = 0, stacks = 0;
	char line[4096], access[5];

	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		CHECK_EQUAL(sscanf(line, "%lx-%lx %4s", &start, &end, access), 3);
		if (strstr(line, ".snapshot") && !strcmp(access, "rw-p") &&
		    end - start == STACK_BYTES && inaccessible_to == start) {
			CHECK(inaccessible_to - inaccessible_from >= STACK_BYTES);
			stacks++;
		}
		if (!strcmp(access, "---p")) {
			inaccessible_from = start;
			inaccessible_to = end;
		}
	}
	fclose(maps);
	if (strstr(ob_snapshot_status(), "started from"))
		CHECK(stacks > 20);
}

int main(int count, char *arguments[])
{
	pthread_t thread;

	if (count > 1 && !strcmp(arguments[1], "main"))
		block_all();
	client_boot(2);
	if (count > 1 && !strcmp(arguments[1], "main")) {
		guards();
		work(NULL);
	} else {
		CHECK_EQUAL(pthread_create(&thread, NULL, work, NULL), 0);
		CHECK_EQUAL(pthread_join(thread, NULL), 0);
	}
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
