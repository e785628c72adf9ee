// SPDX-License-Identifier: GPL-2.0-only
/*
 * Offers a hub to front-ends of vhost-user: net_serve_test HUB SOCKET
 *
 * Prints "ready" or the error, then the lines of the log, until standard input ends. At each "f" of
 * the input it forks, checks that the child has none of the server's descriptors, and prints
 * "forked".
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/net.h>

#include "check.h"
#include "entries.h"

static void say(void *context, const char *line)
{
	CHECK(context == say);
	printf("%s\n", line);
	fflush(stdout);
}

static int descriptors(void)
{
	return (int)count_entries("/proc/self/fd");
}

static void check_fork(int before)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child)
		_exit(descriptors() != before);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	say(say, "forked");
}

int main(int count, char *words[])
{
	struct ob_net_server *server;
	int before = descriptors();
	char byte;

	CHECK(count >= 3);
	if (ob_net_server_new(words[1], words[2], say, say, &server) ||
	    ob_net_server_start(server, -1)) {
		printf("%s\n", ob_net_error());
		return 1;
	}
	say(say, "ready");
	while (read(0, &byte, 1) > 0)
		if (byte == 'f')
			check_fork(before);
	CHECK(descriptors() >= before);
	ob_net_server_free(server);
	CHECK_EQUAL(descriptors(), before);
	CHECK(access(words[2], F_OK));
	say(say, "ended");
	return 0;
}
