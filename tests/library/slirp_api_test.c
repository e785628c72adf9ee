// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compares devices/net/slirp_api.h with the header of the package libslirp-dev, when this
 * is compiled. Offsets, not sizes: later versions of the structures have more members at the end.
 */
#include <slirp/libslirp.h>

#include "net/slirp_api.h"

#define SAME(ours, theirs, member)                                             \
	_Static_assert(offsetof(struct ours, member) == offsetof(theirs, member) && \
		       sizeof(((struct ours *)0)->member) == sizeof(((theirs *)0)->member), #member)
#define CONFIG(member) SAME(ob_slirp_config, SlirpConfig, member)
#define CALL(member) SAME(ob_slirp_calls, SlirpCb, member)

CONFIG(version);
CONFIG(restricted);
CONFIG(in_enabled);
CONFIG(vnetwork);
CONFIG(vnetmask);
CONFIG(vhost);
CONFIG(in6_enabled);
CONFIG(vprefix_addr6);
CONFIG(vprefix_len);
CONFIG(vhost6);
CONFIG(vhostname);
CONFIG(tftp_server_name);
CONFIG(tftp_path);
CONFIG(bootfile);
CONFIG(vdhcp_start);
CONFIG(vnameserver);
CONFIG(vnameserver6);
CONFIG(vdnssearch);
CONFIG(vdomainname);
CONFIG(if_mtu);
CONFIG(if_mru);
CONFIG(disable_host_loopback);
CONFIG(enable_emu);

CALL(send_packet);
CALL(guest_error);
CALL(clock_get_ns);
CALL(timer_new);
CALL(timer_free);
CALL(timer_mod);
CALL(register_poll_fd);
CALL(unregister_poll_fd);
CALL(notify);

_Static_assert((int)OB_SLIRP_POLL_IN == SLIRP_POLL_IN, "in");
_Static_assert((int)OB_SLIRP_POLL_OUT == SLIRP_POLL_OUT, "out");
_Static_assert((int)OB_SLIRP_POLL_PRI == SLIRP_POLL_PRI, "pri");
_Static_assert((int)OB_SLIRP_POLL_ERR == SLIRP_POLL_ERR, "err");
_Static_assert((int)OB_SLIRP_POLL_HUP == SLIRP_POLL_HUP, "hup");
_Static_assert((int)OB_SLIRP_FORWARD_UDP == SLIRP_HOSTFWD_UDP, "udp");
_Static_assert((int)OB_SLIRP_FORWARD_V6ONLY == SLIRP_HOSTFWD_V6ONLY, "v6only");
_Static_assert(OB_SLIRP_CONFIG_VERSION >= SLIRP_CONFIG_VERSION_MIN, "version");

/* The prototypes: a pointer of the wrong type does not compile. */
#define FUNCTION(member, type) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&slirp_##member), type), #member)
FUNCTION(new, Slirp *(*)(const SlirpConfig *, const SlirpCb *, void *));
FUNCTION(cleanup, void (*)(Slirp *));
FUNCTION(pollfds_fill, void (*)(Slirp *, uint32_t *, SlirpAddPollCb, void *));
FUNCTION(pollfds_poll, void (*)(Slirp *, int, SlirpGetREventsCb, void *));
FUNCTION(input, void (*)(Slirp *, const uint8_t *, int));
FUNCTION(add_hostfwd, int (*)(Slirp *, int, struct in_addr, int, struct in_addr, int));
FUNCTION(add_hostxfwd, int (*)(Slirp *, const struct sockaddr *, socklen_t,
			       const struct sockaddr *, socklen_t, int));
_Static_assert(__builtin_types_compatible_p(int (*)(int, int, void *), SlirpAddPollCb), "add");
_Static_assert(__builtin_types_compatible_p(int (*)(int, void *), SlirpGetREventsCb), "events");

int main(void)
{
	return 0;
}
