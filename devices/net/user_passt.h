/* SPDX-License-Identifier: GPL-2.0-only */
/* The passt process: what user_passt.c asks of user_passt_child.c. */
#ifndef OUTBOARD_DEVICES_NET_USER_PASST_H
#define OUTBOARD_DEVICES_NET_USER_PASST_H

#include <sys/types.h>

#include "user.h"

struct ob_passt_child {
	struct ob_host *host;
	pid_t pid;
	int socket;		/* a stream: frames, each behind its length in 4 bytes */
	int messages;		/* a pipe: what passt writes to its standard error */
};

/*
 * Starts passt, and waits until passt answers. -ENOENT: passt is not installed, and `error` is not
 * written.
 */
int ob_passt_child_start(struct ob_host *host, const struct ob_user_options *options,
			 struct ob_passt_child *child, char *error, size_t error_size);

/*
 * Reads lines that passt has written. Returns the length of the text, lines separated by "; ", or
 * 0: there is nothing to read.
 */
size_t ob_passt_child_read_messages(struct ob_passt_child *child, char *text, size_t size);

/*
 * Closes the connection, which ends passt, and waits for the end; after a second with SIGKILL. The
 * descriptors stay. Returns the status as wait() has it, or -1: the program has waited for passt.
 */
int ob_passt_child_end(struct ob_passt_child *child);

void ob_passt_child_close_descriptors(struct ob_passt_child *child);

#endif
