// SPDX-License-Identifier: GPL-2.0-only
/*
 * /etc/resolv.conf of a kernel: the name servers of its interfaces, the newest interface's first.
 * Programs that resolve names inside read it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "instance.h"
#include "net_interface.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define NEW_RESOLV_CONF "/etc/.resolv.conf.outboard"

struct text {
	char *bytes;
	size_t length;
};

static int append_servers(struct text *text, const struct ob_net_servers *servers)
{
	char address[OB_NET_ADDRESS_TEXT];

	for (int i = 0; i < servers->count; i++) {
		size_t room = sizeof("nameserver \n") + OB_NET_ADDRESS_TEXT;
		char *bytes = realloc(text->bytes, text->length + room);

		if (!bytes)
			return -ENOMEM;
		text->bytes = bytes;
		text->length += (size_t)sprintf(bytes + text->length, "nameserver %s\n",
						ob_net_address_text(&servers->list[i], false,
								    address));
	}
	return 0;
}

static int write_file(struct ob_instance *instance, const struct text *text)
{
	long fd = ob_syscall_on(instance, SYS_openat, (long)AT_FDCWD, NEW_RESOLV_CONF,
				(long)(O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC), 0644L);
	long written, closed;

	if (fd < 0)
		return (int)fd;
	written = ob_syscall_on(instance, SYS_write, fd, text->bytes, (long)text->length);
	closed = ob_syscall_on(instance, SYS_close, fd);
	if (written < 0 || closed < 0)
		return (int)(written < 0 ? written : closed);
	return written == (long)text->length ? 0 : -ENOSPC;
}

/* In one step: a reader finds the old servers or the new ones. */
static int replace(struct ob_instance *instance, const struct text *text)
{
	int error = (int)ob_syscall_on(instance, SYS_mkdir, "/etc", 0755L);

	if (error && error != -EEXIST)
		return error;
	error = write_file(instance, text);
	if (!error)
		error = (int)ob_syscall_on(instance, SYS_rename, NEW_RESOLV_CONF, RESOLV_CONF);
	if (error)
		ob_syscall_on(instance, SYS_unlink, NEW_RESOLV_CONF);
	return error;
}

int ob_resolver_write(struct ob_instance *instance)
{
	struct text text = { NULL, 0 };
	int error = 0;

	for (struct ob_net_interface *each = instance->net.interfaces; each && !error;
	     each = each->next) {
		error = append_servers(&text, &each->servers);
		if (!error)
			error = append_servers(&text, &each->leased);
	}
	if (!error && text.length)
		error = replace(instance, &text);
	else if (!error)
		ob_syscall_on(instance, SYS_unlink, RESOLV_CONF);
	free(text.bytes);
	return error;
}
