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
#include <sys/stat.h>
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

/* False: there is no such file. */
static bool identify(struct ob_instance *instance, const char *path, struct ob_net_file *file)
{
	struct stat status;
	long error = ob_syscall_on(instance, SYS_newfstatat, (long)AT_FDCWD, path, &status,
				   (long)AT_SYMLINK_NOFOLLOW);

	if (error)
		return false;
	*file = (struct ob_net_file){
		.device = status.st_dev, .inode = status.st_ino,
		.seconds = status.st_mtim.tv_sec,
		.nanoseconds = (uint64_t)status.st_mtim.tv_nsec,
	};
	return true;
}

/* The name may be a program's file or link: that is never written to. */
static int write_file(struct ob_instance *instance, const struct text *text)
{
	long fd, written, closed;

	ob_syscall_on(instance, SYS_unlink, NEW_RESOLV_CONF);
	fd = ob_syscall_on(instance, SYS_openat, (long)AT_FDCWD, NEW_RESOLV_CONF,
			   (long)(O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC), 0644L);
	if (fd < 0)
		return (int)fd;
	written = ob_syscall_on(instance, SYS_write, fd, text->bytes, (long)text->length);
	closed = ob_syscall_on(instance, SYS_close, fd);
	if (written == (long)text->length && !closed)
		return 0;
	ob_syscall_on(instance, SYS_unlink, NEW_RESOLV_CONF);
	return written < 0 ? (int)written : closed < 0 ? (int)closed : -ENOSPC;
}

/* In one step: a reader finds the old servers or the new ones. */
static int replace(struct ob_instance *instance, const struct text *text)
{
	int error = (int)ob_syscall_on(instance, SYS_mkdir, "/etc", 0755L);

	if (error && error != -EEXIST)
		return error;
	error = write_file(instance, text);
	if (error)
		return error;
	error = (int)ob_syscall_on(instance, SYS_rename, NEW_RESOLV_CONF, RESOLV_CONF);
	if (error)
		ob_syscall_on(instance, SYS_unlink, NEW_RESOLV_CONF);
	else if (!identify(instance, RESOLV_CONF, &instance->net.servers))
		instance->net.servers = (struct ob_net_file){ 0 };
	return error;
}

/* A program's own file stays, as that of an image to whose root the program has changed. */
static void remove_file(struct ob_instance *instance)
{
	const struct ob_net_file *ours = &instance->net.servers;
	struct ob_net_file found;

	if (identify(instance, RESOLV_CONF, &found) && found.device == ours->device &&
	    found.inode == ours->inode && found.seconds == ours->seconds &&
	    found.nanoseconds == ours->nanoseconds)
		ob_syscall_on(instance, SYS_unlink, RESOLV_CONF);
}

int ob_resolver_write(struct ob_instance *instance)
{
	struct text text = { NULL, 0 };
	int error = 0;

	for (struct ob_net_interface *each = instance->net.interfaces; each && !error;
	     each = each->next) {
		error = append_servers(&text, &each->servers);
		for (int kind = 0; kind < OB_LEASE_KINDS && !error; kind++)
			error = append_servers(&text, &each->leased[kind]);
	}
	if (!error && text.length)
		error = replace(instance, &text);
	else if (!error)
		remove_file(instance);
	free(text.bytes);
	return error;
}
