/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The format of snapshot files, and what the files that read and write them share.
 *
 *   struct ob_snapshot_header | key | table of struct ob_extent | pages
 */
#ifndef OUTBOARD_POSIX_SNAPSHOT_H
#define OUTBOARD_POSIX_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define OB_SNAPSHOT_MAGIC "outboard snapshot 2\n"
#define OB_SNAPSHOT_DAY (24 * 3600)	/* seconds */

/* A file that nobody else can read or write. */
static inline bool ob_snapshot_is_own(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_uid == geteuid() && !(status->st_mode & 077);
}

struct ob_snapshot_header {
	char magic[24];
	uint64_t checksum;		/* of everything after this field */
	uint64_t file_size;
	uint64_t key_size;
	uint64_t extent_count;
	uint64_t data;			/* offset of the first page */
	struct ob_posix_region regions[OB_REGIONS];
};

/* Kinds of extents beyond enum ob_snapshot_kind. */
enum {
	EXTENT_COMMITTED = 100,		/* no pages, but accessible memory */
	EXTENT_STACK,
	EXTENT_URGENT_STACK,
	EXTENT_WINDOW,
};

struct ob_extent {
	uint64_t address;
	uint64_t size;
	uint64_t offset;		/* from the header's data */
	uint64_t physical;		/* in RAM, of an extent of a window */
	uint32_t kind;
	uint32_t protection;		/* of a window */
};

/* The version of the file whose checksum was right, and the boot of the host. */
struct ob_snapshot_note {
	uint64_t device, number, size, seconds, nanoseconds;
	char host[40];
};

/* request.c: sets the status line. Returns `error`. */
__attribute__((format(printf, 3, 4)))
int ob_snapshot_report(struct ob_host *host, int error, const char *format, ...);

/* check.c: opens the file. -ENOENT: there is none, or it is not the user's own. */
int ob_snapshot_open(struct ob_host *host, struct stat *status);
/* Header, key and table; NULL: they are damaged, or there is no memory. The caller frees them. */
struct ob_snapshot_header *ob_snapshot_read_header(int fd, const struct stat *status);
/* Returns what is wrong with the file; NULL: it may be mapped. */
const char *ob_snapshot_fault(struct ob_host *host, const struct ob_snapshot_header *header,
			      int fd, const struct stat *status);
/* The checksum of the whole file, which begins with this header. */
uint64_t ob_snapshot_checksum(const struct ob_snapshot_header *header);
const struct ob_extent *ob_snapshot_extents(const struct ob_snapshot_header *header);

/* checked.c. False: the host does not say when it was booted. */
bool ob_snapshot_make_note(struct ob_snapshot_note *note, const struct stat *status);
bool ob_snapshot_is_noted(struct ob_host *host, const struct ob_snapshot_note *note);
void ob_snapshot_write_note(struct ob_host *host, const struct ob_snapshot_note *note);

/* load.c */
bool ob_snapshot_is_in(struct ob_host *host, enum ob_region region, uint64_t address);
bool ob_snapshot_is_stack(const struct ob_extent *e);
/* Mapped without access at first, together with its neighbours. */
bool ob_snapshot_is_closed(const struct ob_extent *e);

/* extents.c: bytes of the pages from here on that are zero, or that are not. */
uint64_t ob_snapshot_run_length(uint64_t address, uint64_t end, bool zero);

/* clean.c: removes old files from the directory. */
void ob_snapshot_clean(struct ob_host *host);

#endif
