// SPDX-License-Identifier: GPL-2.0-only
/*
 * The note beside a snapshot that its checksum was right.
 *
 * To read a whole file for its checksum takes longer than everything else. So the result is noted
 * in a file beside it. The note holds for this version of the file only (its inode number and the
 * time of its last change), and until the host boots again.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "raw.h"
#include "snapshot.h"

/* A file that changes twice within this time may show one time for both. */
#define CLOCK_TICK_SECONDS 2

bool ob_snapshot_make_note(struct ob_snapshot_note *note, const struct stat *status)
{
	int fd = raw_open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return false;
	*note = (struct ob_snapshot_note){
		.device = status->st_dev,
		.number = status->st_ino,
		.size = (uint64_t)status->st_size,
		.seconds = (uint64_t)status->st_ctim.tv_sec,
		.nanoseconds = (uint64_t)status->st_ctim.tv_nsec,
	};
	length = raw_read(fd, note->host, sizeof(note->host));
	raw_close(fd);
	return length > 0;
}

static void note_name(struct ob_host *host, char name[96])
{
	snprintf(name, 96, "%s.checked", host->snapshot.name);
}

bool ob_snapshot_is_noted(struct ob_host *host, const struct ob_snapshot_note *note)
{
	struct ob_snapshot_note found;
	struct stat status;
	bool same;
	char name[96];
	int fd;

	note_name(host, name);
	fd = raw_openat(host->snapshot.directory, name,
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0)
		return false;
	same = !fstat(fd, &status) && ob_snapshot_is_own(&status) &&
	       raw_read(fd, &found, sizeof(found)) == sizeof(found) &&
	       !memcmp(&found, note, sizeof(found));
	raw_close(fd);
	return same;
}

/* If this fails, the next start computes the checksum again. */
void ob_snapshot_write_note(struct ob_host *host, const struct ob_snapshot_note *note)
{
	char name[96];
	int fd;

	if ((uint64_t)time(NULL) < note->seconds + CLOCK_TICK_SECONDS)
		return;
	note_name(host, name);
	unlinkat(host->snapshot.directory, name, 0);
	fd = raw_openat(host->snapshot.directory, name,
			O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	if (raw_write(fd, note, sizeof(*note)) != sizeof(*note))
		unlinkat(host->snapshot.directory, name, 0);
	raw_close(fd);
}
