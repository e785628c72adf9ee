/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Boots the kernel, loads modules, halts. The kernel's log goes to standard output: the kernel's
 * own tests are modules that say there what they found.
 *
 *   run_modules SECONDS MODULE.ko... [-- PARAMETERS...]
 *
 * All are loaded in that order, the last with the parameters. With SECONDS other than 0, the last
 * is unloaded after so many: tests that run until then. The result of loading the last one is
 * printed as "run_modules: result NUMBER". With several arguments after --, the last module is
 * loaded with each of them, one after the other.
 *
 * The environment's VCPUS and COMMAND_LINE are the kernel's. SHOW names one of the kernel's files:
 * it is printed after the last module was loaded.
 *
 * Exit code: 0, or 1 if another than the last could not be loaded or the last not unloaded.
 */
#define _GNU_SOURCE
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
static long load(const char *path, const char *parameters)
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
	result = ob_syscall(SYS_init_module, image, (unsigned long)info.st_size, parameters);
	munmap(image, info.st_size);
	return result;
}

static long unload(const char *path)
{
	char name[256];

	snprintf(name, sizeof(name), "%s", basename(path));
	*strrchr(name, '.') = '\0';
	for (char *dash = name; (dash = strchr(dash, '-')); )
		*dash = '_';
	return ob_syscall(SYS_delete_module, name, 0);
}

/* Copies a file of the kernel to standard output. Returns 0 or a negative errno. */
static long show(const char *path)
{
	char piece[4096];
	long descriptor, got;

	descriptor = ob_syscall(SYS_open, path, (long)O_RDONLY, 0L);
	if (descriptor < 0)
		return descriptor;
	while ((got = ob_syscall(SYS_read, descriptor, piece, sizeof(piece))) > 0)
		fwrite(piece, 1, (size_t)got, stdout);
	fflush(stdout);
	ob_syscall(SYS_close, descriptor);
	return got;
}

static int fail(const char *path, long error)
{
	fprintf(stderr, "%s: %s\n", path, strerror(-(int)error));
	return 1;
}

/* `parameters`: of the last module, one string for each time that it is loaded, up to NULL. */
static int run(unsigned int seconds, char **modules, int count, char **parameters)
{
	const char *last = modules[count - 1], *shown = getenv("SHOW");
	char set[1024];
	long result, error;

	/* Tests shall find all vCPUs. */
	ob_syscall(SYS_sched_getaffinity, 0L, sizeof(set), set);

	for (int i = 0; i < count - 1; i++) {
		result = load(modules[i], "");
		if (result != 0 && result != -EEXIST)
			return fail(modules[i], result);
	}
	do {
		result = load(last, *parameters ? *parameters : "");
		printf("run_modules: result %ld\n", result);
		fflush(stdout);
	} while (*parameters && *++parameters);
	if (shown && *shown) {
		error = show(shown);
		if (error)
			return fail(shown, error);
	}
	if (result || !seconds)
		return 0;
	sleep(seconds);
	result = unload(last);
	return result ? fail(last, result) : 0;
}

int main(int argc, char **argv)
{
	struct ob_config config = {
		.size = sizeof(config),
		.vcpus = getenv("VCPUS") ? (unsigned int)atoi(getenv("VCPUS")) : 2,
		.command_line = getenv("COMMAND_LINE"),
		.log_level = 7,
		.log = print_line,
	};
	int count = 2, failed;

	while (count < argc && strcmp(argv[count], "--"))
		count++;
	if (count < 3) {
		fprintf(stderr, "usage: run_modules SECONDS MODULE.ko... [-- PARAMETERS]\n");
		return 2;
	}
	if (ob_boot(&config) != 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		return 1;
	}
	failed = run((unsigned int)atoi(argv[1]), argv + 2, count - 2,
		     argv + (count < argc ? count + 1 : argc));
	ob_halt();
	return failed;
}
