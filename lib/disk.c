// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disks: checks the program's configuration before the kernel sees it, and calls the functions of
 * disks that the program serves.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <outboard/gate.h>
#include <outboard/outboard.h>

#include "error.h"
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
	return error;
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

static int refuse(const char *reason)
{
	return ob_error_set(OB_ERROR_DISK, -EINVAL, "struct ob_disk_config: %s", reason);
}

static int check_operations(const struct ob_disk_config *config)
{
	const struct ob_disk_operations *operations = config->operations;

	if (config->path)
		return refuse("path and operations exclude each other");
	if (operations->size != sizeof(*operations))
		return refuse("the operations have another size: recompile the program");
	if (!operations->read)
		return refuse("the operations have no read");
	if (!(config->flags & OB_DISK_READ_ONLY) && (!operations->write || !operations->flush))
		return refuse("the operations have no write or no flush: use OB_DISK_READ_ONLY");
	if (config->capacity < sector_size(config) || config->capacity > CAPACITY_MOST)
		return refuse("capacity is less than a sector, or more than INT64_MAX");
	if (!operations->discard != !operations->write_zeroes)
		return refuse("discard and write_zeroes belong together");
	return 0;
}

static int check(const struct ob_disk_config *config)
{
	if (!config)
		return refuse("it is NULL");
	if (config->size != sizeof(*config))
		return refuse("it has another size: recompile the program");
	if (config->flags & ~(OB_DISK_READ_ONLY | OB_DISK_NO_LOCK))
		return refuse("flags: use OB_DISK_READ_ONLY, OB_DISK_NO_LOCK or 0");
	if (config->sector_size && config->sector_size != 512 && config->sector_size != 4096)
		return refuse("sector_size: use 512, 4096 or 0");
	if (config->operations)
		return check_operations(config);
	return config->path ? 0 : refuse("it has neither path nor operations");
}

/* The meaning of an error for a disk, where strerror() says less. */
static const char *meaning(int error)
{
	switch (error) {
	case -EBUSY:
		return "it is in use by another program, or is a disk of this one already";
	case -EROFS:
		return "it can only be read: use OB_DISK_READ_ONLY";
	case -EFBIG:
		return "it is larger than files of this process may be (ulimit -f)";
	case -EINVAL:
		return "the descriptor has O_APPEND or O_DIRECT, or the device has larger sectors";
	case -ENOTBLK:
		return "it is neither a regular file nor a block device";
	case -ENODEV:
		return "no kernel runs";
	default:
		return strerror(-error);
	}
}

/* Notes why the disk was not added, if it was not. Returns the result. */
static int explain(const struct ob_disk_config *config, int result)
{
	if (result >= 0)
		return result;
	if (!config->path)
		return ob_error_set(OB_ERROR_DISK, result,
				    "the disk of the program's operations: %s",
				    result == -ENODEV ? meaning(result) : strerror(-result));
	return ob_error_set(OB_ERROR_DISK, result, "%s: %s", config->path, meaning(result));
}

const char *ob_disk_error(void)
{
	return ob_error_text(OB_ERROR_DISK);
}

static int add_served(struct ob_instance *instance, const struct ob_disk_config *config,
		      char name[32])
{
	struct ob_disk_parameters parameters = { .flags = config->flags | OB_BLOCK_SERVED };
	struct ob_host *host = instance->host;
	struct ob_platform_served_disk served;
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
	served = (struct ob_platform_served_disk){
		.perform = perform,
		.closed = closed,
		.context = disk,
		.sector_size = sector_size(config),
		.read_only = config->flags & OB_DISK_READ_ONLY,
		.can_discard = !(config->flags & OB_DISK_READ_ONLY) && config->operations->discard,
	};
	served.size = config->capacity - config->capacity % served.sector_size;
	number = ob_platform_disk_offer(host, &served);
	if (number < 0) {
		free(disk);
		return number;
	}
	snprintf(path, sizeof(path), "%d", number);
	parameters.path = path;
	result = ob_upcall(instance, disk_add)(&parameters, name);
	if (result >= 0)
		__atomic_store_n(&disk->added, true, __ATOMIC_RELEASE);
	if (!ob_platform_disk_withdraw(host, number))
		free(disk);
	return result;
}

int ob_disk_add_on(struct ob_instance *instance, const struct ob_disk_config *config,
		   char name[32])
{
	struct ob_disk_parameters parameters;
	char unwanted[32];
	int error;

	ob_error_clear(OB_ERROR_DISK);
	if (!instance)
		return ob_error_set(OB_ERROR_DISK, -EINVAL, "no instance");
	error = check(config);
	if (error)
		return error;
	if (!name)
		name = unwanted;
	if (config->operations)
		return explain(config, add_served(instance, config, name));
	parameters = (struct ob_disk_parameters){
		.path = config->path,
		.flags = config->flags,
		.sector_size = config->sector_size,
	};
	return explain(config, ob_upcall(instance, disk_add)(&parameters, name));
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
	int error;

	ob_error_clear(OB_ERROR_DISK);
	if (!instance)
		return ob_error_set(OB_ERROR_DISK, -EINVAL, "no instance");
	error = disk < 0 ? -ENOENT : ob_upcall(instance, disk_remove)((uint32_t)disk);
	if (!error)
		return 0;
	return ob_error_set(OB_ERROR_DISK, error, "disk %d: %s", disk,
			    error == -EBUSY ? "it is open or mounted" :
			    error == -ENOENT ? "there is no such disk" : strerror(-error));
}
