// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block: the table of disks.
 *
 * It grows in chunks that double and never move: disk n is in chunk floor(log2(n + 1)). So a thread
 * finds a disk by its number without a lock while another thread opens one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "block.h"

#define CHUNKS OB_DISK_CHUNKS

static unsigned int chunk_of(uint32_t number)
{
	return 31 - (unsigned int)__builtin_clz(number + 1);
}

struct ob_posix_disk *ob_posix_disk_slot(struct ob_host *host, uint32_t number)
{
	unsigned int chunk;
	struct ob_posix_disk *disks;

	if (number >= (1u << CHUNKS) - 1)
		return NULL;
	chunk = chunk_of(number);
	disks = __atomic_load_n(&host->disks.chunks[chunk], __ATOMIC_ACQUIRE);
	return disks ? &disks[number + 1 - (1u << chunk)] : NULL;
}

struct ob_posix_disk *ob_posix_disk_find(struct ob_host *host, uint32_t number)
{
	struct ob_posix_disk *disk = ob_posix_disk_slot(host, number);

	return disk && __atomic_load_n(&disk->in_use, __ATOMIC_ACQUIRE) ? disk : NULL;
}

static int add_chunk(struct ob_host *host, unsigned int chunk)
{
	struct ob_posix_disk *disks;

	if (chunk >= CHUNKS)
		return -ENFILE;
	disks = calloc(1ul << chunk, sizeof(*disks));
	if (!disks)
		return -ENOMEM;
	__atomic_store_n(&host->disks.chunks[chunk], disks, __ATOMIC_RELEASE);
	return 0;
}

int ob_posix_disk_insert(struct ob_host *host, const struct ob_posix_disk *open)
{
	uint32_t number = 0;
	struct ob_posix_disk *place;
	int error;

	while ((place = ob_posix_disk_slot(host, number)) && place->in_use)
		number++;
	if (!place) {
		error = add_chunk(host, chunk_of(number));
		if (error)
			return error;
		place = ob_posix_disk_slot(host, number);
	}
	*place = *open;
	pthread_rwlock_init(&place->reporters, NULL);
	return (int)number;
}
