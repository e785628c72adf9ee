// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads a large file once, and prints the megabytes of memory that the process has then. Arguments:
 * an ext4 image with the file /large, and words for the kernel's command line.
 */
#include <fcntl.h>
#include <string.h>

#include "client.h"

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .memory = 1ull << 30,
		.log_level = OB_LOG_DEFAULT,
	};
	static char buffer[1 << 20];
	long file, length;

	CHECK_EQUAL(count, 3);
	config.command_line = arguments[2];
	CHECK_EQUAL(ob_boot(&config), 0);
	client_mount(arguments[1], "ext4", "/disk");
	file = OK(ob_sys_openat(AT_FDCWD, "/disk/large", O_RDONLY, 0));
	while ((length = OK(ob_sys_read((int)file, buffer, sizeof(buffer)))) > 0)
		CHECK(!memcmp(buffer, buffer + 1, (size_t)length - 1) && buffer[0] == 'x');
	printf("%llu\n", (unsigned long long)client_resident_bytes() >> 20);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
