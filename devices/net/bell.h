/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A bell: an eventfd that a stranger holds, too, and that this process writes (../shared_fd.h).
 *
 * A write blocks if the stranger has filled the counter and cleared O_NONBLOCK. The host has no
 * write of an eventfd that never blocks. So the thread that rings a bell holds no vCPU, is not in
 * RAM, and nobody waits for it without calling ob_bell_release(): that empties the counter, which
 * lets the write go on. A stranger that fills the counter again, in time and each time, keeps the
 * thread: who waits has a patience, and leaves the thread and its memory behind.
 *
 *   state	a thread that rings	changed by
 *   silent	goes away		ob_bell_silence(), which waits for those that ring
 *   open	writes			ob_bell_open()
 *
 * A thread counts itself in `users`, then reads `open`. ob_bell_silence() clears `open`, then reads
 * `users`. So when it returns true, nobody uses the descriptor, and it may be closed.
 */
#ifndef OUTBOARD_DEVICES_NET_BELL_H
#define OUTBOARD_DEVICES_NET_BELL_H

#include <stdbool.h>
#include <stdint.h>

struct ob_host;

struct ob_bell {
	int fd;			/* -1: none. Changed while the bell is silent */
	bool open;		/* atomic */
	uint32_t users;		/* threads that may use the descriptor; atomic */
};

/* How long somebody waits for a thread that rings. */
#define OB_BELL_PATIENCE_NSEC 2000000000ull

void ob_bell_open(struct ob_bell *bell);
/* Blocks for the patience at most. False: a thread still rings. */
bool ob_bell_silence(struct ob_bell *bell, struct ob_host *host);
/* May block. */
void ob_bell_ring(struct ob_bell *bell);
/* Lets a thread that rings go on. Never blocks. */
void ob_bell_release(struct ob_bell *bell);

/*
 * Waits until the word is not 0, and releases the bells meanwhile. False if one of them has rung
 * for twice the patience: the thread that sets the word is left behind.
 */
bool ob_bell_wait(struct ob_bell *const bells[], unsigned int count, struct ob_host *host,
		  const uint32_t *word);

#endif
