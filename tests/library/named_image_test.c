// SPDX-License-Identifier: GPL-2.0-only
/* Boots the kernel image in a file: named_image_test IMAGE */
#include "client.h"

int main(int argc, char **argv)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 1, .memory = 32ull << 20,
		.log_level = OB_LOG_DEFAULT, .kernel = argv[1],
	};

	CHECK_EQUAL(argc, 2);
	CHECK_EQUAL(ob_boot(&config), 0);
	OK(ob_sys_mkdir("/made", 0755));
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
