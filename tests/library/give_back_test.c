// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory grows with use, step by step, and goes back to the host when it is free: give_back_test
 * MEGABYTES
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

#define MB (1ul << 20)
#define SMALL (64 * MB)
#define PATIENCE 280			/* seconds */

static char block[MB];

static void fill(long megabytes)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/big/file", O_CREAT | O_WRONLY, 0600));

	for (long i = 0; i < megabytes; i++) {
		long done = OK(ob_sys_write(file, block, MB));

		/* The next call returns the error that ended a short one. */
		if (done < (long)MB)
			OK(ob_sys_write(file, block + done, MB - (unsigned long)done));
		CHECK_EQUAL(done, (long)MB);
	}
	OK(ob_sys_close(file));
}

int main(int count, char **arguments)
{
	struct ob_config config = { .size = sizeof(config),
				    .vcpus = 2,
				    .log_level = OB_LOG_DEFAULT };
	uint64_t before = client_resident_bytes(), now, rest;
	char size[32];
	long megabytes;

	CHECK_EQUAL(count, 2);
	megabytes = atol(arguments[1]);
	config.memory = (uint64_t)(megabytes + megabytes / 4 + 128) * MB;
	CHECK_EQUAL(ob_boot(&config), 0);
	CHECK(client_resident_bytes() - before < 32 * MB);
	snprintf(size, sizeof(size), "size=%ldm", megabytes + 1);
	OK(ob_sys_mkdir("/big", 0755));
	OK(ob_sys_mount("big", "/big", "tmpfs", 0, size));
	fill(megabytes);
	/* Linux's description of the pages stays. */
	rest = SMALL + config.memory / 50;
	CHECK(client_resident_bytes() - before > (uint64_t)megabytes * MB);
	OK(ob_sys_unlinkat(AT_FDCWD, "/big/file", 0));
	for (int second = 0; (now = client_resident_bytes() - before) > rest; second++) {
		if (second == PATIENCE) {
			fprintf(stderr, "%lu MB are still held\n", (unsigned long)(now / MB));
			return 1;
		}
		sleep(1);
	}
	/* It can be used again, and is empty. */
	fill(megabytes / 4);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
