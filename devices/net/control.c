// SPDX-License-Identifier: GPL-2.0-only
/* Network: the control queue. */
#include <linux/virtio_net.h>
#include <string.h>

#include "control.h"

/* A command, and its argument. */
#define COMMAND_BYTES (sizeof(struct virtio_net_ctrl_hdr) + 2)

static uint8_t carry_out(const struct ob_virtqueue_chain *chain, unsigned int most,
			 ob_net_set_pairs *set_pairs, void *context)
{
	uint8_t bytes[COMMAND_BYTES];
	size_t length = 0;
	uint16_t pairs;

	for (int i = 0; i < chain->readable; i++) {
		if (chain->pieces[i].iov_len > sizeof(bytes) - length)
			return VIRTIO_NET_ERR;
		memcpy(bytes + length, chain->pieces[i].iov_base, chain->pieces[i].iov_len);
		length += chain->pieces[i].iov_len;
	}
	if (length != sizeof(bytes) || bytes[0] != VIRTIO_NET_CTRL_MQ ||
	    bytes[1] != VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET)
		return VIRTIO_NET_ERR;
	memcpy(&pairs, bytes + 2, sizeof(pairs));
	if (pairs < 1 || pairs > most || set_pairs(context, pairs))
		return VIRTIO_NET_ERR;
	return VIRTIO_NET_OK;
}

void ob_net_control(struct ob_virtqueue *ring, unsigned int most, ob_net_set_pairs *set_pairs,
		    void *context)
{
	struct ob_virtqueue_chain chain;

	do {
		while (ob_virtqueue_take(ring, &chain)) {
			uint8_t answer = carry_out(&chain, most, set_pairs, context);
			bool has_room = chain.count > chain.readable &&
					chain.pieces[chain.readable].iov_len;

			if (has_room)
				*(uint8_t *)chain.pieces[chain.readable].iov_base = answer;
			ob_virtqueue_return(ring, chain.head, has_room);
		}
		ob_virtqueue_publish(ring);
	} while (ob_virtqueue_ask_notify(ring));
}
