// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hub: opens the files of a port: the hub's own file, and the memory of other ports.
 *
 * A port in a sandbox cannot open files. Then a process outside, the opener, opens them for the
 * port. Each has one end of a pair of connected stream sockets:
 *
 *   the port sends	struct request
 *   the opener sends	int32_t: 0 with a descriptor, or the error -errno without one
 *
 * Invariants:
 *  O1	A process sends its next request after the answer to the last one.
 *  O2	The opener trusts no request: an attacker may have taken over the process that sent it. It
 *	opens the file of one hub, and sealed files in memory that have the size of a port's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "raw.h"
#include "hub.h"
#include "pass_descriptor.h"

enum { HUB_FILE, MEMORY, BELL };

struct request {
	uint32_t file;		/* HUB_FILE, MEMORY or BELL */
	/* Of memory: the process that has it, and that process's descriptor. */
	int32_t process;
	int32_t number;
};

static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;	/* O1 */

/* ---- in the process that has the rights --------------------------------------- */

static int open_hub(const char *path)
{
	int fd = raw_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
			    0600);

	return fd < 0 ? -errno : fd;
}

/* The size is read after the seals: it can change no more. */
static int check_seals(int fd, size_t size)
{
	int seals = raw_fcntl(fd, F_GET_SEALS, 0);
	struct stat status;

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return -EINVAL;
	return fstat(fd, &status) || (size_t)status.st_size != size ? -EINVAL : 0;
}

/*
 * Opens a descriptor of another process again. The request may name any file, and to open a device
 * may have effects. So the first descriptor is one that only names the file.
 */
static int open_remote(const struct request *request, int mode, size_t size)
{
	char path[64];
	struct stat status;
	int name, fd = -1, error = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", request->process, request->number);
	name = raw_open(path, O_PATH | O_CLOEXEC);
	if (name < 0)
		return -errno;
	if (fstat(name, &status) || !S_ISREG(status.st_mode) || (size_t)status.st_size != size)
		error = -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", name);
	if (!error) {
		fd = raw_open(path, mode | O_CLOEXEC | O_NONBLOCK);
		error = fd < 0 ? -errno : check_seals(fd, size);
	}
	raw_close(name);
	if (error && fd >= 0)
		raw_close(fd);
	return error ? error : fd;
}

/* `path`: of the hub. A descriptor, or -errno. */
static int open_here(const char *path, const struct request *request)
{
	switch (request->file) {
	case HUB_FILE:
		return open_hub(path);
	case MEMORY:
		return open_remote(request, O_RDONLY, OB_HUB_MEMORY_BYTES);
	case BELL:
		return open_remote(request, O_RDWR, OB_HUB_BELL_BYTES);
	default:
		return -EINVAL;
	}
}

/* `result`: a descriptor, or -errno. False: the other process does not receive. */
static bool send_answer(int socket, int result)
{
	union ob_descriptor_control control = { { 0 } };
	int32_t error = result < 0 ? result : 0;
	struct iovec piece = { &error, sizeof(error) };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (result >= 0)
		ob_pass_descriptor(&message, &control, result);
	return raw_sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof(error);
}

void ob_hub_open_for(const char *path, int socket)
{
	bool is_received = true;

	while (is_received) {
		struct request request;
		ssize_t got = raw_recv(socket, &request, sizeof(request), MSG_WAITALL);
		int fd;

		if (got < 0 && errno == EINTR)
			continue;
		if (got != sizeof(request))
			return;
		fd = open_here(path, &request);
		is_received = send_answer(socket, fd);
		if (fd >= 0)
			raw_close(fd);
	}
}

/* ---- in the process of the port ------------------------------------------------ */

/* A descriptor, or -errno. A descriptor that comes with anything else is closed. */
static int receive_answer(int opener)
{
	union ob_descriptor_control control;
	int32_t error;
	struct iovec piece = { &error, sizeof(error) };
	struct cmsghdr *part;
	int fd = -1;
	ssize_t got;

	do {
		struct msghdr message = {
			.msg_iov = &piece, .msg_iovlen = 1,
			.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
		};

		got = raw_recvmsg(opener, &message, MSG_WAITALL);
		part = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
	} while (got < 0 && errno == EINTR);
	if (part)
		memcpy(&fd, CMSG_DATA(part), sizeof(fd));
	if (got == sizeof(error) && !error && fd >= 0)
		return fd;
	if (fd >= 0)
		raw_close(fd);
	if (got != sizeof(error))
		return -EPIPE;
	return error < 0 ? error : -EPROTO;
}

/* O1. A descriptor, or -errno. */
static int ask(int opener, const struct request *request)
{
	int result = -EPIPE;

	pthread_mutex_lock(&asking);
	if (raw_send(opener, request, sizeof(*request), MSG_NOSIGNAL) == sizeof(*request))
		result = receive_answer(opener);
	pthread_mutex_unlock(&asking);
	return result;
}

static int open_for_port(const struct ob_hub *hub, const char *path, const struct request *request)
{
	return hub->opener >= 0 ? ask(hub->opener, request) : open_here(path, request);
}

int ob_hub_open_file(const struct ob_hub *hub, const char *path)
{
	return open_for_port(hub, path, &(struct request){ .file = HUB_FILE });
}

int ob_hub_open_memory(const struct ob_hub *hub, const struct ob_hub_entry *entry)
{
	return open_for_port(hub, NULL, &(struct request){ MEMORY, entry->process, entry->memory });
}

int ob_hub_open_bell(const struct ob_hub *hub, const struct ob_hub_entry *entry)
{
	return open_for_port(hub, NULL, &(struct request){ BELL, entry->process, entry->bell });
}
