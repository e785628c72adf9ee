// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory and mapping.
 *
 * RAM is a memfd, mapped once as a whole; its pages come from the host when
 * they are touched and go back by punching holes. A window is reserved address
 * space without access; ob_host_map shows a piece of the memfd in it, and
 * ob_host_unmap puts the reservation back. STACKS and PAGES are reserved in
 * the same way and made accessible by ob_host_region_commit.
 *
 * A fork()ed child gets none of it: RAM, STACKS and PAGES are not copied
 * (MADV_DONTFORK), and the windows are unmapped by the child itself. They are
 * not marked, because each mapping would cost a second system call and would
 * not merge with its neighbours.
 *
 * The host limits the number of mappings of a process, and at the limit it
 * refuses also the call that would take one away. Unmapping must not fail then
 * (a page that the kernel took back would stay visible), so a reserve of mappings is
 * kept, and given up for as long as it is needed.
 *
 * Regions are reserved once, by the booting thread, before anything else can
 * use them; after that the table is only read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "internal.h"

#define PAGE_BYTES 4096ull
#define REGION_ALIGNMENT (16ull << 20)
/* 1 GB, less what the kernel's own image may take. */
#define MODULES_REACH ((1ull << 30) - (64ull << 20))

struct region {
	uint64_t address;
	uint64_t size;		/* 0: not reserved */
};

#define SPARE_MAPPINGS 32ull

static struct {
	int fd;			/* the memfd of RAM; meaningful when RAM is reserved */
	uint64_t spare;		/* address of the spare mappings, 0: given up; atomic */
	struct region regions[OB_REGIONS];
} memory;

static void *reservation(uint64_t address, uint64_t size, int extra_flags)
{
	return mmap((void *)address, size, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra_flags, -1, 0);
}

/* Reserves an aligned range anywhere: takes more than is needed and trims both ends. */
static int reserve_anywhere(uint64_t size, uint64_t *address)
{
	void *start = reservation(0, size + REGION_ALIGNMENT, 0);
	uint64_t first, base, last;

	if (start == MAP_FAILED)
		return -ENOMEM;
	first = (uint64_t)start;
	last = first + size + REGION_ALIGNMENT;
	base = (first + REGION_ALIGNMENT - 1) & ~(REGION_ALIGNMENT - 1);
	if (base > first)
		munmap(start, base - first);
	if (last > base + size)
		munmap((void *)(base + size), last - (base + size));
	*address = base;
	return 0;
}

static bool reserve_exactly(uint64_t address, uint64_t size)
{
	void *got = reservation(address, size, MAP_FIXED_NOREPLACE);

	if (got == MAP_FAILED)
		return false;
	if ((uint64_t)got == address)
		return true;
	/* A host before 4.17 takes the address as a hint only. */
	munmap(got, size);
	return false;
}

/*
 * Reserves a range whose farthest byte is within MODULES_REACH of our own
 * code, which is linked with the kernel's. Below it first: above the image of
 * a program lies the heap.
 */
static int reserve_near_text(uint64_t size, uint64_t *address)
{
	uint64_t text = (uint64_t)(uintptr_t)&ob_host_region_reserve & ~(REGION_ALIGNMENT - 1);
	uint64_t distance;

	if (size > MODULES_REACH - REGION_ALIGNMENT)
		return -ENOMEM;
	for (distance = REGION_ALIGNMENT; distance <= MODULES_REACH; distance += REGION_ALIGNMENT) {
		uint64_t span = size + distance;

		if (span <= MODULES_REACH && text > span) {
			*address = (text - span) & ~(REGION_ALIGNMENT - 1);
			if (reserve_exactly(*address, size))
				return 0;
		}
	}
	for (distance = MODULES_REACH - REGION_ALIGNMENT; distance >= size; distance -= REGION_ALIGNMENT) {
		*address = (text + distance - size) & ~(REGION_ALIGNMENT - 1);
		if (reserve_exactly(*address, size))
			return 0;
	}
	return -ENOMEM;
}

/* Puts a memfd of the region's size behind the reserved range. */
static int populate_ram(const struct region *ram)
{
	int fd = memfd_create("outboard-ram", MFD_CLOEXEC);
	void *got;

	if (fd < 0)
		return -ENOMEM;
	if (ftruncate(fd, (off_t)ram->size))
		goto fail;
	got = mmap((void *)ram->address, ram->size, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
	if (got == MAP_FAILED)
		goto fail;
	memory.fd = fd;
	return 0;
fail:
	close(fd);
	return -ENOMEM;
}

/* Pages whose access alternates, so that each is a mapping of its own. */
static void spare_keep(void)
{
	uint64_t size = SPARE_MAPPINGS * PAGE_BYTES, none = 0;
	void *start = reservation(0, size, 0);

	if (start == MAP_FAILED)
		return;
	for (uint64_t offset = 0; offset < size; offset += 2 * PAGE_BYTES)
		mprotect((char *)start + offset, PAGE_BYTES, PROT_READ);
	if (!__atomic_compare_exchange_n(&memory.spare, &none, (uint64_t)start, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		munmap(start, size);
}

static void spare_give_up(void)
{
	uint64_t start = __atomic_exchange_n(&memory.spare, 0, __ATOMIC_SEQ_CST);

	if (start)
		munmap((void *)start, SPARE_MAPPINGS * PAGE_BYTES);
}

static bool is_window(enum ob_region region)
{
	return region == OB_REGION_VMALLOC || region == OB_REGION_MODULES || region == OB_REGION_CLIENT;
}

int ob_host_region_reserve(enum ob_region region, uint64_t size, uint64_t *address)
{
	struct region new = { .size = size };
	int error;

	if ((unsigned int)region >= OB_REGIONS || size == 0 || size % PAGE_BYTES)
		return -EINVAL;
	if (memory.regions[region].size)
		return -EEXIST;
	if (size > (1ull << 47))
		return -ENOMEM;
	if (region == OB_REGION_MODULES)
		error = reserve_near_text(size, &new.address);
	else
		error = reserve_anywhere(size, &new.address);
	if (error)
		return error;
	if (region == OB_REGION_RAM)
		error = populate_ram(&new);
	if (error) {
		munmap((void *)new.address, size);
		return error;
	}
	if (region == OB_REGION_RAM)
		spare_keep();
	if (!is_window(region))
		madvise((void *)new.address, size, MADV_DONTFORK);
	memory.regions[region] = new;
	*address = new.address;
	return 0;
}

static bool region_contains(enum ob_region region, uint64_t address, uint64_t size)
{
	const struct region *r = &memory.regions[region];

	return address >= r->address && address - r->address <= r->size &&
	       size <= r->size - (address - r->address);
}

static bool window_contains(uint64_t address, uint64_t size)
{
	return region_contains(OB_REGION_VMALLOC, address, size) ||
	       region_contains(OB_REGION_MODULES, address, size) ||
	       region_contains(OB_REGION_CLIENT, address, size);
}

static bool is_page_range(uint64_t address, uint64_t size)
{
	return size && address % PAGE_BYTES == 0 && size % PAGE_BYTES == 0;
}

int ob_host_region_commit(uint64_t address, uint64_t size)
{
	if (!is_page_range(address, size))
		return -EINVAL;
	if (!region_contains(OB_REGION_STACKS, address, size) &&
	    !region_contains(OB_REGION_PAGES, address, size))
		return -EINVAL;
	if (mprotect((void *)address, size, PROT_READ | PROT_WRITE))
		return -ENOMEM;
	return 0;
}

void ob_host_region_discard(uint64_t address, uint64_t size)
{
	uint64_t ram = memory.regions[OB_REGION_RAM].address;

	if (!is_page_range(address, size))
		return;
	if (region_contains(OB_REGION_RAM, address, size))
		fallocate(memory.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)(address - ram), (off_t)size);
	else if (region_contains(OB_REGION_STACKS, address, size) ||
		 region_contains(OB_REGION_PAGES, address, size))
		madvise((void *)address, size, MADV_DONTNEED);
}

void ob_host_regions_release(void)
{
	spare_give_up();
	for (int i = 0; i < OB_REGIONS; i++) {
		struct region *r = &memory.regions[i];

		if (!r->size)
			continue;
		munmap((void *)r->address, r->size);
		if (i == OB_REGION_RAM)
			close(memory.fd);
		*r = (struct region){ 0 };
	}
}

int ob_host_map(uint64_t address, uint64_t physical, uint64_t size, uint32_t protection)
{
	uint64_t ram_size = memory.regions[OB_REGION_RAM].size;
	int host_protection = 0;
	void *got;

	if (!is_page_range(address, size) || !window_contains(address, size))
		return -EINVAL;
	if (physical % PAGE_BYTES || physical > ram_size || size > ram_size - physical)
		return -EINVAL;
	if (protection & OB_PROTECTION_READ)
		host_protection |= PROT_READ;
	if (protection & OB_PROTECTION_WRITE)
		host_protection |= PROT_WRITE;
	if (protection & OB_PROTECTION_EXECUTE)
		host_protection |= PROT_EXEC;
	got = mmap((void *)address, size, host_protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
		   memory.fd, (off_t)physical);
	return got == MAP_FAILED ? -ENOMEM : 0;
}

int ob_host_unmap(uint64_t address, uint64_t size)
{
	if (!is_page_range(address, size) || !window_contains(address, size))
		return -EINVAL;
	if (reservation(address, size, MAP_FIXED) != MAP_FAILED)
		return 0;
	spare_give_up();
	if (reservation(address, size, MAP_FIXED) == MAP_FAILED)
		return -ENOMEM;
	spare_keep();
	return 0;
}

/*
 * A core dump would read all of RAM, and make the host take what was never
 * used. Works in a signal handler.
 */
void ob_posix_memory_skip_unused(void)
{
	const struct region *ram = &memory.regions[OB_REGION_RAM];
	off_t size = (off_t)ram->size, data, hole;

	for (hole = 0; hole < size; hole = lseek(memory.fd, data, SEEK_HOLE)) {
		data = lseek(memory.fd, hole, SEEK_DATA);
		if (hole < 0 || (data < 0 && errno != ENXIO))
			return;
		if (data < 0)
			data = size;
		if (data > hole)
			madvise((char *)ram->address + hole, (size_t)(data - hole), MADV_DONTDUMP);
		if (data == size)
			return;
	}
}

uint64_t ob_host_memory_size(void)
{
	struct sysinfo info;

	if (sysinfo(&info))
		return 0;
	return (uint64_t)info.totalram * info.mem_unit;
}

void ob_posix_memory_forked(void)
{
	for (int i = 0; i < OB_REGIONS; i++) {
		struct region *r = &memory.regions[i];

		if (r->size && is_window(i))
			munmap((void *)r->address, r->size);
		else if (r->size && i == OB_REGION_RAM)
			close(memory.fd);
		*r = (struct region){ 0 };
	}
}
