// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel images in the memory of a process.
 *
 * The library contains an image, in a section of its own. So that processes and instances share its
 * pages, a segment is mapped once more from the file that contains the library. That file may be
 * gone or replaced by now. So it is used only if the image's first page, which has the build id, is
 * at the same offset in it. Otherwise the segments are copies.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <outboard/loader.h>
#include <outboard/platform_host.h>

#include "raw.h"
#include "regions.h"

/* Places for images. Each kernel has several, OB_HOSTS_MOST apart. */
#define PLACES (4 * OB_HOSTS_MOST)
#define PLACE_DISTANCE (4ull << 30)

/* kernel/build/image.S. Weak: tests of the platform are linked without an image. */
extern const char ob_own_image[] __attribute__((weak, visibility("hidden")));
extern const char ob_own_image_end[] __attribute__((weak, visibility("hidden")));

/* The file that an address of this process is mapped from. */
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
		origin->path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name
								   : "/proc/self/exe";
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

/* Finds the file that contains the library, if the image is still in it. */
static void find_own(struct ob_platform_file *file)
{
	struct origin origin = { .address = (uint64_t)ob_own_image };

	if (!dl_iterate_phdr(find_origin, &origin) || origin.offset % PAGE_BYTES)
		return;
	file->handle = raw_open(origin.path, O_RDONLY | O_CLOEXEC);
	if (file->handle >= 0 && !file_has(file->handle, origin.offset, file->bytes)) {
		raw_close(file->handle);
		file->handle = -1;
	}
	file->offset = origin.offset;
}

static int open_own(struct ob_platform_file *file)
{
	if (!ob_own_image)
		return -ENOENT;
	file->bytes = ob_own_image;
	file->size = (uint64_t)(ob_own_image_end - ob_own_image);
	find_own(file);
	return 0;
}

/* To write to the file, or to replace it, changes one of these values. */
static void identify(const struct stat *status, uint64_t identity[5])
{
	identity[0] = status->st_dev;
	identity[1] = status->st_ino;
	identity[2] = (uint64_t)status->st_size;
	identity[3] = (uint64_t)status->st_ctim.tv_sec;
	identity[4] = (uint64_t)status->st_ctim.tv_nsec;
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
	identify(&status, file->identity);
	return 0;
}

int ob_platform_image_open(const char *path, struct ob_platform_file *file)
{
	struct stat status;
	int error;

	*file = (struct ob_platform_file){ .handle = -1 };
	if (!path)
		return open_own(file);
	/* Opening a device can have side effects. */
	if (stat(path, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	/* If the path is a FIFO by now, opening must not block. map_bytes() refuses it. */
	file->handle = raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file->handle < 0)
		return -errno;
	error = map_bytes(file);
	if (error)
		ob_platform_image_close(file);
	return error;
}

static bool is_identical(const struct stat *status, const struct ob_platform_file *file)
{
	uint64_t identity[5];

	identify(status, identity);
	return !memcmp(identity, file->identity, sizeof(identity));
}

bool ob_platform_image_is_same(const char *path, const struct ob_platform_file *file)
{
	struct stat status;

	if (!path || !file->owned)
		return !path && !file->owned;
	return !stat(path, &status) && is_identical(&status, file);
}

void ob_platform_image_reopen(const char *path, struct ob_platform_file *file)
{
	struct stat status;

	if (!file->owned) {
		find_own(file);
		return;
	}
	file->handle = raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file->handle >= 0 && (fstat(file->handle, &status) || !is_identical(&status, file)))
		ob_platform_image_keep(file);
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

static void *reserve_at(uint64_t address, uint64_t size)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

	return mmap((void *)address, size, PROT_NONE,
		    address ? flags | MAP_FIXED_NOREPLACE : flags, -1, 0);
}

/*
 * Each kernel has places of its own, so that the nth kernel of any process finds the same snapshot.
 * At all of these places OB_REGION_MODULES has room beside the image. At an address of the host's
 * choice, regions of other kernels may be all around.
 */
int ob_platform_image_reserve(const struct ob_host *host, uint64_t size, uint64_t *address,
			      bool *placed)
{
	uint64_t linked = *address;
	void *got = MAP_FAILED;

	for (long i = host - ob_host_first(); got == MAP_FAILED && i < PLACES; i += OB_HOSTS_MOST)
		got = reserve_at(linked + (uint64_t)i * PLACE_DISTANCE, size);
	*placed = got != MAP_FAILED;
	for (long i = 0; got == MAP_FAILED && i < PLACES; i++)
		got = reserve_at(linked + (uint64_t)i * PLACE_DISTANCE, size);
	if (got == MAP_FAILED)
		got = reserve_at(0, size);
	if (got == MAP_FAILED)
		return -ENOMEM;
	*address = (uint64_t)got;
	return 0;
}

int ob_platform_image_protect(uint64_t address, uint64_t size, uint32_t protection)
{
	return mprotect((void *)address, size, ob_posix_protection(protection)) ? -errno : 0;
}

/* Maps the pages of the segment that have bytes of the file. */
static int map_from_file(const struct ob_platform_file *file,
			 const struct ob_loader_segment *segment, uint64_t size)
{
	uint64_t slack = segment->address % PAGE_BYTES;
	void *first = (void *)(segment->address - slack);
	off_t offset = (off_t)(file->offset + segment->offset - slack);

	return mmap(first, size, ob_posix_protection(segment->protection), MAP_PRIVATE | MAP_FIXED,
		    file->handle, offset) == MAP_FAILED ? -errno : 0;
}

static int copy_from_bytes(const struct ob_platform_file *file,
			   const struct ob_loader_segment *segment, uint64_t size)
{
	uint64_t slack = segment->address % PAGE_BYTES;
	void *first = (void *)(segment->address - slack);

	if (mmap(first, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == MAP_FAILED)
		return -ENOMEM;
	memcpy((void *)segment->address, (const char *)file->bytes + segment->offset,
	       segment->file_size);
	return mprotect(first, size, ob_posix_protection(segment->protection)) ? -errno : 0;
}

/* Clears the rest of the last page of the file, and maps the pages after it. */
static int map_zeroes(const struct ob_loader_segment *segment, uint64_t file_end)
{
	uint64_t end = segment->address + segment->file_size;
	uint64_t memory_end = segment->address + segment->size;
	void *got;

	if (memory_end > end)
		memset((void *)end, 0, (memory_end < file_end ? memory_end : file_end) - end);
	if (memory_end <= file_end)
		return 0;
	got = mmap((void *)file_end, memory_end - file_end,
		   ob_posix_protection(segment->protection),
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	return got == MAP_FAILED ? -ENOMEM : 0;
}

int ob_platform_image_map(const struct ob_platform_file *file,
			  const struct ob_loader_segment *segment)
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

void ob_platform_empty_on_fork(uint32_t *word)
{
	void *page = (void *)((uint64_t)word & ~(PAGE_BYTES - 1));
	uint32_t value = *word;

	/* The advice is for anonymous memory only, and the page is a file's. */
	if (mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return;
	*word = value;
	madvise(page, PAGE_BYTES, MADV_WIPEONFORK);
}

void ob_platform_text(struct ob_host *host, uint64_t address, uint64_t size)
{
	host->text_address = address;
	host->text_size = size;
}

/*
 * Modules are placed near this address. Without an image, in tests of the platform: near this
 * function.
 */
uint64_t ob_posix_text(struct ob_host *host)
{
	return host->text_size ? host->text_address : (uint64_t)(uintptr_t)&ob_posix_text;
}
