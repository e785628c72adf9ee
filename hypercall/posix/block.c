// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block: the hypercalls, and the table of disks.
 *
 * The table grows in chunks that double and never move: disk n is in chunk
 * floor(log2(n + 1)). So a number is looked up without a lock while another
 * disk is opened. Opening and closing take a mutex; no vCPU is held there.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "block.h"
#include "raw.h"

#define CHUNKS 31	/* all numbers that a positive int has */

static struct ob_disk *chunks[CHUNKS];
static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;

static unsigned int chunk_of(uint32_t number)
{
	return 31 - (unsigned int)__builtin_clz(number + 1);
}

static struct ob_disk *slot(uint32_t number)
{
	unsigned int chunk;
	struct ob_disk *disks;

	if (number >= (1u << CHUNKS) - 1)
		return NULL;
	chunk = chunk_of(number);
	disks = __atomic_load_n(&chunks[chunk], __ATOMIC_ACQUIRE);
	return disks ? &disks[number + 1 - (1u << chunk)] : NULL;
}

struct ob_disk *ob_disk_find(uint32_t number)
{
	struct ob_disk *disk = slot(number);

	return disk && __atomic_load_n(&disk->in_use, __ATOMIC_ACQUIRE) ? disk : NULL;
}

static int add_chunk(unsigned int chunk)
{
	struct ob_disk *disks;

	if (chunk >= CHUNKS)
		return -ENFILE;
	disks = calloc(1ul << chunk, sizeof(*disks));
	if (!disks)
		return -ENOMEM;
	__atomic_store_n(&chunks[chunk], disks, __ATOMIC_RELEASE);
	return 0;
}

/* Puts an open disk into the first free place. Returns its number. */
static int table_insert(const struct ob_disk *open)
{
	uint32_t number = 0;
	struct ob_disk *place;
	int error;

	while ((place = slot(number)) && place->in_use)
		number++;
	if (!place) {
		error = add_chunk(chunk_of(number));
		if (error)
			return error;
		place = slot(number);
	}
	*place = *open;
	return (int)number;
}

int ob_host_block_open(const char *path, uint32_t flags, struct ob_block_info *info)
{
	struct ob_disk disk;
	int number, error;

	error = flags & OB_BLOCK_SERVED ? ob_disk_open_served(&disk, path) : ob_disk_open(&disk, path, flags);
	if (error)
		return error;
	error = ob_block_queue_get();
	if (error) {
		ob_disk_close(&disk);
		return error;
	}
	pthread_mutex_lock(&table_mutex);
	number = table_insert(&disk);
	pthread_mutex_unlock(&table_mutex);
	if (number < 0) {
		ob_block_queue_put();
		ob_disk_close(&disk);
		return number;
	}
	*info = (struct ob_block_info){
		.size = disk.size,
		.sector_size = disk.sector_size,
		.read_only = disk.read_only,
		.can_discard = disk.can_discard,
	};
	return number;
}

void ob_host_block_close(uint32_t number)
{
	struct ob_disk *disk, closed;

	pthread_mutex_lock(&table_mutex);
	disk = ob_disk_find(number);
	if (disk) {
		closed = *disk;
		__atomic_store_n(&disk->in_use, false, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&table_mutex);
	if (!disk)
		return;
	ob_disk_close(&closed);
	ob_block_queue_put();
}

int ob_host_block_submit(struct ob_block_request *request)
{
	struct ob_disk *disk = ob_disk_find(request->disk);

	request->next = NULL;
	request->result = disk ? ob_disk_check(disk, request) : -ENODEV;
	if (request->result || ob_disk_try(disk, request))
		return 1;
	ob_block_queue_add(request);
	return 0;
}

void ob_posix_block_forked(void)
{
	struct ob_disk *disk;

	for (uint32_t number = 0; (disk = slot(number)); number++) {
		if (disk->in_use && disk->fd >= 0)
			raw_close(disk->fd);
		disk->in_use = false;
	}
	pthread_mutex_init(&table_mutex, NULL);
	ob_block_queue_forked();
	ob_block_served_forked();
}
