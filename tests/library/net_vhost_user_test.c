// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interfaces of the kind vhost-user: net_vhost_user_test WHAT DESCRIPTION
 *
 *   add	prints "added", or the error
 *   private	the same in a kernel that does not share its memory
 *   flags	tries flags that do not exist
 *   watch	prints "up" and "down" as the link changes, until standard input ends; then sends
 *		a datagram, removes the interface and halts
 *
 * With SNAPSHOTS, a directory, in the environment, the first line is the fate of the snapshot.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <outboard/net.h>

#include "client.h"

static void boot(bool is_shared)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .memory = 128 << 20,
		.log_level = OB_LOG_DEFAULT, .flags = is_shared ? OB_SHARED_MEMORY : 0,
		.snapshots = getenv("SNAPSHOTS"),
	};

	CHECK_EQUAL(ob_boot(&config), 0);
	if (config.snapshots)
		printf("snapshot %s\n", ob_snapshot_status());
}

static bool is_link_up(int socket)
{
	struct ifreq request = { .ifr_name = "eth0" };

	OK(ob_sys_ioctl(socket, SIOCGIFFLAGS, (unsigned long)&request));
	return request.ifr_flags & IFF_RUNNING;
}

static bool has_input(int milliseconds)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	return poll(&input, 1, milliseconds) > 0;
}

static void watch(const char *description)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	int number = ob_net_add(description, NULL), socket;
	bool was_up = false;

	if (number < 0)
		fprintf(stderr, "%s\n", ob_net_error());
	CHECK(number >= 0);
	socket = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));
	while (!has_input(5)) {
		bool is_up = is_link_up(socket);

		if (is_up == was_up)
			continue;
		printf(is_up ? "up\n" : "down\n");
		fflush(stdout);
		was_up = is_up;
	}
	CHECK_EQUAL(inet_pton(AF_INET, "10.1.0.9", &to.sin_addr), 1);
	OK(ob_sys_sendto(socket, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	OK(ob_sys_close(socket));
	CHECK_EQUAL(ob_net_remove(number), 0);
	CHECK_EQUAL(ob_halt(), 0);
	printf("halted\n");
}

static void refuse_flags(void)
{
	struct ob_config config = { .size = sizeof(config), .flags = 4 };

	CHECK_EQUAL(ob_boot(&config), -EINVAL);
	printf("%s\n", ob_boot_error());
}

int main(int count, char *words[])
{
	CHECK_EQUAL(count, 3);
	if (!strcmp(words[1], "flags")) {
		refuse_flags();
		return 0;
	}
	boot(strcmp(words[1], "private") != 0);
	if (!strcmp(words[1], "watch")) {
		watch(words[2]);
		return 0;
	}
	printf("%s\n", ob_net_add(words[2], NULL) < 0 ? ob_net_error() : "added");
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
