// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads a large file some times, and prints the megabytes of memory that the process has then, and
 * those that the last reading took from the disk. Arguments: an image with the file /large, the
 * type of its file system, words for the kernel's command line, how often to read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static void read_file(void)
{
	static char buffer[1 << 20];
	long file = OK(ob_sys_openat(AT_FDCWD, "/disk/large", O_RDONLY, 0)), length;

	while ((length = OK(ob_sys_read((unsigned int)file, buffer, sizeof(buffer)))) > 0)
		CHECK(!memcmp(buffer, buffer + 1, (size_t)length - 1) && buffer[0] == 'x');
	OK(ob_sys_close((unsigned int)file));
}

/* Kilobytes that came from disks. */
static long kilobytes_in(void)
{
	static char text[16384];
	long file = OK(ob_sys_openat(AT_FDCWD, "/proc/vmstat", O_RDONLY, 0)), length = 0, bytes;

	while ((bytes = OK(ob_sys_read((unsigned int)file, text + length,
				       sizeof(text) - 1 - (size_t)length))) > 0)
		length += bytes;
	OK(ob_sys_close((unsigned int)file));
	CHECK(strstr(text, "pgpgin "));
	return atol(strstr(text, "pgpgin ") + strlen("pgpgin "));
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .memory = 1ull << 30,
		.log_level = OB_LOG_DEFAULT,
	};
	long before = 0;

	CHECK_EQUAL(count, 5);
	config.command_line = arguments[3];
	CHECK_EQUAL(ob_boot(&config), 0);
	client_mount(arguments[1], arguments[2], "/disk");
	CHECK(!ob_sys_mkdir("/proc", 0755) || errno == EEXIST);
	OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	for (int times = atoi(arguments[4]); times; times--) {
		before = kilobytes_in();
		read_file();
	}
	printf("%llu %ld\n", (unsigned long long)client_resident_bytes() >> 20,
	       (kilobytes_in() - before) >> 10);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
