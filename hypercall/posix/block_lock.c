// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block: the locks on files that are disks of this process.
 *
 * The host's locks belong to an open file description. A program that passes the same descriptor
 * twice has one description, so the host would grant a second lock, and would drop both with the
 * first unlock. This list has the files of all kernels of the process, and refuses a second writer.
 * Several disks may read one file. Then the descriptors of removed disks stay open, and locked,
 * until the last of these disks goes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "block.h"
#include "raw.h"

struct ob_posix_disk_lock {
	struct ob_posix_disk_lock *next;
	int fd;
	bool in_use;			/* else the disk was removed */
	bool exclusive;
	bool is_device;
	dev_t device;			/* of the file system, or the block device itself */
	ino_t inode;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ob_posix_disk_lock *first;	/* under the mutex */

static bool is_same_file(const struct ob_posix_disk_lock *a, const struct ob_posix_disk_lock *b)
{
	return a->is_device == b->is_device && a->device == b->device && a->inode == b->inode;
}

static bool is_allowed_beside_others(const struct ob_posix_disk_lock *new)
{
	for (const struct ob_posix_disk_lock *lock = first; lock; lock = lock->next)
		if (is_same_file(lock, new) && (lock->exclusive || new->exclusive))
			return false;
	return true;
}

static int take(struct ob_posix_disk_lock *new)
{
	int error = -EBUSY;

	pthread_mutex_lock(&mutex);
	if (is_allowed_beside_others(new))
		error = ob_platform_file_lock(new->fd, new->exclusive);
	if (!error) {
		new->next = first;
		first = new;
	}
	pthread_mutex_unlock(&mutex);
	return error;
}

int ob_posix_disk_lock(struct ob_posix_disk *disk)
{
	struct ob_posix_disk_lock *new;
	struct stat status;
	int error;

	if (fstat(disk->fd, &status))
		return -errno;
	new = malloc(sizeof(*new));
	if (!new)
		return -ENOMEM;
	*new = (struct ob_posix_disk_lock){
		.fd = disk->fd,
		.in_use = true,
		.exclusive = !disk->read_only,
		.is_device = disk->is_device,
		.device = disk->is_device ? status.st_rdev : status.st_dev,
		.inode = disk->is_device ? 0 : status.st_ino,
	};
	error = take(new);
	if (error)
		free(new);
	else
		disk->lock = new;
	return error;
}

static bool is_in_use(const struct ob_posix_disk_lock *wanted)
{
	for (const struct ob_posix_disk_lock *lock = first; lock; lock = lock->next)
		if (is_same_file(lock, wanted) && lock->in_use)
			return true;
	return false;
}

/* Removes all locks of that file from the list. Returns them, linked. */
static struct ob_posix_disk_lock *remove_all(const struct ob_posix_disk_lock *wanted)
{
	struct ob_posix_disk_lock **place = &first, *removed = NULL, *lock;

	while ((lock = *place)) {
		if (!is_same_file(lock, wanted)) {
			place = &lock->next;
			continue;
		}
		*place = lock->next;
		lock->next = removed;
		removed = lock;
	}
	return removed;
}

void ob_posix_disk_unlock(struct ob_posix_disk *disk)
{
	struct ob_posix_disk_lock *lock = disk->lock, *removed = NULL, *next;

	pthread_mutex_lock(&mutex);
	lock->in_use = false;
	if (!is_in_use(lock))
		removed = remove_all(lock);
	/* Unlock: a fork()ed child may have a copy of the descriptor, which keeps the lock. */
	for (; removed; removed = next) {
		next = removed->next;
		ob_platform_file_unlock(removed->fd);
		raw_close(removed->fd);
		free(removed);
	}
	pthread_mutex_unlock(&mutex);
}

/*
 * Closes the descriptors of all locked disks, also of one that another thread of the parent was
 * opening or closing. Does not free the locks: that thread may have been freeing one.
 */
void ob_posix_disk_locks_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (const struct ob_posix_disk_lock *lock = first; lock; lock = lock->next)
		raw_close(lock->fd);
	first = NULL;
}
