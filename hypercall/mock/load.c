// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads a kernel image: reads the file, asks for one piece of memory, and has the loader of all
 * hosts (outboard/loader.h) do the rest.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <outboard/loader.h>

#include "internal.h"

/* False, and errno: the file cannot be read. */
static bool open_image(const char *path, struct ob_loader *loader)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	void *bytes = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &status))
		bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (bytes == MAP_FAILED)
		return false;
	loader->bytes = bytes;
	loader->size = (uint64_t)status.st_size;
	return true;
}

/* The memory is there, zero-filled. Everything in it may be written and executed. */
static int map(void *context, const struct ob_loader_segment *segment)
{
	const struct ob_loader *loader = context;

	memcpy((void *)segment->address, (const char *)loader->bytes + segment->offset,
	       segment->file_size);
	return 0;
}

static int protect(void *context, uint64_t address, uint64_t size, uint32_t protection)
{
	(void)context;
	(void)address;
	(void)size;
	(void)protection;
	return 0;
}

static const struct ob_loader_memory memory = { .map = map, .protect = protect };

static bool start_image(struct ob_host *host, struct ob_loader *loader)
{
	if (!ob_loader_check(loader))
		return false;
	host->image_size = loader->end - loader->first;
	host->image = mmap(NULL, host->image_size, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (host->image == MAP_FAILED)
		return false;
	loader->distance = (uint64_t)host->image - loader->first;
	mock_tables_fill(host, &host->table);
	if (ob_loader_load(loader) ||
	    ob_loader_enter(loader, &host->table, host, mock_thread_block_distance(host)))
		return false;
	host->upcalls = loader->upcalls;
	return true;
}

static char refusal[sizeof(((struct ob_loader *)0)->reason)];

const char *mock_refusal(void)
{
	return *refusal ? refusal : NULL;
}

bool mock_load(struct ob_host *host, const char *path)
{
	struct ob_loader loader = {
		.memory = &memory, .context = &loader,
		.thread_block = host->options.thread_block ? host->options.thread_block :
			       OB_THREAD_BLOCK_BYTES,
	};
	bool done;

	if (!open_image(path, &loader)) {
		fprintf(stderr, "mock: %s: %s\n", path, strerror(errno));
		return false;
	}
	done = start_image(host, &loader);
	munmap((void *)loader.bytes, loader.size);
	memcpy(refusal, loader.reason, sizeof(refusal));
	if (!done)
		fprintf(stderr, "mock: %s cannot be loaded: %s\n", path, loader.reason);
	return done;
}
