// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disks: checks the program's configuration before the kernel sees it, and calls the functions of
 * disks that the program serves.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <outboard/gate.h>
#include <outboard/outboard.h>

#include "instance.h"

_Static_assert(OB_DISK_READ_ONLY == OB_BLOCK_READ_ONLY, "flags are passed on as they are");
_Static_assert(OB_DISK_NO_LOCK == OB_BLOCK_NO_LOCK, "flags are passed on as they are");

#define DEFAULT_SECTOR_SIZE 512

/* As loff_t, the type of Linux's offsets. */
#define CAPACITY_MOST INT64_MAX

/* Pieces of memory in one call of the program's functions. */
#define BATCH 128

/* A disk that the program serves. The platform's last call frees it. */
struct served_disk {
	struct ob_disk_operations operations;
	void *context;
	bool added;			/* if not, the program does not know of the disk */
};

static int transfer(const struct served_disk *disk, const struct ob_block_request *request)
{
	bool is_write = request->operation == OB_BLOCK_WRITE;
	uint64_t offset = request->offset;
	struct iovec pieces[BATCH];
	int error = 0;

	for (uint32_t done = 0; done < request->segment_count && !error;) {
		uint64_t length = 0;
		int count = 0;

		while (done < request->segment_count && count < BATCH) {
			const struct ob_block_segment *segment = &request->segments[done++];

			pieces[count++] = (struct iovec){ segment->address, segment->length };
			length += segment->length;
		}
		error = is_write ? disk->operations.write(disk->context, offset, pieces, count)
				 : disk->operations.read(disk->context, offset, pieces, count);
		offset += length;
	}
	return error;
}

static int perform(void *context, const struct ob_block_request *request)
{
	const struct served_disk *disk = context;
	int error = -EOPNOTSUPP;

	switch (request->operation) {
	case OB_BLOCK_READ:
	case OB_BLOCK_WRITE:
		error = transfer(disk, request);
		break;
	case OB_BLOCK_FLUSH:
		return disk->operations.flush(disk->context);
	case OB_BLOCK_DISCARD:
		error = disk->operations.discard(disk->context, request->offset, request->length);
		break;
	case OB_BLOCK_WRITE_ZEROES:
		error = disk->operations.write_zeroes(disk->context, request->offset,
						      request->length);
		break;
	}
	return error || !request->force_unit_access ? error : disk->operations.flush(disk->context);
}

static void closed(void *context)
{
	struct served_disk *disk = context;

	if (__atomic_load_n(&disk->added, __ATOMIC_ACQUIRE) && disk->operations.closed)
		disk->operations.closed(disk->context);
	free(disk);
}

static uint32_t sector_size(const struct ob_disk_config *config)
{
	return config->sector_size ? config->sector_size : DEFAULT_SECTOR_SIZE;
}

static int check_operations(const struct ob_disk_config *config)
{
	const struct ob_disk_operations *operations = config->operations;

	if (config->path || operations->size != sizeof(*operations) || !operations->read)
		return -EINVAL;
	if (!(config->flags & OB_DISK_READ_ONLY) && (!operations->write || !operations->flush))
		return -EINVAL;
	if (config->capacity < sector_size(config) || config->capacity > CAPACITY_MOST)
		return -EINVAL;
	return !operations->discard == !operations->write_zeroes ? 0 : -EINVAL;
}

static int check(const struct ob_disk_config *config)
{
	if (!config || config->size != sizeof(*config))
		return -EINVAL;
	if (config->flags & ~(OB_DISK_READ_ONLY | OB_DISK_NO_LOCK))
		return -EINVAL;
	if (config->sector_size && config->sector_size != 512 && config->sector_size != 4096)
		return -EINVAL;
	if (config->operations)
		return check_operations(config);
	return config->path ? 0 : -EINVAL;
}

static int add_served(struct ob_instance *instance, const struct ob_disk_config *config,
		      char name[32])
{
	struct ob_disk_parameters parameters = { .flags = config->flags | OB_BLOCK_SERVED };
	struct ob_host *host = instance->host;
	struct ob_platform_served served;
	struct served_disk *disk;
	char path[16];
	int number, result;

	if (!host)
		return -ENODEV;
	disk = malloc(sizeof(*disk));
	if (!disk)
		return -ENOMEM;
	*disk = (struct served_disk){ .operations = *config->operations,
				      .context = config->context };
	served = (struct ob_platform_served){
		.perform = perform,
		.closed = closed,
		.context = disk,
		.sector_size = sector_size(config),
		.read_only = config->flags & OB_DISK_READ_ONLY,
		.can_discard = !(config->flags & OB_DISK_READ_ONLY) && config->operations->discard,
	};
	served.size = config->capacity - config->capacity % served.sector_size;
	number = ob_platform_serve(host, &served);
	if (number < 0) {
		free(disk);
		return number;
	}
	snprintf(path, sizeof(path), "%d", number);
	parameters.path = path;
	result = ob_upcall(instance, disk_add)(&parameters, name);
	if (result >= 0)
		__atomic_store_n(&disk->added, true, __ATOMIC_RELEASE);
	if (!ob_platform_serve_done(host, number))
		free(disk);
	return result;
}

int ob_disk_add_on(struct ob_instance *instance, const struct ob_disk_config *config,
		   char name[32])
{
	struct ob_disk_parameters parameters;
	char unwanted[32];
	int error = instance ? check(config) : -EINVAL;

	if (error)
		return error;
	if (!name)
		name = unwanted;
	if (config->operations)
		return add_served(instance, config, name);
	parameters = (struct ob_disk_parameters){
		.path = config->path,
		.flags = config->flags,
		.sector_size = config->sector_size,
	};
	return ob_upcall(instance, disk_add)(&parameters, name);
}

int ob_file_lock(int fd, int exclusive)
{
	return ob_platform_file_lock(fd, exclusive);
}

void ob_file_unlock(int fd)
{
	ob_platform_file_unlock(fd);
}

int ob_disk_remove_on(struct ob_instance *instance, int disk)
{
	if (!instance)
		return -EINVAL;
	return disk < 0 ? -ENOENT : ob_upcall(instance, disk_remove)((uint32_t)disk);
}
