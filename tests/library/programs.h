/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs of the host (program_inside.c) as programs of the kernel. Link with client.c. */
#ifndef OUTBOARD_TESTS_PROGRAMS_H
#define OUTBOARD_TESTS_PROGRAMS_H

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define INSIDE "/bin/inside"

static void make_parents(const char *path)
{
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		ob_sys_mkdir(copy, 0755);
		*slash = '/';
	}
}

/* Copies a file of the host into the kernel's tree. */
static void copy_in(const char *from, const char *to)
{
	static char buffer[1 << 16];
	int host = open(from, O_RDONLY | O_CLOEXEC), fd;
	ssize_t size;

	CHECK(host >= 0);
	make_parents(to);
	fd = (int)OK(ob_sys_open(to, O_CREAT | O_WRONLY | O_TRUNC, 0755));
	while ((size = read(host, buffer, sizeof(buffer))) > 0)
		CHECK_EQUAL(OK(ob_sys_write(fd, buffer, (size_t)size)), size);
	CHECK_EQUAL(size, 0);
	OK(ob_sys_close(fd));
	close(host);
}

/* Starts the program with these words. Returns its process. */
static inline int start_words(const char *const *words)
{
	const char *const environment[] = { "TMPDIR=/tmp", NULL };
	int pid = ob_spawn(INSIDE, words, environment);

	if (pid <= 0)
		fprintf(stderr, "ob_spawn(%s): %s\n", words[1], strerror(-pid));
	CHECK(pid > 0);
	return pid;
}

/* Starts the program with the name of a case. Returns its process. */
static inline int start(const char *name)
{
	return start_words((const char *const[]) { INSIDE, name, NULL });
}

/* Descriptors 0 to 2 of this process in the kernel. Returns the end from which its output comes. */
static inline int make_descriptors(void)
{
	int ends[2];

	CHECK_EQUAL(OK(ob_sys_open("/dev/null", O_RDWR, 0)), 0);
	OK(ob_sys_pipe2(ends, 0));
	CHECK(ends[0] == 1 && ends[1] == 2);
	OK(ob_sys_dup3(1, 10, O_CLOEXEC));
	OK(ob_sys_dup2(2, 1));
	/* Programs do not get it. */
	OK(ob_sys_dup2(10, 11));
	return 10;
}

static inline int wait_for(int pid)
{
	int status = -1;

	CHECK_EQUAL(OK(ob_sys_wait4(pid, &status, 0, NULL)), pid);
	return status;
}

static inline void show(int output)
{
	char text[4096];
	long size;

	OK(ob_sys_fcntl(output, F_SETFL, O_NONBLOCK));
	while ((size = ob_sys_read(output, text, sizeof(text))) > 0)
		fwrite(text, 1, (size_t)size, stderr);
}

static inline void run(const char *name, int output)
{
	int status = wait_for(start(name));

	if (!status)
		return;
	show(output);
	fprintf(stderr, "%s: status %x\n", name, (unsigned int)status);
	_Exit(1);
}

#endif
