/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The vhost-user protocol (QEMU's docs/interop/vhost-user): virtio devices whose queues another
 * process serves, in memory that both have mapped. Messages pass over a UNIX stream socket.
 *
 *   vhost_user_message.c	one message, one answer
 *   vhost_user_session.c	the front-end's dialogue: from the connection to queues that run
 *   vhost_user.c		the network device of the kernel, whose back-end is another process
 *   vhost_serve.c		the opposite: a port of a hub, for front-ends in other processes
 *   vhost_serve_dialogue.c	what the front-end asks for
 *   vhost_serve_memory.c	the front-end's memory
 */
#ifndef OUTBOARD_DEVICES_NET_VHOST_USER_H
#define OUTBOARD_DEVICES_NET_VHOST_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "backend.h"

/* ---- messages ----------------------------------------------------------- */

enum ob_vhost_request {
	OB_VHOST_GET_FEATURES = 1,
	OB_VHOST_SET_FEATURES = 2,
	OB_VHOST_SET_OWNER = 3,
	OB_VHOST_RESET_OWNER = 4,
	OB_VHOST_SET_MEM_TABLE = 5,
	OB_VHOST_SET_VRING_NUM = 8,
	OB_VHOST_SET_VRING_ADDR = 9,
	OB_VHOST_SET_VRING_BASE = 10,
	OB_VHOST_GET_VRING_BASE = 11,
	OB_VHOST_SET_VRING_KICK = 12,
	OB_VHOST_SET_VRING_CALL = 13,
	OB_VHOST_SET_VRING_ERR = 14,
	OB_VHOST_GET_PROTOCOL_FEATURES = 15,
	OB_VHOST_SET_PROTOCOL_FEATURES = 16,
	OB_VHOST_GET_QUEUE_NUM = 17,
	OB_VHOST_SET_VRING_ENABLE = 18,
	OB_VHOST_NET_SET_MTU = 20,
};

/* Bits of `flags`. The lowest two are the version. */
#define OB_VHOST_VERSION 1u
#define OB_VHOST_VERSION_MASK 3u
#define OB_VHOST_REPLY 4u
#define OB_VHOST_NEED_REPLY 8u

/* A feature bit of virtio: there are protocol features, and queues are enabled one by one. */
#define OB_VHOST_F_PROTOCOL_FEATURES 30

/* Numbers of protocol features. */
#define OB_VHOST_PROTOCOL_F_MQ 0
#define OB_VHOST_PROTOCOL_F_REPLY_ACK 3
#define OB_VHOST_PROTOCOL_F_NET_MTU 4

#define OB_VHOST_REGIONS_MOST 8

/* Of a message with a queue's descriptor: the queue's index, and that there is no descriptor. */
#define OB_VHOST_INDEX_MASK 0xffu
#define OB_VHOST_NO_DESCRIPTOR 0x100u

struct ob_vhost_header {
	uint32_t request;		/* enum ob_vhost_request */
	uint32_t flags;
	uint32_t size;			/* of the payload */
};

struct ob_vhost_state {
	uint32_t index;			/* of a queue */
	uint32_t number;
};

/* Addresses are the front-end's own. */
struct ob_vhost_rings {
	uint32_t index;
	uint32_t flags;
	uint64_t descriptors;
	uint64_t used;
	uint64_t available;
	uint64_t log;
};

struct ob_vhost_region {
	uint64_t guest_address;		/* as descriptors have it */
	uint64_t size;
	uint64_t user_address;		/* as struct ob_vhost_rings has it */
	uint64_t offset;		/* in the file that comes with the message */
};

struct ob_vhost_memory {
	uint32_t count;
	uint32_t padding;
	struct ob_vhost_region regions[OB_VHOST_REGIONS_MOST];
};

union ob_vhost_payload {
	uint64_t number;
	struct ob_vhost_state state;
	struct ob_vhost_rings rings;
	struct ob_vhost_memory memory;
};

/* A request's name in the specification. */
const char *ob_vhost_name(enum ob_vhost_request request);

/* ---- the front-end: one request ----------------------------------------- */

/* Reasons are part of a line that names the socket. */
#define OB_VHOST_REASON_BYTES 160

/* A connection of a front-end, of one thread. */
struct ob_vhost_session {
	int socket;			/* -1: not connected */
	uint64_t features;		/* that the back-end offers */
	uint64_t protocol;		/* features of the protocol that both have, as bits */
	uint32_t pairs;			/* queue pairs that the back-end has */
	int abort;			/* readable if `aborting` may be set; -1: none */
	const bool *aborting;		/* true: requests give up; atomic; NULL: never */
	char reason[OB_VHOST_REASON_BYTES];	/* why the last function failed */
};

/* Stores the reason. Returns the error. */
int ob_vhost_fail(struct ob_vhost_session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Sends a request with a payload of `size` bytes, and descriptors. If the protocol has
 * acknowledgements, waits for one. 0 or -errno: -ETIMEDOUT (no answer in 10 seconds), -EPROTO (a
 * wrong answer), -EREMOTEIO (the back-end refuses), -ECANCELED (`aborting`), -EPIPE (it is gone).
 */
int ob_vhost_send(struct ob_vhost_session *session, enum ob_vhost_request request,
		  const void *payload, uint32_t size, const int *fds, uint32_t fd_count);

/*
 * Sends a request and stores its answer, of `answer_size` bytes exactly. Errors as above.
 */
int ob_vhost_ask(struct ob_vhost_session *session, enum ob_vhost_request request,
		 const void *payload, uint32_t size, void *answer, uint32_t answer_size);

/* ---- the front-end: the dialogue ---------------------------------------- */

/* A queue, as the front-end describes it to the back-end. */
struct ob_vhost_queue {
	struct ob_vhost_rings rings;
	uint32_t size;
	uint32_t base;			/* where the back-end goes on */
	int kick, call;			/* descriptors */
	bool enabled;
};

/* Stores the address of a socket. False: the path is too long. */
bool ob_vhost_address(const char *path, struct sockaddr_un *address);

/*
 * Connects, and agrees upon features. `mtu`: 0, or what a back-end that knows MTUs gets. Errors as
 * above, or those of connect(). After an error the session is closed.
 */
int ob_vhost_connect(struct ob_vhost_session *session, const char *path, uint32_t mtu);

/* Lets the back-end have the memory and the queues. `features`: a subset of its own. */
int ob_vhost_start(struct ob_vhost_session *session, uint64_t features,
		   const struct ob_vhost_region *region, int memory,
		   const struct ob_vhost_queue *queues, uint32_t count);
int ob_vhost_enable(struct ob_vhost_session *session, uint32_t index, bool enabled);

/* After this the back-end leaves the queues alone. */
int ob_vhost_stop(struct ob_vhost_session *session, uint32_t count);

void ob_vhost_close(struct ob_vhost_session *session);

/* ---- the device --------------------------------------------------------- */

struct ob_virtio_device;

/*
 * Opens "vhost-user:PATH" as a device that the kernel may take. 0 or -errno; then `error` has one
 * line.
 */
int ob_vhost_user_open(struct ob_host *host, const struct ob_platform_net *net,
		       struct ob_virtio_device **device, char *error, size_t error_size);

#endif
