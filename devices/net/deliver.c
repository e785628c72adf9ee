// SPDX-License-Identifier: GPL-2.0-only
/* Network: what back-ends without offloads do with a frame that they received. */
#include <errno.h>

#include "deliver.h"

/* A VLAN tag is not part of the MTU. */
#define VLAN_BYTES 4u

bool ob_net_deliver(struct ob_net_port *port, uint32_t mtu, const void *frame, size_t length)
{
	static const unsigned char header[OB_NET_HEADER_BYTES];
	const struct iovec pieces[] = {
		{ (void *)header, sizeof(header) },
		{ (void *)frame, length },
	};

	if (length < OB_NET_ETHERNET_BYTES || length > OB_NET_ETHERNET_BYTES + VLAN_BYTES + mtu)
		return true;
	while (ob_net_receive(port, 0, pieces, 2) == -ENOBUFS) {
		ob_net_receive_flush(port, 0);
		if (!ob_net_receive_wait(port, 0, sizeof(header) + length))
			return false;
	}
	return true;
}
