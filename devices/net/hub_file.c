// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hub: the file. It is read and written, never mapped, so a file that somebody truncates or
 * overwrites cannot fault.
 *
 * Locks are of single bytes beyond the end, by open file description. A port that is in use holds
 * the lock PORT_LOCK + port; the host releases it when the process ends. Ports that join hold
 * JOIN_LOCK for a short time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "raw.h"
#include "hub.h"

#define JOIN_LOCK (1ll << 32)
#define PORT_LOCK (JOIN_LOCK + 1)

/* Somebody who holds JOIN_LOCK for longer is stopped. */
#define JOIN_MILLISECONDS 2000

int ob_hub_fail(const struct ob_hub_error *error, int result, const char *format, ...)
{
	int length = snprintf(error->text, error->size, "cannot join hub %s: ", error->path);
	va_list arguments;

	if (length < 0 || (size_t)length >= error->size)
		return result;
	va_start(arguments, format);
	vsnprintf(error->text + length, error->size - (size_t)length, format, arguments);
	va_end(arguments);
	return result;
}

/* ---- locks ------------------------------------------------------------------- */

static int lock_byte(int fd, int command, short type, long long byte, struct flock *lock)
{
	*lock = (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1,
	};
	return raw_fcntl(fd, command, (long)lock) ? -errno : 0;
}

static int try_lock(int fd, long long byte)
{
	struct flock lock;

	return lock_byte(fd, F_OFD_SETLK, F_WRLCK, byte, &lock);
}

static void unlock(int fd, long long byte)
{
	struct flock lock;

	lock_byte(fd, F_OFD_SETLK, F_UNLCK, byte, &lock);
}

bool ob_hub_file_is_alive(const struct ob_hub *hub, unsigned int port)
{
	struct flock lock;

	return !lock_byte(hub->file, F_OFD_GETLK, F_WRLCK, PORT_LOCK + port, &lock) &&
	       lock.l_type != F_UNLCK;
}

static int lock_to_join(struct ob_hub *hub, const struct ob_hub_error *error)
{
	int result = -EAGAIN;

	for (int i = 0; i < JOIN_MILLISECONDS; i++) {
		struct timespec pause = { .tv_nsec = 1000000 };

		result = try_lock(hub->file, JOIN_LOCK);
		if (result != -EAGAIN && result != -EACCES)
			break;
		syscall(SYS_nanosleep, &pause, NULL);
	}
	if (!result)
		return 0;
	if (result == -EAGAIN || result == -EACCES)
		return ob_hub_fail(error, -EBUSY, "a process that was joining holds the lock of "
				   "the file for %d seconds; end that process",
				   JOIN_MILLISECONDS / 1000);
	return ob_hub_fail(error, result, "its file system has no locks (%s); use another path",
			   strerror(-result));
}

static int take_port(struct ob_hub *hub, const struct ob_hub_error *error)
{
	for (hub->port = 0; hub->port < OB_HUB_PORTS; hub->port++)
		if (!try_lock(hub->file, PORT_LOCK + hub->port))
			return 0;
	return ob_hub_fail(error, -EUSERS, "all of its %d ports are in use; use another hub, and "
			   "join both by a bridge", OB_HUB_PORTS);
}

/* ---- contents ---------------------------------------------------------------- */

static int open_file(struct ob_hub *hub, const struct ob_hub_error *error)
{
	struct stat status;
	int fd;

	if (!*error->path)
		return ob_hub_fail(error, -EINVAL, "it has no path; write hub:/PATH");
	fd = ob_hub_open_file(hub, error->path);
	if (fd < 0)
		return ob_hub_fail(error, fd, "the host refuses to open or create the file (%s)",
				   strerror(-fd));
	hub->file = fd;
	if (fstat(hub->file, &status) || !S_ISREG(status.st_mode))
		return ob_hub_fail(error, -EINVAL, "it is no regular file; use another path");
	return 0;
}

static int create_header(struct ob_hub *hub, uint32_t mtu, const struct ob_hub_error *error)
{
	struct ob_hub_file file = {
		.header = { .magic = OB_HUB_MAGIC, .version = OB_HUB_VERSION, .mtu = mtu },
	};

	if (raw_pwrite(hub->file, &file, sizeof(file), 0) == sizeof(file))
		return 0;
	return ob_hub_fail(error, -EIO, "the host cannot write the file; make room, or use "
			   "another path");
}

static int check_header(struct ob_hub *hub, const struct ob_hub_error *error)
{
	struct ob_hub_file file = { 0 };
	ssize_t size = raw_pread(hub->file, &file, sizeof(file), 0);

	if (size < (ssize_t)sizeof(OB_HUB_MAGIC) ||
	    memcmp(file.header.magic, OB_HUB_MAGIC, sizeof(OB_HUB_MAGIC)))
		return ob_hub_fail(error, -EINVAL, "it is no file of a hub; use another path");
	if (size < (ssize_t)sizeof(file.header))
		return ob_hub_fail(error, -EINVAL, "the file is truncated; remove it");
	if (file.header.version != OB_HUB_VERSION)
		return ob_hub_fail(error, -EPROTO, "it has version %u, and this program knows "
				   "version %u; remove the file when nobody uses it",
				   file.header.version, OB_HUB_VERSION);
	if (size < (ssize_t)sizeof(file))
		return ob_hub_fail(error, -EINVAL, "the file is truncated; remove it");
	if (!hub->backend.mtu && file.header.mtu <= OB_HUB_MTU_MOST)
		hub->backend.mtu = file.header.mtu;
	return 0;
}

int ob_hub_file_open(struct ob_hub *hub, uint32_t mtu, const struct ob_hub_error *error)
{
	struct stat status;
	int result = open_file(hub, error);

	if (!result)
		result = lock_to_join(hub, error);
	if (result)
		return result;
	hub->backend.mtu = mtu;
	if (!fstat(hub->file, &status) && status.st_size == 0)
		result = create_header(hub, mtu, error);
	else
		result = check_header(hub, error);
	if (!result)
		result = take_port(hub, error);
	unlock(hub->file, JOIN_LOCK);
	return result;
}

/* ---- entries ----------------------------------------------------------------- */

static off_t place(const struct ob_hub *hub)
{
	return (off_t)(offsetof(struct ob_hub_file, entries) + hub->port * sizeof(hub->entry));
}

static int write_entry(const struct ob_hub *hub, const struct ob_hub_entry *entry)
{
	ssize_t size = raw_pwrite(hub->file, entry, sizeof(*entry), place(hub));

	return size == sizeof(*entry) ? 0 : -EIO;
}

int ob_hub_file_publish(const struct ob_hub *hub)
{
	return write_entry(hub, &hub->entry);
}

void ob_hub_file_leave(struct ob_hub *hub)
{
	static const struct ob_hub_entry none;

	write_entry(hub, &none);
	/* A fork()ed child may have a copy of the descriptor, which would keep the lock. */
	unlock(hub->file, PORT_LOCK + hub->port);
	ob_fork_owner_drop(&hub->file);
}

void ob_hub_file_entries(const struct ob_hub *hub, struct ob_hub_entry entries[OB_HUB_PORTS])
{
	memset(entries, 0, OB_HUB_PORTS * sizeof(*entries));
	/* A file that was truncated, or cannot be read, has fewer. */
	(void)!raw_pread(hub->file, entries, OB_HUB_PORTS * sizeof(*entries),
			 offsetof(struct ob_hub_file, entries));
}
