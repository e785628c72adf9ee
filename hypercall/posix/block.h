/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The layers of the block driver's host side:
 *
 *   block.c		the hypercalls: the table of disks, and which request goes where
 *   block_queue.c	worker threads for requests that may block, and the completed list
 *   block_io.c		carries out one request on one disk
 *   block_open.c	opens and measures what a path names
 *   block_lock.c	locks it, also against other disks of this process
 *   block_served.c	disks that the program serves, on their way from lib/ to the table
 *
 * A layer that observes or disturbs requests belongs between block_queue.c and
 * block_io.c: everything passes through ob_posix_disk_try and ob_posix_disk_perform.
 */
#ifndef OUTBOARD_POSIX_BLOCK_H
#define OUTBOARD_POSIX_BLOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "internal.h"

struct ob_posix_disk_lock;

struct ob_posix_disk {
	bool in_use;			/* else this number is free */
	/*
	 * A disk that the program serves: `perform` is set, and below only the size and the flags.
	 */
	struct ob_platform_served_disk served;
	int fd;				/* -1 for a disk that the program serves */
	uint64_t size;			/* bytes, as it was on opening */
	uint32_t sector_size;
	bool read_only;
	bool is_device;
	bool can_discard;
	struct ob_posix_disk_lock *lock;	/* NULL: the file is not locked */
	int write_flags;		/* RWF_* of each write */
	bool checks_append;		/* O_APPEND could be set, and would misplace writes */
	/* Features that the host turned out to lack. Any thread sets them, once. */
	bool no_nowait[2];		/* RWF_NOWAIT, by direction: 0 read, 1 write */
	bool no_dsync;			/* RWF_DSYNC */
	uint64_t written;		/* bytes in the host's cache; atomic */
	uint64_t changes;		/* requests that a flush must make durable; atomic */
	uint64_t durable;		/* how many of them are durable; atomic */
	/* block_io.c: */
	int lost;			/* first error of a flush: 0 or -errno; atomic */
	pthread_rwlock_t reporters;	/* shared by calls that may get such an error */
};

/* block_open.c: fills in all of *disk but `reporters`. Blocks. Errors as ob_host_block_open. */
int ob_posix_disk_open(struct ob_posix_disk *disk, const char *path, uint32_t flags);
void ob_posix_disk_close(struct ob_posix_disk *disk);

/*
 * block_lock.c: locks the file of an open disk. -EBUSY: another program uses it, or another disk of
 * this process. The second function unlocks and closes the file.
 */
int ob_posix_disk_lock(struct ob_posix_disk *disk);
void ob_posix_disk_unlock(struct ob_posix_disk *disk);

/* block_io.c: the error of a request that must not reach the disk, or 0. */
int ob_posix_disk_check(const struct ob_posix_disk *disk, const struct ob_block_request *request);

/*
 * Tries without blocking. False: that is not possible, and a worker must start from the beginning.
 */
bool ob_posix_disk_try(struct ob_posix_disk *disk, struct ob_block_request *request);

/* Carries out a request that passed the check, from its beginning. Blocks. Returns 0 or -errno. */
int ob_posix_disk_perform(struct ob_posix_disk *disk, const struct ob_block_request *request);

/*
 * block_served.c: as ob_posix_disk_open, for a disk of ob_platform_disk_offer. `number`: decimal
 * digits.
 */
int ob_posix_disk_open_served(struct ob_host *host, struct ob_posix_disk *disk, const char *number);

/* block_table.c: finds a disk by its number; NULL: there is none. Any thread. */
struct ob_posix_disk *ob_posix_disk_find(struct ob_host *host, uint32_t number);
/* The place of that number, which may be free; NULL: the table ends before. */
struct ob_posix_disk *ob_posix_disk_slot(struct ob_host *host, uint32_t number);
/* Puts an open disk into the first free place. Returns its number. With the table's mutex. */
int ob_posix_disk_insert(struct ob_host *host, const struct ob_posix_disk *open);

/* block_queue.c: workers run as long as the queue has users. Both functions block. */
int ob_block_queue_get(struct ob_host *host);
void ob_block_queue_put(struct ob_host *host);

/*
 * A fork()ed child has neither workers nor requests, nor (block_served.c) offers, nor
 * (block_lock.c) locks.
 */
void ob_block_queue_forked(struct ob_host *host);
void ob_block_served_forked(struct ob_host *host);
void ob_posix_disk_locks_forked(void);

/* Gives a request to the workers. Any thread, does not block. */
void ob_block_queue_add(struct ob_host *host, struct ob_block_request *request);

#endif
