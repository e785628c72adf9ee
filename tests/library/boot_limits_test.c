// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boots a kernel of this memory with a limit of the process, and prints the error and its reason.
 * Arguments: memory in bytes, "nofile", "data", "as" or "none", and the limit.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "client.h"

int main(int count, char **arguments)
{
	struct ob_config config = { .size = sizeof(config), .vcpus = 1 };
	struct rlimit limit;
	int error;

	CHECK_EQUAL(count, 4);
	config.memory = strtoull(arguments[1], NULL, 10);
	limit.rlim_cur = limit.rlim_max = strtoull(arguments[3], NULL, 10);
	if (!strcmp(arguments[2], "nofile"))
		CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
	else if (!strcmp(arguments[2], "data"))
		CHECK_EQUAL(setrlimit(RLIMIT_DATA, &limit), 0);
	else if (!strcmp(arguments[2], "as"))
		CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
	error = ob_boot(&config);
	printf("%s: %s\n", strerror(-error), ob_boot_error());
	return error == 0;
}
