// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boots a kernel, mounts a file system in memory at /shared, and serves both to other processes at
 * a URL, until SIGINT or SIGTERM: serve unix:/tmp/kernel
 *
 *     cc serve.c $(pkg-config --cflags --libs outboard-server)
 */
#include <signal.h>
#include <stdio.h>

#include <outboard/outboard.h>
#include <outboard/server.h>
#include <outboard/syscalls.h>

int main(int argc, char **argv)
{
	sigset_t ends;
	int ended_by;

	if (argc != 2)
		return fprintf(stderr, "usage: serve URL\n"), 2;
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	if (ob_boot(NULL))
		return fprintf(stderr, "%s\n", ob_boot_error()), 1;
	if (ob_sys_mkdir("/shared", 0777) || ob_sys_mount("none", "/shared", "tmpfs", 0, NULL))
		return perror("/shared"), 1;
	if (ob_serve(argv[1], NULL) < 0)
		return fprintf(stderr, "%s\n", ob_serve_error()), 1;
	puts("ready");
	fflush(stdout);
	/* The program could use its kernel as well. */
	sigwait(&ends, &ended_by);
	return ob_halt() ? 1 : 0;
}
