// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stacks, and pieces of the MODULES window, that are mapped from a snapshot.
 *
 * A piece of the window is a private mapping of the file, and the page of RAM behind it is empty.
 * Before the kernel changes the window there, the piece is settled: its contents move to RAM. All
 * of them are mapped without access at first (closed.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "regions.h"
#include "raw.h"

/* A thread that writes meanwhile faults, and goes on when the window shows the page of RAM. */
static int settle(struct ob_host *host, const struct ob_window_piece *piece, uint64_t from,
		  uint64_t to)
{
	off_t physical = (off_t)(piece->physical + (from - piece->address));
	uint64_t size = to - from;

	if (mprotect((void *)from, size, PROT_READ) ||
	    raw_pwrite(host->ram.fd, (void *)from, size, physical) != (ssize_t)size)
		return -ENOMEM;
	return 0;
}

int ob_posix_pieces_map(struct ob_host *host, uint64_t address, uint64_t size, int fd,
			uint64_t offset)
{
	void *got;

	if (!ob_posix_is_page_range(address, size) ||
	    (!ob_posix_region_contains(host, OB_REGION_MODULES, address, size) &&
	     !ob_posix_region_contains(host, OB_REGION_STACKS, address, size)))
		return -EINVAL;
	got = mmap((void *)address, size, PROT_NONE, MAP_PRIVATE | MAP_FIXED, fd, (off_t)offset);
	return got == MAP_FAILED ? -errno : 0;
}

int ob_posix_pieces_note_stack(struct ob_host *host, uint64_t address, uint64_t size, bool urgent)
{
	return ob_posix_closed_add(host, address, size, PROT_READ | PROT_WRITE, urgent);
}

int ob_posix_pieces_note_window(struct ob_host *host, uint64_t address, uint64_t size,
				uint64_t physical, uint32_t protection)
{
	struct ob_window_piece piece = { address, size, physical };

	if (host->pieces.count == OB_WINDOW_PIECES)
		return settle(host, &piece, address, address + size);
	host->pieces.pieces[host->pieces.count++] = piece;
	return ob_posix_closed_add(host, address, size, ob_posix_protection(protection), false);
}

/* Shrinks a piece to what is outside of [from, to). */
static void shrink_piece(struct ob_host *host, struct ob_window_piece *piece, uint64_t from,
			 uint64_t to)
{
	uint64_t end = piece->address + piece->size;

	if (to < end && from > piece->address && host->pieces.count < OB_WINDOW_PIECES)
		host->pieces.pieces[host->pieces.count++] = (struct ob_window_piece){
			to, end - to, piece->physical + (to - piece->address)
		};
	if (from > piece->address) {
		piece->size = from - piece->address;
	} else {
		piece->physical += to - piece->address;
		piece->address = to;
		piece->size = end - to;
	}
}

/*
 * Prepares a change of the window there. `keep`: copies the contents to RAM. The kernel lets no
 * other thread do the same meanwhile.
 */
int ob_posix_pieces_settle(struct ob_host *host, uint64_t address, uint64_t size, bool keep)
{
	int error = 0;

	for (int i = 0; i < host->pieces.count && !error; i++) {
		struct ob_window_piece *piece = &host->pieces.pieces[i];
		uint64_t from = piece->address > address ? piece->address : address;
		uint64_t end = piece->address + piece->size;
		uint64_t to = end < address + size ? end : address + size;
		uint64_t cut = from;

		if (from >= to)
			continue;
		error = ob_posix_closed_settle(host, piece->address, piece->size);
		if (error)
			break;
		/*
		 * If the table has no room for two halves, RAM also gets the first one, which is in
		 * use.
		 */
		if (from > piece->address && to < end && host->pieces.count == OB_WINDOW_PIECES) {
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

void ob_posix_pieces_forget(struct ob_host *host)
{
	host->pieces.count = 0;
}
