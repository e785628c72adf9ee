// SPDX-License-Identifier: GPL-2.0-only
/* Boots the default kernel for the first socket, and adds the interfaces of OUTBOARD_NET. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <outboard/net.h>
#include <outboard/outboard.h>
#include <outboard/syscalls.h>

#include "local.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int start_error;

/* The program knows nothing of this library, so the user reads the reason on standard error. */
static int complain(int error, const char *reason)
{
	fprintf(stderr, "outboard: %s\n", reason);
	return error;
}

/* Adds the interface that `text` begins with. Sets *text behind it. A backslash hides a space. */
static int add_one(const char **text)
{
	const char *end = *text;
	char *description;
	int result;

	while (*end && *end != ' ')
		end += end[0] == '\\' && end[1] ? 2 : 1;
	description = strndup(*text, (size_t)(end - *text));
	if (!description)
		return complain(-ENOMEM, strerror(ENOMEM));
	result = ob_net_add(description, NULL);
	free(description);
	*text = end;
	return result < 0 ? complain(result, ob_net_error()) : 0;
}

static int add_interfaces(const char *text)
{
	int error = 0;

	for (text += strspn(text, " "); *text && !error; text += strspn(text, " "))
		error = add_one(&text);
	return error;
}

/*
 * Each socket has a descriptor of the host as well, so that the host's limit holds. Linux's own, of
 * 1,024, would be a second one, which the program does not know.
 */
static int allow_descriptors(void)
{
	struct rlimit limit = { .rlim_cur = OB_LOCAL_MOST, .rlim_max = OB_LOCAL_MOST };

	return ob_sys_setrlimit(RLIMIT_NOFILE, (void *)&limit) ? -errno : 0;
}

/* The back-end of such an interface maps the kernel's memory. */
static bool needs_shared_memory(const char *interfaces)
{
	static const char kind[] = "vhost-user:";
	const char *found = interfaces ? strstr(interfaces, kind) : NULL;

	while (found && found > interfaces && found[-1] != ' ')
		found = strstr(found + 1, kind);
	return found;
}

static int boot(void)
{
	const char *interfaces = getenv("OUTBOARD_NET");
	struct ob_config config = {
		.size = sizeof(config),
		.log_level = OB_LOG_DEFAULT,
		.flags = needs_shared_memory(interfaces) ? OB_SHARED_MEMORY : 0,
	};
	int error;

	/* The program itself has booted it, and configures it. */
	if (ob_sys_getpid() > 0)
		return 0;
	error = ob_boot(&config);
	if (error)
		return complain(error, ob_boot_error());
	error = allow_descriptors();
	if (error)
		return complain(error, "the kernel does not raise its limit of open files");
	if (interfaces)
		error = add_interfaces(interfaces);
	if (!error && ob_net_configure("lo", "up"))
		error = complain(-EIO, ob_net_error());
	if (!error)
		atexit(ob_local_drain);
	return error;
}

static void start(void)
{
	start_error = boot();
}

int ob_local_start(void)
{
	int before = errno;

	pthread_once(&once, start);
	errno = start_error ? -start_error : before;
	return start_error ? -1 : 0;
}
