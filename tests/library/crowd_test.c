// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many kernels at once: crowd_test NUMBER. Each is a process of its own that boots, makes calls,
 * waits until all have, and makes some more. Prints how long it took until the last had booted, and
 * the memory that they take together.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void file_round(int number)
{
	char text[32], back[32] = "";
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/tmp/file", O_CREAT | O_TRUNC | O_RDWR, 0600));
	int size = snprintf(text, sizeof(text), "kernel %d", number);

	CHECK_EQUAL(OK(ob_sys_write(file, text, (size_t)size)), size);
	CHECK_EQUAL(OK(ob_sys_pread64(file, back, sizeof(back), 0)), size);
	CHECK(!strcmp(text, back));
	OK(ob_sys_close(file));
}

static int member(int number, int ready, int go)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 1, .memory = 64 << 20, .log_level = OB_LOG_DEFAULT
	};
	char byte = 'r';

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CHECK_EQUAL(ob_boot(&config), 0);
	file_round(number);
	CHECK_EQUAL(write(ready, &byte, 1), 1);
	CHECK_EQUAL(read(go, &byte, 1), 0);
	file_round(number + 1);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}

/* Memory of a process that is its own, and its part of what it shares, in KB. */
static unsigned long proportional(pid_t child)
{
	char path[64], line[128];
	unsigned long kilobytes = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", child);
	file = fopen(path, "re");
	CHECK(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Pss: %lu", &kilobytes) == 1)
			break;
	fclose(file);
	return kilobytes;
}

int main(int count, char **arguments)
{
	int ready[2], go[2], status;
	unsigned long kilobytes = 0;
	double begin = now();
	long number;
	pid_t *children;
	char byte;

	CHECK_EQUAL(count, 2);
	number = atol(arguments[1]);
	children = calloc((size_t)number, sizeof(*children));
	CHECK(children && !pipe(ready) && !pipe(go));
	for (int i = 0; i < number; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (!children[i]) {
			close(go[1]);
			_exit(member(i, ready[1], go[0]));
		}
	}
	for (int i = 0; i < number; i++)
		CHECK_EQUAL(read(ready[0], &byte, 1), 1);
	printf("%ld kernels: %.1f s until all had booted, %.2f ms each", number, now() - begin,
	       (now() - begin) * 1000 / (double)number);
	for (int i = 0; i < number; i++)
		kilobytes += proportional(children[i]);
	printf(", %lu MB in all, %.2f MB each\n", kilobytes / 1024,
	       (double)kilobytes / 1024 / (double)number);
	close(go[1]);
	for (int i = 0; i < number; i++)
		CHECK(waitpid(children[i], &status, 0) == children[i] && !status);
	return 0;
}
