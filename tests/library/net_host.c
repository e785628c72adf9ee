// SPDX-License-Identifier: GPL-2.0-only
/* See net_host.h. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "internal.h"
#include "net_host.h"

FILE *net_host_output;

void net_host_print(const char *format, ...)
{
	FILE *output = net_host_output ? net_host_output : stderr;
	va_list arguments;

	va_start(arguments, format);
	vfprintf(output, format, arguments);
	va_end(arguments);
	fflush(output);
}

void ob_host_console_write(struct ob_host *host, int level, const char *line, uint64_t length)
{
	(void)host;
	CHECK(level >= 0 && level < 8 && !memchr(line, '\n', length));
	net_host_print("log %.*s\n", (int)length, line);
}

struct start {
	void (*function)(void *);
	void *argument;
	char name[16];
};

static void *run(void *pointer)
{
	struct start start = *(struct start *)pointer;
	sigset_t blocked;

	free(pointer);
	/* As on the platform: a broken pipe ends no program. */
	sigfillset(&blocked);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	pthread_setname_np(pthread_self(), start.name);
	start.function(start.argument);
	return NULL;
}

int ob_host_thread_create(struct ob_host *host, void (*function)(void *), void *argument,
			  const char *name, uint64_t *thread)
{
	struct start *start = calloc(1, sizeof(*start));
	pthread_t new;

	(void)host;
	CHECK(start && strlen(name) < sizeof(start->name));
	start->function = function;
	start->argument = argument;
	strcpy(start->name, name);
	CHECK_EQUAL(pthread_create(&new, NULL, run, start), 0);
	*thread = (uint64_t)new;
	return 0;
}

void ob_host_thread_join(struct ob_host *host, uint64_t thread)
{
	(void)host;
	CHECK_EQUAL(pthread_join((pthread_t)thread, NULL), 0);
}

void ob_host_wait(struct ob_host *host, const uint32_t *word, uint32_t value, uint64_t timeout)
{
	struct timespec relative = { (time_t)(timeout / 1000000000u),
				     (long)(timeout % 1000000000u) };

	(void)host;
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value,
		timeout == OB_FOREVER ? NULL : &relative, NULL, 0);
}

uint32_t ob_host_wake(struct ob_host *host, const uint32_t *word, uint32_t count)
{
	(void)host;
	return (uint32_t)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
