// SPDX-License-Identifier: GPL-2.0-only
/* vhost-user: the front-end's dialogue with a back-end. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/virtio_config.h>
#include <string.h>

#include "fork_owner.h"
#include "raw.h"
#include "vhost_user.h"

#define BIT(n) (1ull << (n))

#define PROTOCOL (BIT(OB_VHOST_PROTOCOL_F_MQ) | BIT(OB_VHOST_PROTOCOL_F_REPLY_ACK) | \
		  BIT(OB_VHOST_PROTOCOL_F_NET_MTU))

static bool has_protocol_features(const struct ob_vhost_session *session)
{
	return session->features & BIT(OB_VHOST_F_PROTOCOL_FEATURES);
}

static bool has(const struct ob_vhost_session *session, int protocol_feature)
{
	return session->protocol & BIT(protocol_feature);
}

static int send_number(struct ob_vhost_session *session, enum ob_vhost_request request,
		       uint64_t number)
{
	return ob_vhost_send(session, request, &number, sizeof(number), NULL, 0);
}

static int ask_number(struct ob_vhost_session *session, enum ob_vhost_request request,
		      uint64_t *number)
{
	return ob_vhost_ask(session, request, NULL, 0, number, sizeof(*number));
}

static int send_state(struct ob_vhost_session *session, enum ob_vhost_request request,
		      uint32_t index, uint32_t number)
{
	struct ob_vhost_state state = { index, number };

	return ob_vhost_send(session, request, &state, sizeof(state), NULL, 0);
}

/* ---- connect ------------------------------------------------------------ */

bool ob_vhost_address(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(address->sun_path))
		return false;
	strcpy(address->sun_path, path);
	return true;
}

static int open_socket(struct ob_vhost_session *session, const char *path)
{
	struct sockaddr_un address;

	if (!ob_vhost_address(path, &address))
		return ob_vhost_fail(session, -ENAMETOOLONG,
				     "the path of a socket has at most %zu characters",
				     sizeof(address.sun_path) - 1);
	session->socket = raw_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (session->socket < 0)
		return ob_vhost_fail(session, -errno, "no socket: %s", strerror(errno));
	if (!raw_connect(session->socket, (struct sockaddr *)&address, sizeof(address)))
		return 0;
	return ob_vhost_fail(session, -errno, "cannot connect: %s; start the back-end first",
			     strerror(errno));
}

static int agree_on_protocol(struct ob_vhost_session *session)
{
	uint64_t offered, agreed;
	int error = ask_number(session, OB_VHOST_GET_PROTOCOL_FEATURES, &offered);

	if (error)
		return error;
	/* The back-end acknowledges requests after this one. */
	agreed = offered & PROTOCOL;
	error = send_number(session, OB_VHOST_SET_PROTOCOL_FEATURES, agreed);
	session->protocol = agreed;
	return error;
}

static int read_pairs(struct ob_vhost_session *session)
{
	uint64_t pairs;
	int error;

	session->pairs = 1;
	if (!has(session, OB_VHOST_PROTOCOL_F_MQ))
		return 0;
	error = ask_number(session, OB_VHOST_GET_QUEUE_NUM, &pairs);
	if (error)
		return error;
	if (!pairs)
		return ob_vhost_fail(session, -EPROTO, "the back-end has no queues");
	session->pairs = pairs < OB_NET_QUEUES_MOST ? (uint32_t)pairs : OB_NET_QUEUES_MOST;
	return 0;
}

static int agree(struct ob_vhost_session *session, uint32_t mtu)
{
	int error = ask_number(session, OB_VHOST_GET_FEATURES, &session->features);

	if (error)
		return error;
	if (!(session->features & BIT(VIRTIO_F_VERSION_1)))
		return ob_vhost_fail(session, -EPROTO,
				     "the back-end does not know virtio 1.0 (features %#llx)",
				     (unsigned long long)session->features);
	if (has_protocol_features(session))
		error = agree_on_protocol(session);
	if (!error)
		error = read_pairs(session);
	if (!error)
		error = ob_vhost_send(session, OB_VHOST_SET_OWNER, NULL, 0, NULL, 0);
	if (!error && mtu && has(session, OB_VHOST_PROTOCOL_F_NET_MTU))
		error = send_number(session, OB_VHOST_NET_SET_MTU, mtu);
	return error;
}

int ob_vhost_connect(struct ob_vhost_session *session, const char *path, uint32_t mtu)
{
	int error;

	session->features = 0;
	session->protocol = 0;
	error = open_socket(session, path);
	if (!error)
		error = agree(session, mtu);
	if (error)
		ob_vhost_close(session);
	return error;
}

void ob_vhost_close(struct ob_vhost_session *session)
{
	ob_fork_owner_drop(&session->socket);
}

/* ---- queues ------------------------------------------------------------- */

static int send_memory(struct ob_vhost_session *session, const struct ob_vhost_region *region,
		       int memory)
{
	struct ob_vhost_memory table = { .count = 1, .regions = { *region } };

	return ob_vhost_send(session, OB_VHOST_SET_MEM_TABLE, &table,
			     offsetof(struct ob_vhost_memory, regions[1]), &memory, 1);
}

static int send_descriptor(struct ob_vhost_session *session, enum ob_vhost_request request,
			   uint32_t index, int fd)
{
	uint64_t number = index;

	return ob_vhost_send(session, request, &number, sizeof(number), &fd, 1);
}

static int start_queue(struct ob_vhost_session *session, const struct ob_vhost_queue *queue)
{
	uint32_t index = queue->rings.index;
	int error = send_state(session, OB_VHOST_SET_VRING_NUM, index, queue->size);

	if (!error)
		error = send_state(session, OB_VHOST_SET_VRING_BASE, index, queue->base);
	if (!error)
		error = ob_vhost_send(session, OB_VHOST_SET_VRING_ADDR, &queue->rings,
				      sizeof(queue->rings), NULL, 0);
	if (!error)
		error = send_descriptor(session, OB_VHOST_SET_VRING_CALL, index, queue->call);
	if (!error)
		error = send_descriptor(session, OB_VHOST_SET_VRING_KICK, index, queue->kick);
	return error;
}

int ob_vhost_enable(struct ob_vhost_session *session, uint32_t index, bool enabled)
{
	/* Without protocol features a queue is enabled from its start. */
	if (!has_protocol_features(session))
		return 0;
	return send_state(session, OB_VHOST_SET_VRING_ENABLE, index, enabled);
}

int ob_vhost_start(struct ob_vhost_session *session, uint64_t features,
		   const struct ob_vhost_region *region, int memory,
		   const struct ob_vhost_queue *queues, uint32_t count)
{
	uint64_t protocol = session->features & BIT(OB_VHOST_F_PROTOCOL_FEATURES);
	int error = send_number(session, OB_VHOST_SET_FEATURES, features | protocol);

	if (!error)
		error = send_memory(session, region, memory);
	for (uint32_t i = 0; i < count && !error; i++)
		error = start_queue(session, &queues[i]);
	for (uint32_t i = 0; i < count && !error; i++)
		error = ob_vhost_enable(session, queues[i].rings.index, queues[i].enabled);
	return error;
}

int ob_vhost_stop(struct ob_vhost_session *session, uint32_t count)
{
	int error = 0;

	for (uint32_t i = 0; i < count && !error; i++) {
		struct ob_vhost_state state = { i, 0 }, answer;

		error = ob_vhost_ask(session, OB_VHOST_GET_VRING_BASE, &state, sizeof(state),
				     &answer, sizeof(answer));
		if (!error && answer.index != i)
			error = ob_vhost_fail(session, -EPROTO,
					      "the back-end stopped queue %u, not %u",
					      answer.index, i);
	}
	return error;
}
