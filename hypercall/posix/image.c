// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel images in the memory of a process.
 *
 * The library contains an image, in a section of its own. To share its pages with all processes
 * and instances, a segment is not copied from there but mapped once more from the file that the
 * library or the program is. That file may be gone or replaced by now: it is used only if the
 * image's first page, which has the build id, is at the same place in it. Else the segments are
 * copies.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <outboard/platform.h>

#include "internal.h"
#include "raw.h"

#define PAGE_BYTES 4096ull

/* kernel/build/image.S. Weak: tests of the platform are linked without an image. */
extern const char ob_own_image[] __attribute__((weak, visibility("hidden")));
extern const char ob_own_image_end[] __attribute__((weak, visibility("hidden")));

/* The file that a byte of this process was mapped from. */
struct origin {
	uint64_t address;
	const char *path;
	uint64_t offset;
};

static int find_origin(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct origin *origin = argument;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t distance = origin->address - info->dlpi_addr - segment->p_vaddr;

		if (segment->p_type != PT_LOAD || distance >= segment->p_filesz)
			continue;
		origin->path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
		origin->offset = segment->p_offset + distance;
		return 1;
	}
	return 0;
}

static bool file_has(int handle, uint64_t offset, const void *bytes)
{
	char page[PAGE_BYTES];

	return raw_pread(handle, page, sizeof(page), (off_t)offset) == (ssize_t)sizeof(page) &&
	       !memcmp(page, bytes, sizeof(page));
}

static int open_own(struct ob_platform_file *file)
{
	struct origin origin = { .address = (uint64_t)ob_own_image };

	if (!ob_own_image)
		return -ENOENT;
	file->bytes = ob_own_image;
	file->size = (uint64_t)(ob_own_image_end - ob_own_image);
	if (!dl_iterate_phdr(find_origin, &origin) || origin.offset % PAGE_BYTES)
		return 0;
	file->handle = raw_open(origin.path, O_RDONLY | O_CLOEXEC);
	if (file->handle >= 0 && !file_has(file->handle, origin.offset, file->bytes)) {
		raw_close(file->handle);
		file->handle = -1;
	}
	file->offset = origin.offset;
	return 0;
}

static int map_bytes(struct ob_platform_file *file)
{
	struct stat status;
	void *bytes;

	if (fstat(file->handle, &status))
		return -errno;
	if (!S_ISREG(status.st_mode) || !status.st_size)
		return -EINVAL;
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file->handle, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	file->bytes = bytes;
	file->size = (uint64_t)status.st_size;
	file->owned = true;
	return 0;
}

int ob_platform_image_open(const char *path, struct ob_platform_file *file)
{
	struct stat status;
	int error;

	*file = (struct ob_platform_file){ .handle = -1 };
	if (!path)
		return open_own(file);
	/* To open a device can do something. */
	if (stat(path, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	/* If it is a FIFO by now, it must not block; it is refused below. */
	file->handle = raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file->handle < 0)
		return -errno;
	error = map_bytes(file);
	if (error)
		ob_platform_image_close(file);
	return error;
}

void ob_platform_image_keep(struct ob_platform_file *file)
{
	if (file->handle >= 0)
		raw_close(file->handle);
	file->handle = -1;
}

void ob_platform_image_close(struct ob_platform_file *file)
{
	ob_platform_image_keep(file);
	if (file->owned)
		munmap((void *)file->bytes, file->size);
	*file = (struct ob_platform_file){ .handle = -1 };
}

int ob_platform_image_reserve(uint64_t size, uint64_t *address)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *wanted = (void *)*address;
	void *got = mmap(wanted, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == MAP_FAILED)
		got = mmap(NULL, size, PROT_NONE, flags, -1, 0);
	if (got == MAP_FAILED)
		return -ENOMEM;
	*address = (uint64_t)got;
	return 0;
}

static int host_protection(uint32_t protection)
{
	return (protection & OB_PROTECTION_READ ? PROT_READ : 0) |
	       (protection & OB_PROTECTION_WRITE ? PROT_WRITE : 0) |
	       (protection & OB_PROTECTION_EXECUTE ? PROT_EXEC : 0);
}

int ob_platform_image_protect(uint64_t address, uint64_t size, uint32_t protection)
{
	return mprotect((void *)address, size, host_protection(protection)) ? -errno : 0;
}

/* From the first to the last page of the segment that has bytes of the file. */
static int map_from_file(const struct ob_platform_file *file,
			 const struct ob_platform_segment *segment, uint64_t size)
{
	uint64_t slack = segment->address % PAGE_BYTES;
	void *first = (void *)(segment->address - slack);
	off_t offset = (off_t)(file->offset + segment->offset - slack);

	return mmap(first, size, host_protection(segment->protection), MAP_PRIVATE | MAP_FIXED,
		    file->handle, offset) == MAP_FAILED ? -errno : 0;
}

static int copy_from_bytes(const struct ob_platform_file *file,
			   const struct ob_platform_segment *segment, uint64_t size)
{
	uint64_t slack = segment->address % PAGE_BYTES;
	void *first = (void *)(segment->address - slack);

	if (mmap(first, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == MAP_FAILED)
		return -ENOMEM;
	memcpy((void *)segment->address, (const char *)file->bytes + segment->offset,
	       segment->file_size);
	return mprotect(first, size, host_protection(segment->protection)) ? -errno : 0;
}

/* The rest of the last page that has bytes of the file, and whole pages after it. */
static int map_zeroes(const struct ob_platform_segment *segment, uint64_t file_end)
{
	uint64_t end = segment->address + segment->file_size;
	uint64_t memory_end = segment->address + segment->size;

	if (memory_end > end)
		memset((void *)end, 0, (memory_end < file_end ? memory_end : file_end) - end);
	if (memory_end <= file_end)
		return 0;
	return mmap((void *)file_end, memory_end - file_end, host_protection(segment->protection),
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ? -ENOMEM : 0;
}

int ob_platform_image_map(const struct ob_platform_file *file,
			  const struct ob_platform_segment *segment)
{
	uint64_t end = segment->address + segment->file_size;
	uint64_t first = segment->address & ~(PAGE_BYTES - 1);
	uint64_t file_end = (end + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	int error = 0;

	if (segment->file_size && file->handle >= 0)
		error = map_from_file(file, segment, file_end - first);
	else if (segment->file_size)
		error = copy_from_bytes(file, segment, file_end - first);
	else
		file_end = end = first;
	return error ? error : map_zeroes(segment, file_end);
}

void ob_platform_image_release(uint64_t address, uint64_t size)
{
	munmap((void *)address, size);
}

void ob_platform_text(struct ob_host *host, uint64_t address, uint64_t size)
{
	host->text_address = address;
	host->text_size = size;
}

/* Modules are placed near it. Without an image, in tests of the platform: near this function. */
uint64_t ob_posix_text(struct ob_host *host)
{
	return host->text_size ? host->text_address : (uint64_t)(uintptr_t)&ob_posix_text;
}
