/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a boot takes and what memory it leaves in use. One line: milliseconds
 * to the end of the first system call, private dirty and resident kilobytes added by it.
 *
 * Usage: boot_time [KERNEL-COMMAND-LINE]. The environment's SNAPSHOTS and COMPONENTS are those of
 * struct ob_config. With one, the kernel's log goes to standard error (boot_table.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include <outboard/outboard.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

/* A line of /proc/self/smaps_rollup, in kilobytes; -1 if there is none. */
static long memory(const char *name)
{
	FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long value = -1;

	if (!rollup)
		return -1;
	while (fgets(line, sizeof(line), rollup))
		if (strncmp(line, name, strlen(name)) == 0)
			sscanf(line + strlen(name), "%ld", &value);
	fclose(rollup);
	return value;
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .log_level = OB_LOG_DEFAULT,
		.snapshots = getenv("SNAPSHOTS"), .components = getenv("COMPONENTS"),
	};
	long dirty = memory("Private_Dirty:"), resident = memory("Rss:");
	double begin = now(), end;

	if (count > 1) {
		config.command_line = arguments[1];
		config.log_level = 7;
	}
	if (ob_boot(&config) != 0 || ob_syscall(SYS_getppid) < 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		return 1;
	}
	end = now();
	printf("%f %ld %ld\n", end - begin, memory("Private_Dirty:") - dirty,
	       memory("Rss:") - resident);
	return ob_halt() == 0 ? 0 : 1;
}
