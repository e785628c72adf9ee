/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cost of a second kernel in the process, and of a boot after a halt: instances ROUNDS. A line
 * per round: milliseconds to the end of the first system call, and private dirty kilobytes that it
 * adds, of the first instance, of a second one beside it, and of the first one again after a halt.
 * The environment's SNAPSHOTS is that of struct ob_config.
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
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static long private_dirty(void)
{
	FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long value = 0;

	if (!rollup)
		return 0;
	while (fgets(line, sizeof(line), rollup))
		sscanf(line, "Private_Dirty: %ld", &value);
	fclose(rollup);
	return value;
}

static void measure(struct ob_instance *instance)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .log_level = OB_LOG_DEFAULT,
		.snapshots = getenv("SNAPSHOTS"),
	};
	long before = private_dirty();
	double begin = now(), end;

	if (ob_boot_on(instance, &config) || ob_syscall_on(instance, SYS_getppid) < 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error_on(instance));
		exit(1);
	}
	end = now();
	printf("%f %ld ", end - begin, private_dirty() - before);
}

static void halt(struct ob_instance *instance)
{
	if (ob_halt_on(instance))
		exit(1);
}

int main(int count, char **arguments)
{
	struct ob_instance *other;

	for (int round = count > 1 ? atoi(arguments[1]) : 1; round > 0; round--) {
		measure(ob_instance_default());
		if (ob_instance_new(&other))
			return 1;
		measure(other);
		halt(ob_instance_default());
		measure(ob_instance_default());
		putchar('\n');
		halt(ob_instance_default());
		halt(other);
		if (ob_instance_free(other))
			return 1;
	}
	return 0;
}
