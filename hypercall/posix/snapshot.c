// SPDX-License-Identifier: GPL-2.0-only
/*
 * Snapshots as files: a header, the key, a table of extents, then pages.
 *
 * A file is only mapped if it is the user's own, nobody else can read or write it, its checksum is right and
 * its key is, to the byte, what this process would have made it with. It is made under another name
 * and renamed when it is complete, so that there is never half of one; whoever comes last wins, and those that
 * have mapped the one before keep it. What is in it is trusted after that: it is a program's memory.
 *
 * Reading all of a file for its checksum takes longer than everything else. So that it was right is noted beside it,
 * for this very version of the file (its number and the time of its last change) and until the host is booted again.
 *
 * The directory is kept clean: what was not used for a month is removed when another one is saved.
 *
 * Memory that is zero is not saved, but for the image's, which is not zero in a process that has just started.
 *
 * Stacks, and the pieces of the MODULES window, are mapped as a whole and without access: closed.c has the rest. So they are as far from
 * each other in the file, which has holes there.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "raw.h"

#define MAGIC "outboard snapshot 2\n"
#define PAGE_BYTES OB_PAGE_BYTES
#define FILE_BYTES_MOST (1ull << 30)
#define HEADER_BYTES_MOST (1ull << 20)
#define SUFFIX ".snapshot"
#define DAY_SECONDS (24 * 3600)
#define KEPT_SECONDS (30 * DAY_SECONDS)
#define KEPT_FILES 64

/* Runs of zero pages that are shorter are saved: a mapping costs more than they do. */
#define GAP_PAGES 4

/* Pieces that are mapped as one are as far from each other in the file as in memory, if they are not farther than this. */
#define HOLE_BYTES_MOST (256ull << 10)

struct header {
	char magic[24];
	uint64_t checksum;		/* of all that follows this field */
	uint64_t file_size;
	uint64_t key_size;
	uint64_t extent_count;
	uint64_t data;			/* offset of the first page */
	struct ob_posix_region regions[OB_REGIONS];
};

#define CHECKED_FROM (offsetof(struct header, checksum) + sizeof(uint64_t))

/* Beyond enum ob_snapshot_kind. */
enum {
	EXTENT_COMMITTED = 100,		/* no pages, but accessible memory */
	EXTENT_STACK,
	EXTENT_URGENT_STACK,
	EXTENT_WINDOW,
};

struct ob_extent {
	uint64_t address;
	uint64_t size;
	uint64_t offset;		/* from header.data */
	uint64_t physical;		/* of what a window shows */
	uint32_t kind;
	uint32_t protection;		/* of a window */
};

static __attribute__((format(printf, 3, 4))) int told(struct ob_host *host, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(host->snapshot.status, sizeof(host->snapshot.status), format, arguments);
	va_end(arguments);
	return error;
}

int ob_posix_snapshot_use(struct ob_host *host, int directory, const char *name, const char *key)
{
	if (strlen(name) >= sizeof(host->snapshot.name) || strlen(key) >= sizeof(host->snapshot.key))
		return told(host, -ENAMETOOLONG, "not used: the configuration is too long");
	host->snapshot.directory = directory;
	strcpy(host->snapshot.name, name);
	strcpy(host->snapshot.key, key);
	ob_posix_memory_place(host);
	return told(host, 0, "not used: this kernel cannot be saved");
}

void ob_posix_snapshot_done(struct ob_host *host)
{
	if (host->snapshot.directory >= 0)
		raw_close(host->snapshot.directory);
	host->snapshot.directory = -1;
}

void ob_posix_snapshot_reset(struct ob_host *host)
{
	host->snapshot.directory = -1;
	host->memory.place = 0;
	told(host, 0, "not wanted");
}

/* The parent may be saving one. */
void ob_posix_snapshot_forked(struct ob_host *host)
{
	ob_posix_snapshot_done(host);
	host->snapshot.extents = NULL;
	host->snapshot.extent_count = host->snapshot.extent_room = host->snapshot.data_size = 0;
	told(host, 0, "not wanted");
}

const char *ob_posix_snapshot_status(struct ob_host *host)
{
	return host->snapshot.status;
}

/* The user's alone. */
static bool is_own(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_uid == geteuid() && !(status->st_mode & 077);
}

/* ---- loading ------------------------------------------------------------ */

static uint64_t checksum(const struct header *header)
{
	return ob_posix_checksum((const char *)header + CHECKED_FROM, header->file_size - CHECKED_FROM);
}

static const struct ob_extent *extents_of(const struct header *header)
{
	return (const struct ob_extent *)((const char *)(header + 1) + header->key_size);
}

/* For which version of the file the checksum was right, and since when the host runs. */
struct note {
	uint64_t device, number, size, seconds, nanoseconds;
	char host[40];
};

/* A file that changes twice within this time may show one time for both. */
#define CLOCK_TICK_SECONDS 2

static bool make_note(struct note *note, const struct stat *status)
{
	int fd = raw_open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return false;
	*note = (struct note){
		.device = status->st_dev, .number = status->st_ino, .size = (uint64_t)status->st_size,
		.seconds = (uint64_t)status->st_ctim.tv_sec, .nanoseconds = (uint64_t)status->st_ctim.tv_nsec,
	};
	length = raw_read(fd, note->host, sizeof(note->host));
	raw_close(fd);
	return length > 0;
}

static void note_name(struct ob_host *host, char name[96])
{
	snprintf(name, 96, "%s.checked", host->snapshot.name);
}

static bool is_noted(struct ob_host *host, const struct note *note)
{
	struct note found;
	struct stat status;
	bool same;
	char name[96];
	int fd;

	note_name(host, name);
	fd = raw_openat(host->snapshot.directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0)
		return false;
	same = !fstat(fd, &status) && is_own(&status) && raw_read(fd, &found, sizeof(found)) == sizeof(found) &&
	       !memcmp(&found, note, sizeof(found));
	raw_close(fd);
	return same;
}

/* If that does not work, the checksum is looked at again. */
static void write_note(struct ob_host *host, const struct note *note)
{
	char name[96];
	int fd;

	if ((uint64_t)time(NULL) < note->seconds + CLOCK_TICK_SECONDS)
		return;
	note_name(host, name);
	unlinkat(host->snapshot.directory, name, 0);
	fd = raw_openat(host->snapshot.directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	if (raw_write(fd, note, sizeof(*note)) != sizeof(*note))
		unlinkat(host->snapshot.directory, name, 0);
	raw_close(fd);
}

/* As a whole: that is what the header and the table were read from. */
static bool is_sum_right(const struct header *header, int fd)
{
	const struct header *file = mmap(NULL, header->file_size, PROT_READ, MAP_PRIVATE, fd, 0);
	bool right;

	if (file == MAP_FAILED)
		return false;
	right = !memcmp(file, header, header->data) && header->checksum == checksum(file);
	munmap((void *)file, header->file_size);
	return right;
}

static bool is_right(struct ob_host *host, const struct header *header, int fd, const struct stat *status)
{
	struct note note;
	bool can_note = make_note(&note, status);

	if (can_note && is_noted(host, &note))
		return true;
	if (!is_sum_right(header, fd))
		return false;
	if (can_note)
		write_note(host, &note);
	return true;
}

/* Returns what is wrong with the file, NULL if nothing is. */
static const char *fault_of(struct ob_host *host, const struct header *header, int fd, const struct stat *status)
{
	uint64_t size = (uint64_t)status->st_size;
	uint64_t key_size = strlen(host->snapshot.key) + 1;

	if (memcmp(header->magic, MAGIC, sizeof(MAGIC)) || header->file_size != size)
		return "it is no snapshot, or not whole";
	if (header->data > size || header->data < sizeof(*header) || header->key_size > header->data - sizeof(*header) ||
	    header->extent_count > (header->data - sizeof(*header) - header->key_size) / sizeof(struct ob_extent))
		return "its header is damaged";
	if (!is_right(host, header, fd, status))
		return "its checksum is wrong";
	if (header->key_size < key_size || memcmp(header + 1, host->snapshot.key, key_size))
		return "it was made with something else";
	for (uint64_t i = 0; i < header->extent_count; i++) {
		const struct ob_extent *e = &extents_of(header)[i];

		if (e->kind != EXTENT_COMMITTED &&
		    (e->offset > size - header->data || e->size > size - header->data - e->offset))
			return "its table is damaged";
	}
	return NULL;
}

/* Header, key and table: NULL if it is not that much. To be freed. */
static struct header *read_header(int fd, const struct stat *status)
{
	struct header first, *header;

	if (raw_pread(fd, &first, sizeof(first), 0) != (ssize_t)sizeof(first) || first.data < sizeof(first) ||
	    first.data > (uint64_t)status->st_size || first.data > HEADER_BYTES_MOST)
		return NULL;
	header = malloc(first.data);
	if (header && raw_pread(fd, header, first.data, 0) == (ssize_t)first.data)
		return header;
	free(header);
	return NULL;
}

/* Opens the file if it may be trusted. */
static int open_file(struct ob_host *host, struct stat *status)
{
	int fd = raw_openat(host->snapshot.directory, host->snapshot.name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);

	if (fd < 0)
		return told(host, -ENOENT, errno == ENOENT ? "not used: there was none" : "not used: it cannot be opened: %m");
	if (fstat(fd, status) || !is_own(status)) {
		raw_close(fd);
		return told(host, -ENOENT, "not used: it is not the user's own file alone");
	}
	if ((uint64_t)status->st_size < sizeof(struct header) || (uint64_t)status->st_size > FILE_BYTES_MOST) {
		raw_close(fd);
		return told(host, -ENOENT, "not used: it has an impossible size");
	}
	/* That it is used, for who cleans up. */
	if (status->st_mtime < time(NULL) - DAY_SECONDS && !futimens(fd, NULL))
		fstat(fd, status);
	return fd;
}

static int fill(struct ob_host *host, const struct header *header, const struct ob_extent *e, int fd)
{
	switch (e->kind) {
	case EXTENT_COMMITTED:
		return ob_host_region_commit(host, e->address, e->size);
	case EXTENT_STACK:
	case EXTENT_URGENT_STACK:
		return ob_posix_memory_note_stack(host, e->address, e->size, e->kind == EXTENT_URGENT_STACK);
	case EXTENT_WINDOW:
		return ob_posix_memory_note_window(host, e->address, e->size, e->physical, e->protection);
	}
	return ob_posix_memory_fill(host, e->address, e->size, fd, header->data + e->offset,
				    (enum ob_snapshot_kind)e->kind);
}

static bool is_in(struct ob_host *host, enum ob_region region, uint64_t address)
{
	const struct ob_posix_region *r = &ob_posix_memory_regions(host)[region];

	return address >= r->address && address - r->address < r->size;
}

static bool is_in_image(struct ob_host *host, uint64_t address)
{
	for (int i = 0; i < OB_REGIONS; i++)
		if (is_in(host, (enum ob_region)i, address))
			return false;
	return true;
}

static bool is_stack(const struct ob_extent *e)
{
	return e->kind == EXTENT_STACK || e->kind == EXTENT_URGENT_STACK;
}

/* Mapped without access at first, together with its neighbours. */
static bool is_closed(const struct ob_extent *e)
{
	return is_stack(e) || e->kind == EXTENT_WINDOW;
}

static bool is_continued(const struct ob_extent *e, const struct ob_extent *next)
{
	return is_closed(next) && is_stack(next) == is_stack(e) && next->address > e->address &&
	       next->address - e->address == next->offset - e->offset;
}

/* The pieces from this one on that one call can map. */
static int map_closed(struct ob_host *host, const struct header *header, const struct ob_extent *e, const struct ob_extent *end, int fd)
{
	const struct ob_extent *last = e;

	while (last + 1 < end && is_continued(last, last + 1))
		last++;
	return ob_posix_memory_map_closed(host, e->address, last->address + last->size - e->address,
					  fd, header->data + e->offset);
}

/* Those of the image, or all others. */
static int fill_all(struct ob_host *host, const struct header *header, int fd, bool image)
{
	const struct ob_extent *first = extents_of(header), *end = first + header->extent_count, *e;
	int error = 0;

	for (e = first; e < end && !error; e++) {
		if (is_in_image(host, e->address) != image)
			continue;
		if (is_closed(e) && (e == first || !is_continued(e - 1, e)))
			error = map_closed(host, header, e, end, fd);
		if (!error)
			error = fill(host, header, e, fd);
	}
	return error;
}

/* The message is short: snapshot names are. */
static __attribute__((noreturn)) void end_half_loaded(struct ob_host *host, int error)
{
	char line[256];
	int length = snprintf(line, sizeof(line), "outboard: the snapshot %.96s cannot be mapped, and is removed: %.96s\n",
			      host->snapshot.name, strerror(-error));

	raw_write(STDERR_FILENO, line, (size_t)length);
	abort();
}

/* The image comes last: when its data are mixed, there is no way back. */
static int load_from(struct ob_host *host, const struct header *header, int fd)
{
	int error = ob_posix_memory_reserve(host, header->regions);

	if (error)
		return told(host, error, "not used: its addresses are not free in this process");
	error = fill_all(host, header, fd, false);
	if (error) {
		ob_host_regions_release(host);
		return told(host, error, "not used: it cannot be mapped: %s", strerror(-error));
	}
	error = fill_all(host, header, fd, true);
	if (error) {
		unlinkat(host->snapshot.directory, host->snapshot.name, 0);
		end_half_loaded(host, error);
	}
	ob_posix_memory_filled(host);
	if (ob_posix_faults_are_blocked())
		ob_posix_closed_open_all(host);
	return told(host, 0, "started from %s", host->snapshot.name);
}

int ob_host_snapshot_load(struct ob_host *host)
{
	struct header *header;
	const char *fault;
	struct stat status;
	int fd, error = -ENOENT;

	if (host->snapshot.directory < 0)
		return -ENOENT;
	fd = open_file(host, &status);
	if (fd < 0)
		return fd;
	header = read_header(fd, &status);
	fault = header ? fault_of(host, header, fd, &status) : "its header is damaged";
	if (fault)
		told(host, 0, "not used: %s", fault);
	else
		error = load_from(host, header, fd);
	free(header);
	raw_close(fd);
	return error ? -ENOENT : 0;
}

/* ---- saving ------------------------------------------------------------- */

int ob_host_snapshot_begin(struct ob_host *host)
{
	if (host->snapshot.directory < 0)
		return -ENOENT;
	host->snapshot.extent_count = 0;
	host->snapshot.data_size = 0;
	return 0;
}

static int add_extent(struct ob_host *host, uint64_t address, uint64_t size, uint32_t kind)
{
	if (host->snapshot.extent_count == host->snapshot.extent_room) {
		uint64_t room = host->snapshot.extent_room ? 2 * host->snapshot.extent_room : 64;
		struct ob_extent *more = realloc(host->snapshot.extents, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		host->snapshot.extents = more;
		host->snapshot.extent_room = room;
	}
	host->snapshot.extents[host->snapshot.extent_count++] = (struct ob_extent){
		.address = address, .size = size, .offset = host->snapshot.data_size, .kind = kind,
	};
	if (kind != EXTENT_COMMITTED)
		host->snapshot.data_size += (size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	return 0;
}

/* At the distance from the one before that it has in memory, if that is not far. */
static int add_closed(struct ob_host *host, uint64_t address, uint64_t size, uint32_t kind)
{
	const struct ob_extent *last = host->snapshot.extent_count ? &host->snapshot.extents[host->snapshot.extent_count - 1] : NULL;

	if (last && is_closed(last) && address >= last->address + last->size &&
	    address - (last->address + last->size) <= HOLE_BYTES_MOST)
		host->snapshot.data_size += address - (last->address + last->size);
	return add_extent(host, address, size, kind);
}

static bool is_zero_page(uint64_t address)
{
	const char *page = (const char *)address;

	return !*page && !memcmp(page, page + 1, PAGE_BYTES - 1);
}

/* How many of the pages from here on are zero, or are not. */
static uint64_t run_length(uint64_t address, uint64_t end, bool zero)
{
	uint64_t start = address;

	while (address < end && is_zero_page(address) == zero)
		address += PAGE_BYTES;
	return address - start;
}

/* A range of pages, without its longer runs of zeroes. */
static int add_sparse(struct ob_host *host, uint64_t address, uint64_t end, uint32_t kind)
{
	uint64_t start = address, zeroes;
	int error = 0;

	while (address < end && !error) {
		zeroes = run_length(address, end, true);
		if (zeroes < GAP_PAGES * PAGE_BYTES && address > start && address + zeroes < end) {
			address += zeroes;
		} else {
			if (address > start)
				error = add_extent(host, start, address - start, kind);
			start = address += zeroes;
		}
		address += run_length(address, end, false);
	}
	if (!error && address > start)
		error = add_extent(host, start, address - start, kind);
	return error;
}

/* Part of the image: what is less than a page of it is somebody else's too. */
static int add_image(struct ob_host *host, uint64_t address, uint64_t end)
{
	uint64_t first = (address + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1), last = end & ~(PAGE_BYTES - 1);
	int error = 0;

	if (first >= last)
		return add_extent(host, address, end - address, OB_SNAPSHOT_PRIVATE);
	if (address < first)
		error = add_extent(host, address, first - address, OB_SNAPSHOT_PRIVATE);
	if (!error)
		error = add_extent(host, first, last - first, OB_SNAPSHOT_PRIVATE);
	if (!error && last < end)
		error = add_extent(host, last, end - last, OB_SNAPSHOT_PRIVATE);
	return error;
}

int ob_host_snapshot_add(struct ob_host *host, uint64_t address, uint64_t size, enum ob_snapshot_kind kind)
{
	int error;

	if (is_in(host, OB_REGION_RAM, address))
		return add_sparse(host, address, address + size, kind);
	if (!is_in(host, OB_REGION_STACKS, address) && !is_in(host, OB_REGION_PAGES, address))
		return add_image(host, address, address + size);
	if (is_in(host, OB_REGION_STACKS, address))
		return add_closed(host, address, size, kind == OB_SNAPSHOT_URGENT ? EXTENT_URGENT_STACK : EXTENT_STACK);
	error = add_extent(host, address, size, EXTENT_COMMITTED);
	return error ? error : add_sparse(host, address, address + size, kind);
}

int ob_host_snapshot_add_window(struct ob_host *host, uint64_t address, uint64_t physical, uint32_t protection)
{
	struct ob_extent *last = host->snapshot.extent_count ? &host->snapshot.extents[host->snapshot.extent_count - 1] : NULL;
	int error;

	if (last && last->kind == EXTENT_WINDOW && last->address + last->size == address &&
	    last->physical + last->size == physical && last->protection == protection) {
		last->size += PAGE_BYTES;
		host->snapshot.data_size += PAGE_BYTES;
		return 0;
	}
	error = add_closed(host, address, PAGE_BYTES, EXTENT_WINDOW);
	if (!error) {
		last = &host->snapshot.extents[host->snapshot.extent_count - 1];
		last->physical = physical;
		last->protection = protection;
	}
	return error;
}

static int write_all(int fd, const void *from, uint64_t size, uint64_t offset)
{
	while (size) {
		ssize_t written = raw_pwrite(fd, from, size, (off_t)offset);

		if (written <= 0)
			return written ? -errno : -ENOSPC;
		from = (const char *)from + written;
		offset += (uint64_t)written;
		size -= (uint64_t)written;
	}
	return 0;
}

/* What is zero stays a hole of the file. */
static int write_sparse(int fd, uint64_t address, uint64_t size, uint64_t offset)
{
	uint64_t end = address + size, at = address;
	int error = 0;

	while (at < end && !error) {
		uint64_t zeroes = run_length(at, end, true), length = run_length(at + zeroes, end, false);

		at += zeroes;
		error = write_all(fd, (const void *)at, length, offset + (at - address));
		at += length;
	}
	return error;
}

static struct header make_header(struct ob_host *host)
{
	struct header header = {
		.key_size = (strlen(host->snapshot.key) + 8) & ~7ull,
		.extent_count = host->snapshot.extent_count,
	};

	memcpy(header.magic, MAGIC, sizeof(MAGIC));
	memcpy(header.regions, ob_posix_memory_regions(host), sizeof(header.regions));
	header.data = sizeof(header) + header.key_size + header.extent_count * sizeof(struct ob_extent);
	header.data = (header.data + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	header.file_size = header.data + host->snapshot.data_size;
	return header;
}

/* Memory may change a little while it is written: the checksum is that of the file. */
static int seal(int fd, uint64_t size)
{
	struct header *header = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	uint64_t sum;

	if (header == MAP_FAILED)
		return -errno;
	sum = checksum(header);
	munmap(header, size);
	return write_all(fd, &sum, sizeof(sum), offsetof(struct header, checksum));
}

static int write_file(struct ob_host *host, int fd)
{
	struct header header = make_header(host);
	int error = ftruncate(fd, (off_t)header.file_size) ? -errno : 0;

	if (!error)
		error = write_all(fd, &header, sizeof(header), 0);
	if (!error)
		error = write_all(fd, host->snapshot.key, strlen(host->snapshot.key), sizeof(header));
	if (!error)
		error = write_all(fd, host->snapshot.extents, host->snapshot.extent_count * sizeof(struct ob_extent),
				  sizeof(header) + header.key_size);
	for (uint64_t i = 0; i < host->snapshot.extent_count && !error; i++) {
		const struct ob_extent *e = &host->snapshot.extents[i];

		if (is_stack(e))
			error = write_sparse(fd, e->address, e->size, header.data + e->offset);
		else if (e->kind != EXTENT_COMMITTED)
			error = write_all(fd, (const void *)e->address, e->size, header.data + e->offset);
	}
	return error ? error : seal(fd, header.file_size);
}

/* NAME.snapshot, or .NAME.snapshot.RANDOM while it is written. */
static bool is_snapshot(const char *name)
{
	name += *name == '.';
	return strspn(name, "0123456789abcdef") == 16 && !strncmp(name + 16, SUFFIX, strlen(SUFFIX));
}

/* What has not been used for a month, or was left half-written, goes; and the oldest one, if there are many. */
static void clean_directory(struct ob_host *host)
{
	time_t oldest_time = time(NULL);
	char oldest[256] = "";
	int count = 0;

	DIR *directory = fdopendir(raw_openat(host->snapshot.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
	time_t limit = time(NULL) - KEPT_SECONDS;
	struct dirent *entry;
	struct stat status;

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (!is_snapshot(entry->d_name) ||
		    fstatat(host->snapshot.directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
			continue;
		if (status.st_mtime < limit)
			unlinkat(host->snapshot.directory, entry->d_name, 0);
		else
			count++;
		if (status.st_mtime >= limit && status.st_mtime < oldest_time) {
			oldest_time = status.st_mtime;
			snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
		}
	}
	if (count > KEPT_FILES && oldest[0])
		unlinkat(host->snapshot.directory, oldest, 0);
	closedir(directory);
}

int ob_host_snapshot_commit(struct ob_host *host)
{
	char temporary[96];
	uint64_t random;
	int fd, error;

	if (ob_host_random(host, &random, sizeof(random)))
		return -EIO;
	snprintf(temporary, sizeof(temporary), ".%s.%016llx", host->snapshot.name, (unsigned long long)random);
	fd = raw_openat(host->snapshot.directory, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	error = write_file(host, fd);
	raw_close(fd);
	if (!error && renameat(host->snapshot.directory, temporary, host->snapshot.directory, host->snapshot.name))
		error = -errno;
	if (error)
		unlinkat(host->snapshot.directory, temporary, 0);
	clean_directory(host);
	return error;
}

void ob_host_snapshot_end(struct ob_host *host, int error)
{
	size_t length = strlen(host->snapshot.status);

	free(host->snapshot.extents);
	host->snapshot.extents = NULL;
	host->snapshot.extent_room = 0;
	if (error)
		snprintf(host->snapshot.status + length, sizeof(host->snapshot.status) - length, "; not saved: %s", strerror(-error));
	else
		snprintf(host->snapshot.status + length, sizeof(host->snapshot.status) - length, "; saved as %s", host->snapshot.name);
}
