// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints how much memory the kernel's sockets may use, how many of them may wait, and how many
 * threads there may be, as Linux's settings say. Argument: the kernel's memory in MB.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static void print_setting(const char *directory, const char *name)
{
	char path[64], text[128];
	long descriptor, length;

	snprintf(path, sizeof(path), "/proc/sys/%s/%s", directory, name);
	descriptor = OK(ob_sys_open(path, O_RDONLY, 0));
	length = OK(ob_sys_read((int)descriptor, text, sizeof(text) - 1));
	OK(ob_sys_close((int)descriptor));
	text[length] = '\0';
	printf("%s %s", name, text);
}

int main(int count, char **arguments)
{
	struct ob_config config = { .size = sizeof(config), .log_level = 3 };

	CHECK(count == 2);
	config.memory = strtoull(arguments[1], NULL, 10) << 20;
	CHECK(!ob_boot(&config));
	OK(ob_sys_mount("none", "/proc", "proc", 0, NULL));
	print_setting("net/ipv4", "tcp_mem");
	print_setting("net/ipv4", "udp_mem");
	print_setting("net/ipv4", "tcp_rmem");
	print_setting("net/ipv4", "tcp_wmem");
	print_setting("net/ipv4", "tcp_max_orphans");
	print_setting("net/ipv4", "tcp_max_tw_buckets");
	print_setting("fs/epoll", "max_user_watches");
	print_setting("kernel", "threads-max");
	CHECK(!ob_halt());
	return 0;
}
