// SPDX-License-Identifier: GPL-2.0-only
/*
 * vhost-user: the memory of a front-end.
 *
 * A page that a stranger takes away after the check would fault here. So only files with a sealed
 * size are mapped, and no huge pages of hugetlbfs, which can run out.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "raw.h"
#include "vhost_serve.h"

#define HUGETLBFS 0x958458f6
#define PAGE_MASK (PAGE_BYTES - 1)

/* NULL, or why the file cannot be mapped. */
static const char *fault_of_file(int fd, uint64_t end)
{
	struct statfs system;
	struct stat file;
	int seals = raw_fcntl(fd, F_GET_SEALS, 0);

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return "its memory may shrink; use sealed memory, as QEMU's memory-backend-memfd";
	if (fstatfs(fd, &system) || system.f_type == HUGETLBFS)
		return "its memory is in hugetlbfs; use ordinary pages";
	if (fstat(fd, &file) || end > (uint64_t)file.st_size)
		return "its memory reaches beyond the end of the file";
	return NULL;
}

static bool overlaps(uint64_t a, uint64_t b, uint64_t size_a, uint64_t size_b)
{
	return a < b + size_b && b < a + size_a;
}

/* NULL, or what is wrong with the numbers. */
static const char *fault_of_region(const struct ob_server_memory *memory,
				   const struct ob_vhost_region *region)
{
	if (!region->size || region->offset & PAGE_MASK || region->offset >> 62 ||
	    region->size >> 62 || region->guest_address >> 62 || region->user_address >> 62)
		return "a region of its memory has no size, or is misplaced";
	for (unsigned int i = 0; i < memory->parts.count; i++)
		if (overlaps(region->guest_address, memory->parts.parts[i].address, region->size,
			     memory->parts.parts[i].size))
			return "two regions of its memory overlap";
	return NULL;
}

/* A fork()ed child does not get the memory, and a core dump does not have it. */
static const char *map_region(struct ob_server_memory *memory, const struct ob_vhost_region *region,
			      int fd)
{
	unsigned int i = memory->parts.count;
	const char *fault = fault_of_region(memory, region);
	void *start;

	if (!fault)
		fault = fault_of_file(fd, region->offset + region->size);
	if (fault)
		return fault;
	start = mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		     (off_t)region->offset);
	if (start == MAP_FAILED)
		return "its memory cannot be mapped for writing";
	madvise(start, region->size, MADV_DONTFORK);
	madvise(start, region->size, MADV_DONTDUMP);
	memory->mappings[i].start = start;
	memory->mappings[i].size = region->size;
	memory->user[i] = region->user_address;
	memory->parts.parts[i] = (struct ob_virtqueue_part){
		region->guest_address, region->size, start
	};
	memory->parts.count++;
	return NULL;
}

const char *ob_server_memory_map(struct ob_server_memory *memory,
				 const struct ob_vhost_memory *table, const int *fds)
{
	const char *fault = NULL;

	ob_server_memory_unmap(memory);
	for (uint32_t i = 0; i < table->count && !fault; i++)
		fault = map_region(memory, &table->regions[i], fds[i]);
	if (fault)
		ob_server_memory_unmap(memory);
	return fault;
}

void ob_server_memory_unmap(struct ob_server_memory *memory)
{
	for (unsigned int i = 0; i < memory->parts.count; i++)
		munmap(memory->mappings[i].start, memory->mappings[i].size);
	memory->parts.count = 0;
}

bool ob_server_memory_find(const struct ob_server_memory *memory, uint64_t user, uint64_t *address)
{
	for (unsigned int i = 0; i < memory->parts.count; i++) {
		const struct ob_virtqueue_part *part = &memory->parts.parts[i];

		if (user >= memory->user[i] && user - memory->user[i] < part->size) {
			*address = part->address + (user - memory->user[i]);
			return true;
		}
	}
	return false;
}
