/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ports of a hub for its tests. Every frame says who sent it, its number and its length; its other
 * contents follow from these. The receiver checks all of it.
 */
#ifndef OUTBOARD_TESTS_NET_HUB_MEMBER_H
#define OUTBOARD_TESTS_NET_HUB_MEMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "net_port.h"

#define HEADER OB_NET_HEADER_BYTES
#define ALL 0xff
#define MEMBERS 66
#define SECONDS 1000

/* The frames of one sender to one address. */
struct stream {
	uint32_t first, next;		/* numbers; nothing came if next is 0 */
	uint64_t seen;			/* a bit for each number below 64 */
};

/* A port of the hub, and what came to it. */
struct member {
	unsigned int id;
	struct ob_net_port port;
	struct ob_net_backend *hub;
	uint32_t sent[256];		/* to each id, and to ALL */
	struct stream own[256];		/* from each id to this one */
	struct stream common[256];	/* from each id to ALL */
	bool gaps;			/* frames may be lost */
	bool any_order;			/* frames may overtake each other */
};

extern struct member members[MEMBERS];
extern char path[200], error[256];	/* of the hub that is tested */

/* ---- ports ------------------------------------------------------------------ */

int try_join(struct member *member, const char *target, uint32_t mtu);
struct member *join(unsigned int id);
struct member *join_with(unsigned int id, unsigned int buffers);
void leave(struct member *member);
int peers_of(const struct member *member);
void wait_for_peers(const struct member *member, int count);
/* Both know each other's address then. The second one joined last. */
void meet(struct member *first, struct member *last);

/* ---- frames ----------------------------------------------------------------- */

/* Sends the next frame to an id, or to ALL. 0, or the error of the back-end. */
int try_send(struct member *member, unsigned int to, uint32_t length);
/* As try_send, but waits for room. */
void send_to(struct member *member, unsigned int to, uint32_t length);
uint32_t random_length(void);

uint32_t next_of(struct stream *stream);
void wait_for_stream(struct stream *stream, uint32_t count);
/* Waits until all frames to the member are there. */
void wait_for(struct member *member, const struct member *from);
/* Waits for so many frames to ALL. */
void wait_for_common(struct member *member, unsigned int from, uint32_t count);

/* ---- processes -------------------------------------------------------------- */

/* Runs a role in another process: not by fork() alone, which copies locks of threads. */
pid_t start(const char *role, unsigned int id);
void finish(pid_t child);
void end(pid_t child);
void check_not_failed(pid_t child);
double now(void);

struct test {
	const char *name;
	void (*run)(void);
	bool root;		/* only root runs it */
};

struct role {
	const char *name;
	void (*run)(unsigned int id);
};

/* Both lists end with an entry without a name. Arguments: DIRECTORY [TEST...]. */
int run_tests(const struct test *tests, const struct role *roles, int count, char **arguments);

#endif
