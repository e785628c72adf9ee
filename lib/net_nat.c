// SPDX-License-Identifier: GPL-2.0-only
/* Rootless NAT in a process without a kernel. */
#include <errno.h>

#include <outboard/net.h>
#include <outboard/platform_host.h>

#include "error.h"

int ob_net_nat_new(const char *forwards, unsigned int flags, struct ob_net_nat **nat)
{
	const struct ob_platform_net_nat from = {
		.forwards = forwards,
		.no_ipv6 = flags & OB_NET_NAT_NO_IPV6,
		.no_host_loopback = flags & OB_NET_NAT_NO_HOST_LOOPBACK,
	};
	char reason[OB_ERROR_BYTES];
	int error;

	ob_error_clear(OB_ERROR_NET);
	if (!nat || flags & ~(OB_NET_NAT_NO_IPV6 | OB_NET_NAT_NO_HOST_LOOPBACK))
		return ob_error_set(OB_ERROR_NET, -EINVAL, "no handle, or an unknown flag");
	error = ob_platform_net_nat_open(&from, nat, reason, sizeof(reason));
	return error ? ob_error_set(OB_ERROR_NET, error, "%s", reason) : 0;
}

void ob_net_nat_serve(struct ob_net_nat *nat, int socket, int gate)
{
	ob_platform_net_nat_serve(nat, socket, gate);
}

void ob_net_nat_free(struct ob_net_nat *nat)
{
	if (nat)
		ob_platform_net_nat_close(nat);
}
