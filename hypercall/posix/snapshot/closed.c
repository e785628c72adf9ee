// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pieces of a snapshot that are mapped without access.
 *
 * To give each piece its own protection costs a system call, and most stacks and components are not
 * used for a while, or ever. So a piece is opened by the thread that touches it first, in the
 * handler of the fault. When the kernel runs, one thread opens all of them. A thread that blocks
 * SIGSEGV would die by such a fault: before it becomes a client, all pieces are opened.
 *
 *   closed -> open -> settled
 *
 * Opening is one mprotect(). A second thread that does it changes nothing, so nobody waits. A piece
 * is settled before its mappings change. Then no thread may be about to open it: threads between
 * reading the state and opening are counted, and no signal can hold them there.
 *
 * The booting thread adds the pieces, before anything else can touch them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"


enum { CLOSED, OPEN, SETTLED };

static int protect(const struct ob_closed_piece *piece)
{
	return mprotect((void *)piece->address, piece->size, piece->protection) ? -errno : 0;
}

int ob_posix_closed_add(struct ob_host *host, uint64_t address, uint64_t size, int protection,
			bool urgent)
{
	struct ob_closed_piece *piece = &host->closed.pieces[host->closed.count];

	if (host->closed.count == OB_CLOSED_PIECES)
		return mprotect((void *)address, size, protection) ? -errno : 0;
	*piece = (struct ob_closed_piece){ address, size, protection, CLOSED };
	host->closed.count++;
	/* A host may forbid executable memory: open the first such piece now, to know. */
	if (!urgent && (host->closed.executable || !(protection & PROT_EXEC)))
		return 0;
	host->closed.executable |= protection & PROT_EXEC;
	piece->state = OPEN;
	return protect(piece);
}

/*
 * -ENOMEM: the host has no room for another mapping. Other errors cannot be handled: then faults
 * there are the kernel's. Signals are blocked.
 */
static int try_to_open(struct ob_host *host, struct ob_closed_piece *piece)
{
	uint32_t before = CLOSED;
	int error = 0;

	__atomic_fetch_add(&host->closed.opening, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&piece->state, __ATOMIC_SEQ_CST) == CLOSED) {
		error = protect(piece);
		if (error != -ENOMEM)
			__atomic_compare_exchange_n(&piece->state, &before, error ? SETTLED : OPEN,
						    false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
	__atomic_fetch_sub(&host->closed.opening, 1, __ATOMIC_SEQ_CST);
	return error == -ENOMEM ? error : 0;
}

/* If the host has no room, waits until another thread unmaps something. */
static void open_pieces(struct ob_host *host, struct ob_closed_piece *piece, uint32_t count)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	for (; count--; piece++) {
		while (try_to_open(host, piece)) {
			ob_posix_headroom_give_up(host);
			sched_yield();
		}
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool is_in(struct ob_host *host, enum ob_region region, uint64_t address)
{
	const struct ob_posix_region *r = &host->regions[region];

	return address - r->address < r->size;
}

/* Most faults are in the client window, or of a bad pointer. */
static struct ob_closed_piece *find(struct ob_host *host, uint64_t address)
{
	if (!is_in(host, OB_REGION_STACKS, address) && !is_in(host, OB_REGION_MODULES, address))
		return NULL;
	for (uint32_t i = 0; i < host->closed.count; i++)
		if (address - host->closed.pieces[i].address < host->closed.pieces[i].size)
			return &host->closed.pieces[i];
	return NULL;
}

/*
 * If another thread has opened the piece meanwhile, the fault is over as well: an open piece does
 * not fault in this way.
 */
bool ob_posix_closed_touched(struct ob_host *host, uint64_t address, int protection)
{
	struct ob_closed_piece *piece = find(host, address);

	if (!piece || !(piece->protection & protection))
		return false;
	open_pieces(host, piece, 1);
	return __atomic_load_n(&piece->state, __ATOMIC_SEQ_CST) != SETTLED;
}

void ob_posix_closed_open_all(struct ob_host *host)
{
	if (__atomic_load_n(&host->closed.all_open, __ATOMIC_ACQUIRE))
		return;
	open_pieces(host, host->closed.pieces, host->closed.count);
	__atomic_store_n(&host->closed.all_open, true, __ATOMIC_RELEASE);
}

static int settle(struct ob_host *host, struct ob_closed_piece *piece)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	error = try_to_open(host, piece);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return error;
	__atomic_store_n(&piece->state, SETTLED, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&host->closed.opening, __ATOMIC_SEQ_CST))
		sched_yield();
	return 0;
}

int ob_posix_closed_settle(struct ob_host *host, uint64_t address, uint64_t size)
{
	int error = 0;

	for (uint32_t i = 0; i < host->closed.count && !error; i++) {
		struct ob_closed_piece *piece = &host->closed.pieces[i];

		if (address < piece->address + piece->size && piece->address < address + size &&
		    __atomic_load_n(&piece->state, __ATOMIC_SEQ_CST) != SETTLED)
			error = settle(host, piece);
	}
	return error;
}

void ob_posix_closed_forget(struct ob_host *host)
{
	memset(&host->closed, 0, sizeof(host->closed));
}

void ob_host_snapshot_finish(struct ob_host *host)
{
	ob_posix_closed_open_all(host);
}
