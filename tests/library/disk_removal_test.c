// SPDX-License-Identifier: GPL-2.0-only
/*
 * Removing a disk while another thread opens it: either the disk goes, and the open fails, or it
 * stays and can be read. Argument: an image.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "client.h"

#define ROUNDS 150

static uint32_t done;			/* atomic */
static unsigned long opened;

static void *open_and_read(void *unused)
{
	while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) {
		char block[4096];
		int fd = (int)ob_sys_open("/dev/vda", O_RDONLY | O_DIRECT, 0);

		if (fd < 0) {
			CHECK(errno == ENOENT || errno == ENXIO || errno == ENODEV);
			continue;
		}
		CHECK_EQUAL(ob_sys_pread64((unsigned int)fd, block, sizeof(block), 0), 4096);
		opened++;
		OK(ob_sys_close((unsigned int)fd));
		usleep(100);
	}
	return unused;
}

int main(int count, char **arguments)
{
	struct ob_disk_config config = { .size = sizeof(config), .path = arguments[1] };
	unsigned long removed = 0, busy = 0;
	pthread_t thread;

	CHECK_EQUAL(count, 2);
	client_boot(2);
	CHECK_EQUAL(pthread_create(&thread, NULL, open_and_read, NULL), 0);
	while (removed < ROUNDS || !busy || !__atomic_load_n(&opened, __ATOMIC_RELAXED)) {
		int disk = ob_disk_add(&config, NULL), error;

		CHECK(disk >= 0);
		while ((error = ob_disk_remove(disk)) == -EBUSY) {
			busy++;
			usleep(20);
		}
		CHECK_EQUAL(error, 0);
		removed++;
	}
	__atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	printf("%lu removals, %lu refused, %lu opens\n", removed, busy, opened);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
