/* SPDX-License-Identifier: GPL-2.0-only */
/* A descriptor that goes with a message on a UNIX socket. */
#ifndef OUTBOARD_DEVICES_NET_PASS_DESCRIPTOR_H
#define OUTBOARD_DEVICES_NET_PASS_DESCRIPTOR_H

#include <string.h>
#include <sys/socket.h>

/* Room for the control message that carries a descriptor. */
union ob_descriptor_control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr alignment;
};

/* `control` is all zeroes, and lives until the message is sent. */
static inline void ob_pass_descriptor(struct msghdr *message, union ob_descriptor_control *control,
				      int fd)
{
	struct cmsghdr *part;

	message->msg_control = control->bytes;
	message->msg_controllen = sizeof(control->bytes);
	part = CMSG_FIRSTHDR(message);
	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(part), &fd, sizeof(fd));
}

#endif
