// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client of a server that is killed and started again, all the time: remote_restart_test KIND
 * POLICY, with OUTBOARD_SERVER in the environment. After each lost connection it goes on by its
 * policy, and prints a line when a call works again. A call that is under way then fails, and
 * nothing hangs.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/client_calls.h>

#include "check.h"

#define THREADS 3
#define SECONDS 600
#define PAUSE 5000	/* microseconds between two attempts */

enum { GETPID = 39, PAUSE_CALL = 34, WAIT4 = 61 };

static char **words;
static int policy;

/* Each use ends when the connection is lost. */
static void use_call(void)
{
	CHECK(ob_client_syscall(PAUSE_CALL) == -ENOTCONN);
}

static void *call_until_lost(void *unused)
{
	long own = ob_client_syscall(GETPID);

	while (own > 0 && ob_client_syscall(GETPID) == own)
		;
	return unused;
}

static void use_busy(void)
{
	call_until_lost(NULL);
}

static void use_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, call_until_lost, NULL) == 0);
	use_call();
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

static void use_fork(void)
{
	int child, status;
	pid_t host;

	while ((child = ob_client_fork(&host)) >= 0) {
		if (!child) {
			ob_client_set_reconnect(OB_CLIENT_NEVER, 0);
			ob_client_syscall(GETPID);
			exit(0);
		}
		CHECK(waitpid(host, &status, 0) == host);
		CHECK(WIFEXITED(status));
		if (ob_client_syscall(WAIT4, child, &status, 0L, NULL) != child)
			return;
	}
}

/* The next program goes on here, in main(). */
static void use_exec(void)
{
	char *again[] = { words[0], words[1], words[2], (char *)"same", NULL };

	CHECK(ob_client_execve(words[0], again, environ) == -ENOTCONN);
}

/* A new process at a time, until there is no server. */
static void use_connect(void)
{
	do
		ob_client_disconnect();
	while (!ob_client_connect(getenv("OUTBOARD_SERVER")) && ob_client_syscall(GETPID) > 0);
}

static void use_exit(void)
{
	int status;
	pid_t host;

	do {
		host = fork();
		CHECK(host >= 0);
		if (!host) {
			if (ob_client_connect(NULL))
				_exit(9);
			exit(ob_client_syscall(GETPID) > 0 ? 7 : 9);
		}
		CHECK(waitpid(host, &status, 0) == host && WIFEXITED(status));
		CHECK(WEXITSTATUS(status) == 7 || WEXITSTATUS(status) == 9);
	} while (WEXITSTATUS(status) == 7 && ob_client_syscall(GETPID) > 0);
}

static const struct kind {
	const char *name;
	void (*use)(void);
} kinds[] = {
	{ "call", use_call }, { "busy", use_busy }, { "threads", use_threads },
	{ "fork", use_fork }, { "exec", use_exec }, { "connect", use_connect },
	{ "exit", use_exit },
};

static const char *const policies[] = { "never", "seconds", "forever", "die" };

static void connect_again(void)
{
	while (ob_client_connect(getenv("OUTBOARD_SERVER")))
		usleep(PAUSE);
	CHECK(ob_client_set_reconnect(policy, SECONDS) == 0);
}

/* A call works afterwards, unless the server was killed once more. */
static void go_on(void)
{
	if (policy == OB_CLIENT_NEVER) {
		CHECK(ob_client_syscall(GETPID) == -ENOTCONN);
		connect_again();
	}
	while (ob_client_syscall(GETPID) < 0)
		if (policy == OB_CLIENT_NEVER)
			connect_again();
}

static void report(void)
{
	puts("again");
	fflush(stdout);
}

static void use_forever(const struct kind *kind)
{
	for (;;) {
		kind->use();
		go_on();
		report();
	}
}

/* By the child: it ends with its server. */
static void use_until_death(const struct kind *kind)
{
	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	connect_again();
	if (ob_client_syscall(GETPID) > 0)
		report();
	kind->use();
	ob_client_syscall(GETPID);
	CHECK(0);
}

static void die_forever(const struct kind *kind)
{
	int status;

	for (;;) {
		pid_t host = fork();

		CHECK(host >= 0);
		if (!host)
			use_until_death(kind);
		CHECK(waitpid(host, &status, 0) == host);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	}
}

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	exit(2);
}

int main(int count, char **given)
{
	const struct kind *kind;
	bool is_same = count == 4 && !ob_client_connect(NULL);

	words = given;
	CHECK(count >= 3);
	kind = find_kind(words[1]);
	while (policy < OB_CLIENT_DIE && strcmp(policies[policy], words[2]))
		policy++;
	if (policy == OB_CLIENT_DIE && count == 3)
		die_forever(kind);
	if (is_same)
		CHECK(ob_client_set_reconnect(policy, SECONDS) == 0);
	else
		connect_again();
	if (!is_same)
		report();
	use_forever(kind);
}
