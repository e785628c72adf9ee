/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of the hub back-end. hub.c explains the protocol.
 *
 *   hub.c		opens and closes a port
 *   hub_file.c		the hub's file: format, locks, entries of the ports
 *   hub_open.c		opens the hub's file, and the memory of other ports
 *   hub_memory.c	shared memory of this port, and of the other ports
 *   hub_peers.c	which other ports there are
 *   hub_frames.c	puts frames into rings, and takes them out
 *   hub_learn.c	which port has a MAC address
 *   hub_receive.c	who receives: the port's thread, or one that waits for the kernel
 */
#ifndef OUTBOARD_DEVICES_NET_HUB_H
#define OUTBOARD_DEVICES_NET_HUB_H

#include <sys/types.h>

#include "fork_owner.h"
#include "backend.h"
#include "spin.h"
#include "taker.h"

#define OB_HUB_VERSION 1
#define OB_HUB_PORTS 64
#define OB_HUB_RING_BYTES (4ul << 20)
#define OB_HUB_MTU_MOST 65521u
/* How often a port looks at the file while its kernel does not use it. */
#define OB_HUB_SECONDS_UNUSED 4
/* Frames pass between kernels as they are. */
#define OB_HUB_FEATURE(name) (1ULL << VIRTIO_NET_F_##name)
#define OB_HUB_OFFLOADS \
	(OB_HUB_FEATURE(CSUM) | OB_HUB_FEATURE(HOST_TSO4) | OB_HUB_FEATURE(HOST_TSO6) | \
	 OB_HUB_FEATURE(HOST_ECN) | OB_HUB_FEATURE(HOST_USO) | OB_HUB_FEATURE(GUEST_CSUM) | \
	 OB_HUB_FEATURE(GUEST_TSO4) | OB_HUB_FEATURE(GUEST_TSO6) | OB_HUB_FEATURE(GUEST_ECN) | \
	 OB_HUB_FEATURE(GUEST_USO4) | OB_HUB_FEATURE(GUEST_USO6))
/* A new port does not spin for so long. */
#define OB_HUB_START_NSEC 1000000000ull

/* ---- the file -------------------------------------------------------------- */

#define OB_HUB_MAGIC "outboard hub\n"

struct ob_hub_header {
	char magic[16];
	uint32_t version;
	uint32_t mtu;		/* of a port that asks for none; 0: the kernel chooses */
	uint32_t reserved[10];
};

/* Where the memory of a port is: descriptors of a process. */
struct ob_hub_entry {
	uint64_t number;	/* random, of this use of the port; 0: nobody uses it */
	int32_t process;
	int32_t memory;
	int32_t bell;
	uint32_t reserved;
};

struct ob_hub_file {
	struct ob_hub_header header;
	struct ob_hub_entry entries[OB_HUB_PORTS];
};

/* ---- the memory of a port ---------------------------------------------------- */

/* One other port, as the owner of the memory sees it. Positions count bytes, and never go back. */
struct ob_hub_link {
	uint64_t number;	/* of the other port; 0: none */
	_Alignas(64) uint64_t sent;	/* end of what is in the ring to that port */
	_Alignas(64) uint64_t taken;	/* end of what was read from that port's ring */
};

struct ob_hub_control {
	uint32_t magic;
	uint32_t version;
	uint64_t number;
	uint32_t port;
	/* Odd while nobody looks for frames; another number each time. */
	_Alignas(64) uint64_t sleep;
	_Alignas(64) struct ob_hub_link links[OB_HUB_PORTS];
};

#define OB_HUB_CONTROL_BYTES 16384ul
#define OB_HUB_MEMORY_BYTES (OB_HUB_CONTROL_BYTES + OB_HUB_PORTS * OB_HUB_RING_BYTES)

_Static_assert(sizeof(struct ob_hub_control) <= OB_HUB_CONTROL_BYTES, "rings follow the control");

/* The only memory that other ports write to. */
struct ob_hub_bell {
	uint32_t rings;		/* the futex of the thread */
	uint32_t changes;	/* of the file, reported by other ports */
};

#define OB_HUB_BELL_BYTES 4096ul

/* ---- this process ------------------------------------------------------------ */

/* Another port. The pointers are into its memory, which it may change at any time. */
struct ob_hub_peer {
	uint64_t number;
	const struct ob_hub_control *control;
	const char *ring;	/* its ring to this port */
	struct ob_hub_bell *bell;
	/* Of the thread that transmits. */
	uint64_t sent;		/* as in our link */
	uint64_t taken_seen;	/* as in its link, at some time */
	uint32_t unannounced;	/* bytes that it was not woken for */
	uint64_t woken;		/* the sleep that it was woken from last */
	/* Of the taker. */
	uint64_t taken;		/* as in our link */
	uint64_t sent_seen;	/* as in its link, at some time */
	uint32_t looks_after_end;	/* how often its frames were waited for */
	bool broken;		/* it breaks the protocol, and nothing is read from it */
	struct ob_hub_peer *next_retired;
};

#define OB_HUB_LEARNT 1024

struct ob_hub {
	struct ob_net_backend backend;
	struct ob_host *host;
	struct ob_net_port *device;
	struct ob_fork_owner owner;	/* of `file` and the entry's descriptors */
	int file;
	int opener;			/* a socket of the process that opens files; -1: this one */
	unsigned int port;
	struct ob_hub_entry entry;	/* of this port */
	struct ob_hub_control *control;	/* followed by the rings; NULL: no memory */
	struct ob_hub_bell *bell;
	bool has_thread;
	uint64_t thread;
	bool receiving;			/* set_features() has been called; atomic */
	bool stopping;			/* atomic */
	/* Changed by the thread that receives only; atomic. */
	struct ob_hub_peer *peers[OB_HUB_PORTS];
	uint64_t learnt[OB_HUB_LEARNT];
	uint32_t age;
	/* A thread is between reading `peers` and its last use of what it read; atomic. */
	uint32_t transmitting;
	uint64_t touched;		/* ports that got frames in this batch; of that thread */
	/*
	 * A port is armed while control->sleep is odd: peers ring the bell. After its last look a
	 * thread that polled rings if there is work.
	 */
	struct ob_taker taker;
	/* The kernel has sent or polled since the last look at the file; atomic. */
	bool used;
	/* Of the taker. */
	uint64_t present;		/* a bit for each peer */
	struct ob_hub_peer *retired;
	bool look_soon;			/* the last look at the file left something to do */
	bool has_rest;			/* the kernel has got a part of a frame */
	uint32_t changes_seen;
	uint64_t last_look;		/* at the file, in nanoseconds */
	struct ob_spin spin;
};

/* One line of an error, and its number. */
struct ob_hub_error {
	const char *path;
	char *text;
	size_t size;
};

/* Writes "cannot join hub PATH: ...", and returns `result`. */
__attribute__((format(printf, 3, 4)))
int ob_hub_fail(const struct ob_hub_error *error, int result, const char *format, ...);

/* hub_file.c: opens or creates the file, and takes a port. */
int ob_hub_file_open(struct ob_hub *hub, uint32_t mtu, const struct ob_hub_error *error);
/* Publishes this port's entry. 0 or -errno. */
int ob_hub_file_publish(const struct ob_hub *hub);
/* Removes the entry, gives up the port, and closes the file. */
void ob_hub_file_leave(struct ob_hub *hub);
/* Missing entries are zeroes. */
void ob_hub_file_entries(const struct ob_hub *hub, struct ob_hub_entry entries[OB_HUB_PORTS]);
bool ob_hub_file_is_alive(const struct ob_hub *hub, unsigned int port);

/*
 * hub_open.c: opens the hub's file, or what a port needs of another one's memory: sealed files of
 * the right size. A descriptor, or -errno.
 */
int ob_hub_open_file(const struct ob_hub *hub, const char *path);
int ob_hub_open_memory(const struct ob_hub *hub, const struct ob_hub_entry *entry);
int ob_hub_open_bell(const struct ob_hub *hub, const struct ob_hub_entry *entry);
/*
 * Opens files for the ports of the hub at `path` in another process, which has the other end of
 * `socket` as their opener. Blocks until that process closes its end, or breaks the protocol.
 */
void ob_hub_open_for(const char *path, int socket);

/* hub_memory.c */
int ob_hub_memory_create(struct ob_hub *hub);
void ob_hub_memory_free(struct ob_hub *hub);
char *ob_hub_ring(const struct ob_hub *hub, unsigned int port);
/* Maps what another port needs of its memory. 0 or -errno. */
int ob_hub_peer_open(const struct ob_hub *hub, unsigned int port, const struct ob_hub_entry *entry,
		     struct ob_hub_peer **peer);
void ob_hub_peer_free(struct ob_hub_peer *peer);

/*
 * hub_peers.c: compares the file with the peers: adds and removes. Returns the last error of a port
 * in use that could not be added, with its entry in *failed; or 0.
 */
int ob_hub_peers_update(struct ob_hub *hub, struct ob_hub_entry *failed);
/* Reports a change of the file to all peers. */
void ob_hub_peers_notify(struct ob_hub *hub);
/* Frees the peers that left, if nobody uses them. */
void ob_hub_peers_clean(struct ob_hub *hub);
void ob_hub_peers_free(struct ob_hub *hub);
void ob_hub_peers_forked(struct ob_hub *hub);

/* hub_frames.c */
int ob_hub_transmit(struct ob_net_backend *backend, unsigned int queue,
		    const struct iovec *pieces, int count);
void ob_hub_transmit_end(struct ob_net_backend *backend, unsigned int queue);
/* Is there a frame from the peer, or an error of it? */
bool ob_hub_has_frame(struct ob_hub *hub, unsigned int port);
/*
 * Gives one frame to the kernel. 1: done; 0: there is none; -ENOBUFS: the kernel has no room for
 * *length bytes.
 */
int ob_hub_take(struct ob_hub *hub, unsigned int port, size_t *length);
/* Wakes the thread of a port that may be asleep. */
void ob_hub_ring_bell(struct ob_hub_bell *bell);
/* The kernel uses the port. If it did not for a while, the port's thread sleeps for less now. */
void ob_hub_use(struct ob_hub *hub);

/* hub_learn.c: -1: unknown. */
int ob_hub_learn_find(const struct ob_hub *hub, const unsigned char address[6]);
void ob_hub_learn(struct ob_hub *hub, const unsigned char address[6], unsigned int port);
void ob_hub_learn_forget(struct ob_hub *hub, unsigned int port);

/* hub_receive.c: the thread, and one look by another one. */
void ob_hub_work(void *hub);
void ob_hub_poll(struct ob_net_backend *backend, bool is_last);

#endif
