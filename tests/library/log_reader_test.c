// SPDX-License-Identifier: GPL-2.0-only
/*
 * The log to a standard error that nobody reads (V7): the kernel goes on, lost lines are counted,
 * and SIGPIPE does not end the program. Argument: "pipe", "socket", "terminal", or "gone" for a
 * pipe without a reader.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "client.h"

#define LINES 3000
#define PATIENCE 300	/* seconds */

static int report;

/* CHECK would write to the standard error in question. */
static void require(int holds, const char *what)
{
	if (holds)
		return;
	dprintf(report, "failed: %s\n", what);
	_Exit(1);
}

/* The ends to read from and to write to. */
static void make_ends(const char *kind, int ends[2])
{
	if (!strcmp(kind, "socket")) {
		CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	} else if (!strcmp(kind, "terminal")) {
		ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
		CHECK(ends[0] >= 0 && !grantpt(ends[0]) && !unlockpt(ends[0]));
		ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
		CHECK(ends[1] >= 0);
	} else {
		CHECK_EQUAL(pipe(ends), 0);
	}
}

static void write_log(void)
{
	int fd = (int)ob_sys_open("/dev/kmsg", O_WRONLY, 0);
	char line[128];

	require(fd >= 0, "/dev/kmsg");
	for (int i = 0; i < LINES; i++) {
		int length = snprintf(line, sizeof(line),
				      "<4>line %d, and text to fill a pipe\n", i);

		require(ob_sys_write((unsigned int)fd, line, (size_t)length) == length, "write");
	}
	ob_sys_close((unsigned int)fd);
}

/* All that is there. A stream that ends nowhere is not waited for. */
static char *read_all(int fd)
{
	size_t size = 0, room = 16 << 20;
	char *text = calloc(1, room + 1);
	ssize_t got;

	require(text != NULL, "memory");
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while ((got = read(fd, text + size, room - size)) > 0)
		size += (size_t)got;
	return text;
}

/* Each line of the log is there, or was counted. */
static void check_text(char *text)
{
	unsigned long lines = 0, lost = 0, count;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		lines += strstr(line, "and text to fill a pipe") != NULL;
		if (sscanf(line, "outboard: %lu lines of the log were lost", &count) == 1)
			lost += count;
	}
	dprintf(report, "%lu lines, %lu lost\n", lines, lost);
	require(lost > 0 && lines > 0, "lines were written, and lost");
	/* Lines of Linux's own come, too: of the boot, of the halt. */
	require(lines + lost >= LINES && lines + lost < LINES + 200, "each line was counted");
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .memory = 64 << 20, .vcpus = 1, .log_level = 6,
		.command_line = "printk.devkmsg=on",
	};
	int ends[2];
	char *text;

	CHECK_EQUAL(count, 2);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGTTOU, SIG_IGN);
	alarm(PATIENCE);
	make_ends(arguments[1], ends);
	report = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 20);
	require(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && !close(ends[1]), "dup2");
	if (!strcmp(arguments[1], "gone"))
		close(ends[0]);
	require(!ob_boot(&config), "ob_boot");
	write_log();
	/* A terminal passes text on when it likes. */
	if (!strcmp(arguments[1], "gone") || !strcmp(arguments[1], "terminal")) {
		require(!ob_halt(), "ob_halt");
		return 0;
	}
	/* Now there is room again, for the number too. */
	text = read_all(ends[0]);
	require(!ob_halt(), "ob_halt");
	check_text(strcat(text, read_all(ends[0])));
	return 0;
}
