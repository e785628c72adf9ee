// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory and mapping.
 *
 * RAM is a memfd, mapped once as a whole; its pages come from the host when
 * they are touched and go back by punching holes. What it grows by is moved, before it is used, to
 * a file with huge pages if the host gives one (huge.c): in both files a page is at the offset of its
 * physical address. A window is reserved address
 * space without access; ob_host_map shows a piece of RAM's files in it, and
 * ob_host_unmap puts the reservation back. STACKS and PAGES are reserved in
 * the same way and made accessible by ob_host_region_commit.
 *
 * A fork()ed child gets none of it: RAM, STACKS and PAGES are not copied
 * (MADV_DONTFORK), and the windows, and what was mapped anew in RAM, are unmapped by the child itself. They are
 * not marked, because each mapping would cost a second system call and would
 * not merge with its neighbours.
 *
 * SHADOW is zeroes at a fixed address, never in a core, and stays to the end of the process and in
 * its children: code that looks at it runs there as well.
 *
 * The host limits the number of mappings of a process, and at the limit it
 * refuses also the call that would take one away. Unmapping must not fail then
 * (a page that the kernel took back would stay visible), so a reserve of mappings is
 * kept, and given up for as long as it is needed.
 *
 * Pages of RAM that came from a snapshot are private mappings of its file at first. They become pages of the memfd when they
 * are allocated for something new (ob_host_ram_renew), or when a window is to show them: then with their
 * contents, and whoever writes to them meanwhile faults and tries again. Its stacks and the pages of its components are mapped
 * without access, and opened when they are needed: closed.c.
 *
 * Regions are reserved once, by the booting thread, before anything else can
 * use them; after that the table is only read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"
#include "raw.h"

#define PAGE_BYTES OB_PAGE_BYTES
#define REGION_ALIGNMENT (16ull << 20)
/* 1 GB, less what the kernel's own image may take. */
#define MODULES_REACH ((1ull << 30) - (64ull << 20))

#define SPARE_MAPPINGS 32ull

/*
 * Where regions are placed: free in any program. The shadows of sanitizers are below, that of a
 * kernel with KASAN too (KASAN_SHADOW_OFFSET, 32 to 48 TB). Above are the host's own choices.
 */
#define PLACE_FIRST (48ull << 40)
#define PLACE_RANGE (16ull << 40)
#define PLACE_TRIES 8

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

void ob_posix_memory_place(struct ob_host *host)
{
	uint64_t random;

	if (!ob_host_random(host, &random, sizeof(random)))
		host->memory.place = PLACE_FIRST + (random % PLACE_RANGE & ~(REGION_ALIGNMENT - 1));
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

/* At the next fixed address, if that is wanted; at another one if it is not free. */
static int reserve_placed(struct ob_host *host, uint64_t size, uint64_t *address)
{
	for (int tries = 0; host->memory.place && tries < PLACE_TRIES; tries++) {
		if (reserve_exactly(host->memory.place, size)) {
			*address = host->memory.place;
			host->memory.place += (size + 2 * REGION_ALIGNMENT - 1) & ~(REGION_ALIGNMENT - 1);
			return 0;
		}
		ob_posix_memory_place(host);
	}
	return reserve_anywhere(size, address);
}

/*
 * Reserves a range whose farthest byte is within MODULES_REACH of the kernel's text, which may lie
 * anywhere. Below it first: above the image of a program lies the heap.
 */
static int reserve_near_text(struct ob_host *host, uint64_t size, uint64_t *address)
{
	uint64_t text = ob_posix_text(host) & ~(REGION_ALIGNMENT - 1);
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
static int populate_ram(struct ob_host *host, const struct ob_posix_region *ram)
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
	host->memory.fd = fd;
	return 0;
fail:
	raw_close(fd);
	return -ENOMEM;
}

/* Pages whose access alternates, so that each is a mapping of its own. */
static void spare_keep(struct ob_host *host)
{
	uint64_t size = SPARE_MAPPINGS * PAGE_BYTES, none = 0;
	void *start = reservation(0, size, 0);

	if (start == MAP_FAILED)
		return;
	for (uint64_t offset = 0; offset < size; offset += 2 * PAGE_BYTES)
		mprotect((char *)start + offset, PAGE_BYTES, PROT_READ);
	if (!__atomic_compare_exchange_n(&host->memory.spare, &none, (uint64_t)start, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		munmap(start, size);
}

/* With the first mapping of a window: many programs never have one. */
static void spare_begin(struct ob_host *host)
{
	if (!__atomic_load_n(&host->memory.spare_begun, __ATOMIC_RELAXED) &&
	    !__atomic_exchange_n(&host->memory.spare_begun, true, __ATOMIC_SEQ_CST))
		spare_keep(host);
}

void ob_posix_memory_give_up_spare(struct ob_host *host)
{
	uint64_t start = __atomic_exchange_n(&host->memory.spare, 0, __ATOMIC_SEQ_CST);

	if (start)
		munmap((void *)start, SPARE_MAPPINGS * PAGE_BYTES);
}

/* Small pages: what is touched is a byte here and there. */
static int reserve_shadow(uint64_t size, uint64_t address)
{
	if (!reserve_exactly(address, size))
		return -ENOMEM;
	if (mprotect((void *)address, size, PROT_READ | PROT_WRITE)) {
		munmap((void *)address, size);
		return -ENOMEM;
	}
	madvise((void *)address, size, MADV_DONTDUMP);
	madvise((void *)address, size, MADV_NOHUGEPAGE);
	return 0;
}

/*
 * SHADOW is the process's: it stays when a kernel halts, and in a fork()ed child. The next kernel gets
 * it at the same address, with zeroes from then on. It has one owner at a time.
 */
static struct {
	struct ob_posix_region region;
	struct ob_host *owner;		/* atomic */
} shadow;

static int take_shadow(struct ob_host *host, uint64_t size, uint64_t address)
{
	struct ob_host *none = NULL;
	int error = 0;

	if (!__atomic_compare_exchange_n(&shadow.owner, &none, host, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return none == host ? -EEXIST : -EBUSY;
	if (!shadow.region.size) {
		error = reserve_shadow(size, address);
		if (!error)
			shadow.region = (struct ob_posix_region){ address, size };
	} else if (address != shadow.region.address || size != shadow.region.size ||
		   madvise((void *)address, size, MADV_DONTNEED)) {
		error = -ENOMEM;
	}
	if (error)
		__atomic_store_n(&shadow.owner, NULL, __ATOMIC_SEQ_CST);
	return error;
}

static void give_up_shadow(struct ob_host *host)
{
	__atomic_compare_exchange_n(&shadow.owner, &host, NULL, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
}

static bool is_window(enum ob_region region)
{
	return region == OB_REGION_VMALLOC || region == OB_REGION_MODULES || region == OB_REGION_CLIENT;
}

int ob_host_region_reserve(struct ob_host *host, enum ob_region region, uint64_t size, uint64_t *address)
{
	struct ob_posix_region new = { .size = size };
	int error;

	if ((unsigned int)region >= OB_REGIONS || size == 0 || size % PAGE_BYTES)
		return -EINVAL;
	if (region == OB_REGION_SHADOW)
		return take_shadow(host, size, *address);
	if (host->memory.regions[region].size)
		return -EEXIST;
	if (size > (1ull << 47))
		return -ENOMEM;
	if (region == OB_REGION_MODULES)
		error = reserve_near_text(host, size, &new.address);
	else
		error = reserve_placed(host, size, &new.address);
	if (error)
		return error;
	if (region == OB_REGION_RAM)
		error = populate_ram(host, &new);
	if (error) {
		munmap((void *)new.address, size);
		return error;
	}
	if (!is_window(region))
		madvise((void *)new.address, size, MADV_DONTFORK);
	host->memory.regions[region] = new;
	*address = new.address;
	return 0;
}

static bool region_contains(struct ob_host *host, enum ob_region region, uint64_t address, uint64_t size)
{
	const struct ob_posix_region *r = &host->memory.regions[region];

	return address >= r->address && address - r->address <= r->size &&
	       size <= r->size - (address - r->address);
}

static bool window_contains(struct ob_host *host, uint64_t address, uint64_t size)
{
	return region_contains(host, OB_REGION_VMALLOC, address, size) ||
	       region_contains(host, OB_REGION_MODULES, address, size) ||
	       region_contains(host, OB_REGION_CLIENT, address, size);
}

static bool is_page_range(uint64_t address, uint64_t size)
{
	return size && address % PAGE_BYTES == 0 && size % PAGE_BYTES == 0;
}

int ob_host_region_commit(struct ob_host *host, uint64_t address, uint64_t size)
{
	if (!is_page_range(address, size))
		return -EINVAL;
	if (!region_contains(host, OB_REGION_STACKS, address, size) &&
	    !region_contains(host, OB_REGION_PAGES, address, size))
		return -EINVAL;
	if (mprotect((void *)address, size, PROT_READ | PROT_WRITE))
		return -ENOMEM;
	return 0;
}

/* The file that has this page of RAM. */
static int ram_fd(struct ob_host *host, uint64_t physical)
{
	return host->memory.huge_from && physical >= host->memory.huge_from ? host->memory.huge_fd : host->memory.fd;
}

/* From `physical` on RAM is in the other file. */
static int move_ram(struct ob_host *host, const struct ob_posix_region *ram, uint64_t physical, int fd)
{
	void *start = (void *)(ram->address + physical);
	uint64_t size = ram->size - physical;

	if (ftruncate(fd, (off_t)ram->size) ||
	    mmap(start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
		 (off_t)physical) == MAP_FAILED)
		return -ENOMEM;
	madvise(start, size, MADV_DONTFORK);
	host->memory.huge_fd = fd;
	host->memory.huge_from = physical;
	return 0;
}

/*
 * In a file with huge pages, or, where the host lets it have them, in the memfd. What there was of the range is nothing
 * yet: it was never touched. What the kernel boots with stays in the memfd.
 */
int ob_host_ram_extend(struct ob_host *host, uint64_t address, uint64_t size)
{
	const struct ob_posix_region *ram = &host->memory.regions[OB_REGION_RAM];
	uint64_t physical = address - ram->address;
	int fd;

	if (!physical)
		return 0;
	fd = host->memory.huge_from ? -1 : ob_posix_huge_take(host);
	if (fd >= 0 && move_ram(host, ram, physical, fd))
		raw_close(fd);
	if (!host->memory.huge_from)
		madvise((void *)address, size, MADV_HUGEPAGE);
	return 0;
}

void ob_host_region_discard(struct ob_host *host, uint64_t address, uint64_t size)
{
	uint64_t ram = host->memory.regions[OB_REGION_RAM].address;

	if (!is_page_range(address, size))
		return;
	if (region_contains(host, OB_REGION_RAM, address, size))
		raw_fallocate(ram_fd(host, address - ram), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)(address - ram), (off_t)size);
	else if (region_contains(host, OB_REGION_STACKS, address, size) ||
		 region_contains(host, OB_REGION_PAGES, address, size))
		madvise((void *)address, size, MADV_DONTNEED);
}

/* ---- pages of a snapshot ------------------------------------------------ */

static bool is_snapshot_page(struct ob_host *host, uint64_t physical)
{
	uint64_t page = physical / PAGE_BYTES;

	return page / 64 < OB_SNAPSHOT_WORDS &&
	       __atomic_load_n(&host->memory.snapshot[page / 64], __ATOMIC_RELAXED) >> page % 64 & 1;
}

static void note_snapshot_pages(struct ob_host *host, uint64_t physical, uint64_t size, bool set)
{
	uint64_t page = physical / PAGE_BYTES, end = (physical + size) / PAGE_BYTES, next;

	for (; page < end && page / 64 < OB_SNAPSHOT_WORDS; page = next) {
		uint64_t *word = &host->memory.snapshot[page / 64], bits = ~0ull << page % 64;

		next = (page / 64 + 1) * 64;
		if (next > end)
			bits &= ~0ull >> (next - end);
		if (set)
			__atomic_fetch_or(word, bits, __ATOMIC_SEQ_CST);
		else
			__atomic_fetch_and(word, ~bits, __ATOMIC_SEQ_CST);
	}
}

static bool has_snapshot_pages(struct ob_host *host, uint64_t physical, uint64_t size)
{
	for (uint64_t end = physical + size; physical < end; physical += PAGE_BYTES)
		if (is_snapshot_page(host, physical))
			return true;
	return false;
}

/* Puts pages of the memfd at their place in RAM. */
static bool map_ram(struct ob_host *host, uint64_t physical, uint64_t size)
{
	void *address = (void *)(host->memory.regions[OB_REGION_RAM].address + physical);

	return mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
		    host->memory.fd, (off_t)physical) != MAP_FAILED;
}

/* If the host has no room for another mapping they stay what they are: it is tried again when a window shows them. */
void ob_host_ram_renew(struct ob_host *host, uint64_t address, uint64_t size)
{
	uint64_t physical = address - host->memory.regions[OB_REGION_RAM].address;

	if (has_snapshot_pages(host, physical, size) && map_ram(host, physical, size))
		note_snapshot_pages(host, physical, size, false);
}

/* With its contents. The caller sees to it that nobody else does the same. */
static int share_page(struct ob_host *host, uint64_t physical)
{
	char *address = (char *)host->memory.regions[OB_REGION_RAM].address + physical;

	if (mprotect(address, PAGE_BYTES, PROT_READ))
		return -ENOMEM;
	if (raw_pwrite(host->memory.fd, address, PAGE_BYTES, (off_t)physical) != (ssize_t)PAGE_BYTES ||
	    !map_ram(host, physical, PAGE_BYTES)) {
		/* As before, for those that wait to write to it, and for the next owner, who may count on zeroes. */
		raw_fallocate(host->memory.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)physical, PAGE_BYTES);
		while (mprotect(address, PAGE_BYTES, PROT_READ | PROT_WRITE))
			sched_yield();
		return -ENOMEM;
	}
	note_snapshot_pages(host, physical, PAGE_BYTES, false);
	return 0;
}

static int share_pages(struct ob_host *host, uint64_t physical, uint64_t size)
{
	int error = 0;

	for (uint64_t end = physical + size; physical < end && !error; physical += PAGE_BYTES)
		if (is_snapshot_page(host, physical))
			error = share_page(host, physical);
	return error;
}

/* RAM is always accessible but for that moment. */
bool ob_posix_memory_fault_is_passing(struct ob_host *host, uint64_t address)
{
	return region_contains(host, OB_REGION_RAM, address, 1);
}

const struct ob_posix_region *ob_posix_memory_regions(struct ob_host *host)
{
	return host->memory.regions;
}

int ob_posix_memory_reserve(struct ob_host *host, const struct ob_posix_region regions[])
{
	for (int i = 0; i < OB_REGIONS; i++) {
		const struct ob_posix_region *r = &regions[i];

		if (!r->size)
			continue;
		if (!reserve_exactly(r->address, r->size)) {
			ob_host_regions_release(host);
			return -EBUSY;
		}
		if (i == OB_REGION_RAM && populate_ram(host, r)) {
			munmap((void *)r->address, r->size);
			ob_host_regions_release(host);
			return -ENOMEM;
		}
		host->memory.regions[i] = *r;
	}
	return 0;
}

static int fill_private(uint64_t address, uint64_t size, int fd, uint64_t offset)
{
	void *got = mmap((void *)address, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, (off_t)offset);

	return got == MAP_FAILED ? -errno : 0;
}

/* Less than pages of the program's own data. */
static int fill_bytes(uint64_t address, uint64_t size, int fd, uint64_t offset)
{
	return raw_pread(fd, (void *)address, size, (off_t)offset) == (ssize_t)size ? 0 : -EIO;
}

static int fill_shared(struct ob_host *host, uint64_t physical, uint64_t size, int fd, uint64_t offset)
{
	void *pages = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, (off_t)offset);
	bool done;

	if (pages == MAP_FAILED)
		return -errno;
	done = raw_pwrite(host->memory.fd, pages, size, (off_t)physical) == (ssize_t)size;
	munmap(pages, size);
	return done ? 0 : -ENOMEM;
}

static int host_protection(uint32_t protection)
{
	return (protection & OB_PROTECTION_READ ? PROT_READ : 0) |
	       (protection & OB_PROTECTION_WRITE ? PROT_WRITE : 0) |
	       (protection & OB_PROTECTION_EXECUTE ? PROT_EXEC : 0);
}

/* Whoever writes meanwhile faults, and comes back when the kernel shows the page of RAM. */
static int settle(struct ob_host *host, const struct ob_window_piece *piece, uint64_t from, uint64_t to)
{
	off_t physical = (off_t)(piece->physical + (from - piece->address));
	uint64_t size = to - from;

	if (mprotect((void *)from, size, PROT_READ))
		return -ENOMEM;
	return raw_pwrite(host->memory.fd, (void *)from, size, physical) == (ssize_t)size ? 0 : -ENOMEM;
}

int ob_posix_memory_map_closed(struct ob_host *host, uint64_t address, uint64_t size, int fd, uint64_t offset)
{
	void *got;

	if (!is_page_range(address, size) ||
	    (!region_contains(host, OB_REGION_MODULES, address, size) && !region_contains(host, OB_REGION_STACKS, address, size)))
		return -EINVAL;
	got = mmap((void *)address, size, PROT_NONE, MAP_PRIVATE | MAP_FIXED, fd, (off_t)offset);
	return got == MAP_FAILED ? -errno : 0;
}

int ob_posix_memory_note_stack(struct ob_host *host, uint64_t address, uint64_t size, bool urgent)
{
	return ob_posix_closed_add(host, address, size, PROT_READ | PROT_WRITE, urgent);
}

int ob_posix_memory_note_window(struct ob_host *host, uint64_t address, uint64_t size, uint64_t physical, uint32_t protection)
{
	struct ob_window_piece piece = { address, size, physical };

	if (host->memory.piece_count == OB_WINDOW_PIECES)
		return settle(host, &piece, address, address + size);
	host->memory.pieces[host->memory.piece_count++] = piece;
	return ob_posix_closed_add(host, address, size, host_protection(protection), false);
}

/* What is left of a piece, without [from, to). */
static void shrink_piece(struct ob_host *host, struct ob_window_piece *piece, uint64_t from, uint64_t to)
{
	uint64_t end = piece->address + piece->size;

	if (to < end && from > piece->address && host->memory.piece_count < OB_WINDOW_PIECES)
		host->memory.pieces[host->memory.piece_count++] =
			(struct ob_window_piece){ to, end - to, piece->physical + (to - piece->address) };
	if (from > piece->address) {
		piece->size = from - piece->address;
	} else {
		piece->physical += to - piece->address;
		piece->address = to;
		piece->size = end - to;
	}
}

/*
 * The window is to be changed there, `keep`: RAM is to have what was in it. The kernel lets nobody else do the same
 * meanwhile.
 */
static int settle_pieces(struct ob_host *host, uint64_t address, uint64_t size, bool keep)
{
	int error = 0;

	for (int i = 0; i < host->memory.piece_count && !error; i++) {
		struct ob_window_piece *piece = &host->memory.pieces[i];
		uint64_t from = piece->address > address ? piece->address : address;
		uint64_t end = piece->address + piece->size, to = end < address + size ? end : address + size;
		uint64_t cut = from;

		if (from >= to)
			continue;
		error = ob_posix_closed_settle(host, piece->address, piece->size);
		if (error)
			break;
		/* There may be no room to remember two halves: then RAM gets the first one as well, which is in use. */
		if (from > piece->address && to < end && host->memory.piece_count == OB_WINDOW_PIECES) {
			cut = piece->address;
			error = settle(host, piece, cut, from);
		}
		if (keep && !error)
			error = settle(host, piece, from, to);
		if (!error)
			shrink_piece(host, piece, cut, to);
	}
	return error;
}

int ob_posix_memory_fill(struct ob_host *host, uint64_t address, uint64_t size, int fd, uint64_t offset, enum ob_snapshot_kind kind)
{
	uint64_t physical = address - host->memory.regions[OB_REGION_RAM].address;
	bool in_ram = region_contains(host, OB_REGION_RAM, address, size);
	int error;

	if (kind == OB_SNAPSHOT_SHARED)
		return in_ram ? fill_shared(host, physical, size, fd, offset) : -EINVAL;
	if (!is_page_range(address, size))
		return fill_bytes(address, size, fd, offset);
	error = fill_private(address, size, fd, offset);
	if (!error && in_ram)
		note_snapshot_pages(host, physical, size, true);
	return error;
}

void ob_posix_memory_filled(struct ob_host *host)
{
	for (int i = 0; i < OB_REGIONS; i++)
		if (host->memory.regions[i].size && !is_window(i))
			madvise((void *)host->memory.regions[i].address, host->memory.regions[i].size, MADV_DONTFORK);
}

static void close_ram(struct ob_host *host)
{
	raw_close(host->memory.fd);
	if (host->memory.huge_from)
		raw_close(host->memory.huge_fd);
	host->memory.huge_from = 0;
}

static void forget_snapshot(struct ob_host *host)
{
	host->memory.piece_count = 0;
	memset(host->memory.snapshot, 0, sizeof(host->memory.snapshot));
}

void ob_host_regions_release(struct ob_host *host)
{
	ob_posix_memory_give_up_spare(host);
	for (int i = 0; i < OB_REGIONS; i++) {
		struct ob_posix_region *r = &host->memory.regions[i];

		if (!r->size)
			continue;
		munmap((void *)r->address, r->size);
		if (i == OB_REGION_RAM)
			close_ram(host);
		*r = (struct ob_posix_region){ 0 };
	}
	host->memory.spare_begun = false;
	give_up_shadow(host);
	ob_posix_huge_release(host);
	ob_posix_closed_forget(host);
	forget_snapshot(host);
}

/* Of one of RAM's files. */
static int show(struct ob_host *host, uint64_t address, uint64_t physical, uint64_t size, uint32_t protection)
{
	void *got = mmap((void *)address, size, host_protection(protection), MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
			 ram_fd(host, physical), (off_t)physical);

	return got == MAP_FAILED ? -ENOMEM : 0;
}

int ob_host_map(struct ob_host *host, uint64_t address, uint64_t physical, uint64_t size, uint32_t protection)
{
	uint64_t ram_size = host->memory.regions[OB_REGION_RAM].size, border = host->memory.huge_from, below = 0;

	if (!is_page_range(address, size) || !window_contains(host, address, size))
		return -EINVAL;
	if (physical % PAGE_BYTES || physical > ram_size || size > ram_size - physical)
		return -EINVAL;
	if (share_pages(host, physical, size) || settle_pieces(host, address, size, true))
		return -ENOMEM;
	spare_begin(host);
	if (physical < border && border - physical < size)
		below = border - physical;
	if (below && show(host, address, physical, below, protection))
		return -ENOMEM;
	return show(host, address + below, physical + below, size - below, protection);
}

/* The kernel drops what it can show again. All else that it hides is over. */
static bool is_whole_window(struct ob_host *host, uint64_t address, uint64_t size)
{
	const struct ob_posix_region *modules = &host->memory.regions[OB_REGION_MODULES];

	return address == modules->address && size == modules->size;
}

int ob_host_unmap(struct ob_host *host, uint64_t address, uint64_t size)
{
	int error;

	if (!is_page_range(address, size) || !window_contains(host, address, size))
		return -EINVAL;
	if (settle_pieces(host, address, size, is_whole_window(host, address, size))) {
		ob_posix_memory_give_up_spare(host);
		error = settle_pieces(host, address, size, is_whole_window(host, address, size));
		spare_keep(host);
		if (error)
			return -ENOMEM;
	}
	if (reservation(address, size, MAP_FIXED) != MAP_FAILED)
		return 0;
	ob_posix_memory_give_up_spare(host);
	if (reservation(address, size, MAP_FIXED) == MAP_FAILED)
		return -ENOMEM;
	spare_keep(host);
	return 0;
}

/* Pages of a snapshot are not in the memfd, and are used. */
static void skip_in_core(struct ob_host *host, uint64_t ram, uint64_t from, uint64_t to)
{
	uint64_t limit = to < OB_SNAPSHOT_BYTES ? to : OB_SNAPSHOT_BYTES;

	for (; from < limit; from += PAGE_BYTES)
		if (!is_snapshot_page(host, from))
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
 * A core dump would read all of RAM, and make the host take what was never
 * used. Works in a signal handler.
 */
void ob_posix_memory_skip_unused(struct ob_host *host)
{
	const struct ob_posix_region *ram = &host->memory.regions[OB_REGION_RAM];
	off_t size = (off_t)ram->size, border = host->memory.huge_from ? (off_t)host->memory.huge_from : size;

	skip_unused(host, host->memory.fd, ram->address, 0, border);
	if (border < size)
		skip_unused(host, host->memory.huge_fd, ram->address, border, size);
}

void ob_posix_memory_forked(struct ob_host *host)
{
	ob_posix_closed_forget(host);
	for (int i = 0; i < OB_REGIONS; i++) {
		struct ob_posix_region *r = &host->memory.regions[i];

		if (r->size && (is_window(i) || i == OB_REGION_RAM))
			munmap((void *)r->address, r->size);
		if (r->size && i == OB_REGION_RAM)
			close_ram(host);
		*r = (struct ob_posix_region){ 0 };
	}
	forget_snapshot(host);
	give_up_shadow(host);
	host->memory.place = 0;
	ob_posix_huge_forked(host);
}
