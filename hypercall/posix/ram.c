// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files of RAM.
 *
 * RAM is a memfd, mapped once as a whole. The host provides a page when it is touched, and takes it
 * back when a hole is punched there. Memory that RAM grows by moves, before its first use, to a
 * file with huge pages if the host gives one (huge.c). In both files a page is at the offset of its
 * physical address.
 *
 * RAM that other processes map (ob_platform_share_memory) is the memfd alone. Its size is sealed:
 * no access of theirs faults.
 *
 * If the zygote starts before the boot (space/zygote.c), the memfd is made before, too:
 *
 *   none --prepare--> prepared --populate--> RAM --release--> none
 *             ^                               |
 *             `---release, with a zygote------'
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "regions.h"
#include "raw.h"

void ob_platform_share_memory(struct ob_host *host, bool is_shared)
{
	host->ram.is_shared = is_shared;
}

static int seal_size(int fd)
{
	return raw_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

static int make_file(void)
{
	return raw_memfd("outboard-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

bool ob_posix_ram_prepare(struct ob_host *host)
{
	if (!host->ram.is_prepared)
		host->ram.fd = make_file();
	host->ram.is_prepared = host->ram.fd >= 0;
	return host->ram.is_prepared;
}

void ob_posix_ram_drop(struct ob_host *host)
{
	if (host->ram.is_prepared)
		raw_close(host->ram.fd);
	host->ram.is_prepared = false;
}

/* The prepared file, or a new one: but a zygote that has started would show another one. */
static int take_file(struct ob_host *host)
{
	if (!host->ram.is_prepared && __atomic_load_n(&host->spaces, __ATOMIC_ACQUIRE)) {
		errno = EBUSY;
		return -1;
	}
	if (!host->ram.is_prepared)
		return make_file();
	host->ram.is_prepared = false;
	return host->ram.fd;
}

/* Puts a memfd of the region's size behind the reserved range. */
int ob_posix_ram_populate(struct ob_host *host, const struct ob_posix_region *ram)
{
	int fd = take_file(host), error;
	void *got;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)ram->size) || (host->ram.is_shared && seal_size(fd)))
		goto fail;
	got = mmap((void *)ram->address, ram->size, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
	if (got == MAP_FAILED)
		goto fail;
	host->ram.fd = fd;
	return 0;
fail:
	error = -errno;
	raw_close(fd);
	return error;
}

/* The descriptor of the file that has this page. */
int ob_posix_ram_fd(struct ob_host *host, uint64_t physical)
{
	bool is_huge = host->ram.huge_from && physical >= host->ram.huge_from;

	return is_huge ? host->ram.huge_fd : host->ram.fd;
}

/* Maps the other file into RAM from `physical` on. */
static int move_ram(struct ob_host *host, const struct ob_posix_region *ram, uint64_t physical,
		    int fd)
{
	void *start = (void *)(ram->address + physical);
	uint64_t size = ram->size - physical;

	if (ftruncate(fd, (off_t)ram->size) ||
	    mmap(start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
		 (off_t)physical) == MAP_FAILED)
		return -ENOMEM;
	madvise(start, size, MADV_DONTFORK);
	host->ram.huge_fd = fd;
	host->ram.huge_from = physical;
	return 0;
}

/*
 * Grows RAM in a file with huge pages. If there is none: in the memfd, with huge pages if the host
 * allows them there. The range was never touched, so there are no contents to keep. The memory that
 * the kernel boots with stays in the memfd.
 */
int ob_host_ram_extend(struct ob_host *host, uint64_t address, uint64_t size)
{
	const struct ob_posix_region *ram = &host->regions[OB_REGION_RAM];
	uint64_t physical = address - ram->address;
	int fd;

	if (!physical)
		return 0;
	fd = host->ram.huge_from || host->ram.is_shared ? -1 : ob_posix_huge_take(host);
	if (fd >= 0 && move_ram(host, ram, physical, fd))
		raw_close(fd);
	if (!host->ram.huge_from)
		madvise((void *)address, size, MADV_HUGEPAGE);
	return 0;
}

void ob_posix_ram_close(struct ob_host *host)
{
	raw_close(host->ram.fd);
	if (host->ram.huge_from)
		raw_close(host->ram.huge_fd);
	host->ram.huge_from = 0;
}

void ob_posix_ram_release(struct ob_host *host)
{
	if (!__atomic_load_n(&host->spaces, __ATOMIC_ACQUIRE) || host->ram.huge_from ||
	    ftruncate(host->ram.fd, 0))
		ob_posix_ram_close(host);
	else
		host->ram.is_prepared = true;
}

/* Keeps pages of a snapshot in the core: they are in use, though not in the memfd. */
static void skip_in_core(struct ob_host *host, uint64_t ram, uint64_t from, uint64_t to)
{
	uint64_t limit = to < OB_SNAPSHOT_BYTES ? to : OB_SNAPSHOT_BYTES;

	for (; from < limit; from += PAGE_BYTES)
		if (!ob_posix_pages_contain(host, from))
			madvise((void *)(ram + from), PAGE_BYTES, MADV_DONTDUMP);
	if (to > from)
		madvise((void *)(ram + from), to - from, MADV_DONTDUMP);
}

static void skip_unused(struct ob_host *host, int fd, uint64_t ram, off_t from, off_t to)
{
	off_t data, hole;

	for (hole = from; hole < to; hole = lseek(fd, data, SEEK_HOLE)) {
		data = lseek(fd, hole, SEEK_DATA);
		if (hole < 0 || (data < 0 && errno != ENXIO))
			return;
		if (data < 0 || data > to)
			data = to;
		if (data > hole)
			skip_in_core(host, ram, (uint64_t)hole, (uint64_t)data);
		if (data == to)
			return;
	}
}

/*
 * A core dump would read all of RAM, and make the host allocate what was never used. Works in a
 * signal handler.
 */
void ob_posix_ram_skip_unused(struct ob_host *host)
{
	const struct ob_posix_region *ram = &host->regions[OB_REGION_RAM];
	off_t size = (off_t)ram->size;
	off_t border = host->ram.huge_from ? (off_t)host->ram.huge_from : size;

	skip_unused(host, host->ram.fd, ram->address, 0, border);
	if (border < size)
		skip_unused(host, host->ram.huge_fd, ram->address, border, size);
}
