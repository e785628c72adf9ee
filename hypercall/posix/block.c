// SPDX-License-Identifier: GPL-2.0-only
/* Block: the hypercalls. Opening and closing take a mutex, and no vCPU is held there. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "block.h"
#include "raw.h"

int ob_host_block_open(struct ob_host *host, const char *path, uint32_t flags,
		       struct ob_block_info *info)
{
	struct ob_posix_disk disk;
	int number, error;

	error = flags & OB_BLOCK_SERVED ? ob_posix_disk_open_served(host, &disk, path)
					: ob_posix_disk_open(&disk, path, flags);
	if (error)
		return error;
	error = ob_block_queue_get(host);
	if (error) {
		ob_posix_disk_close(&disk);
		return error;
	}
	pthread_mutex_lock(&host->disks.mutex);
	number = ob_posix_disk_insert(host, &disk);
	pthread_mutex_unlock(&host->disks.mutex);
	if (number < 0) {
		ob_block_queue_put(host);
		ob_posix_disk_close(&disk);
		return number;
	}
	*info = (struct ob_block_info){
		.size = disk.size,
		.sector_size = disk.sector_size,
		.read_only = disk.read_only,
		.can_discard = disk.can_discard,
		.can_flush_write = true,
	};
	return number;
}

void ob_host_block_close(struct ob_host *host, uint32_t number)
{
	struct ob_posix_disk *disk, closed;

	pthread_mutex_lock(&host->disks.mutex);
	disk = ob_posix_disk_find(host, number);
	if (disk) {
		closed = *disk;
		__atomic_store_n(&disk->in_use, false, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&host->disks.mutex);
	if (!disk)
		return;
	ob_posix_disk_close(&closed);
	ob_block_queue_put(host);
}

int ob_host_block_submit(struct ob_host *host, struct ob_block_request *request)
{
	struct ob_posix_disk *disk = ob_posix_disk_find(host, request->disk);

	request->next = NULL;
	request->result = disk ? ob_posix_disk_check(disk, request) : -ENODEV;
	if (request->result || ob_posix_disk_try(disk, request))
		return 1;
	ob_block_queue_add(host, request);
	return 0;
}

void ob_posix_block_forked(struct ob_host *host)
{
	struct ob_posix_disk *disk;

	for (uint32_t number = 0; (disk = ob_posix_disk_slot(host, number)); number++) {
		/* Locked ones are in a list of their own. */
		if (disk->in_use && disk->fd >= 0 && !disk->lock)
			raw_close(disk->fd);
		disk->in_use = false;
	}
	pthread_mutex_init(&host->disks.mutex, NULL);
	ob_block_queue_forked(host);
	ob_block_served_forked(host);
	ob_posix_disk_locks_forked();
}
