// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernels that cannot make the spare interface of their snapshots: the archive of components lacks
 * the driver. More of them boot than a host can have devices. The argument is a directory for
 * snapshots.
 */
#include <errno.h>

#include <outboard/net.h>

#include "client.h"

#define DEVICES_MOST 64

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .memory = 32 << 20, .vcpus = 1, .log_level = 0,
		.snapshots = arguments[1], .spare_interfaces = 1,
	};
	char words[32], hub[4096];

	CHECK_EQUAL(count, 2);
	for (int i = 0; i <= DEVICES_MOST; i++) {
		/* Each is another kernel, which is not started from a snapshot. */
		snprintf(words, sizeof(words), "number=%d", i);
		config.command_line = words;
		CHECK_EQUAL(ob_boot(&config), 0);
		CHECK_EQUAL(ob_halt(), 0);
	}
	CHECK_EQUAL(ob_boot(&config), 0);
	/* It needs the driver, too: but there is room for the device. */
	snprintf(hub, sizeof(hub), "hub:%s/hub", arguments[1]);
	CHECK_EQUAL(ob_net_add(hub, NULL), -ENODEV);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
