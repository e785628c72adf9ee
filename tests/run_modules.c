/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Boots the kernel, loads the modules named on the command line in that order, halts.
 * The kernel's log goes to standard output: KUnit's report (KTAP) is in it. A
 * KUnit module runs its suites while it is loaded.
 *
 * Exit code: 0, or 1 if a module could not be loaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <outboard/outboard.h>

static void print_line(void *context, int level, const char *line, size_t length)
{
	char text[4096];

	(void)context;
	(void)level;
	if (length > sizeof(text) - 1)
		length = sizeof(text) - 1;
	memcpy(text, line, length);
	text[length] = '\n';
	if (write(STDOUT_FILENO, text, length + 1) < 0)
		abort();
}

/* Returns 0 or a negative errno. */
static long load(const char *path)
{
	struct stat info;
	void *image;
	long result;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &info) < 0)
		return -errno;
	image = mmap(NULL, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (image == MAP_FAILED)
		return -errno;
	result = ob_syscall(SYS_init_module, image, (unsigned long)info.st_size, "");
	munmap(image, info.st_size);
	return result;
}

int main(int argc, char **argv)
{
	struct ob_config config = {
		.size = sizeof(config),
		.vcpus = 2,
		.log_level = 7,
		.log = print_line,
	};
	int failed = 0;

	if (ob_boot(&config) != 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		return 1;
	}
	for (int i = 1; i < argc; i++) {
		long result = load(argv[i]);

		if (result != 0 && result != -EEXIST) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-(int)result));
			failed = 1;
		}
	}
	ob_halt();
	return failed;
}
