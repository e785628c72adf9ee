/* SPDX-License-Identifier: GPL-2.0-only */
/* Rootless NAT: what user.c, user_forward.c and the two back-ends share. */
#ifndef OUTBOARD_DEVICES_NET_USER_H
#define OUTBOARD_DEVICES_NET_USER_H

#include <netinet/in.h>

#include "backend.h"

/*
 * Addresses that both back-ends give to the kernel, those that QEMU's users know. A packet to the
 * gateway's address goes to the host's own loopback address.
 */
#define OB_USER_ADDRESS "10.0.2.15"
#define OB_USER_PREFIX "24"
#define OB_USER_NETWORK "10.0.2.0"
#define OB_USER_NETMASK "255.255.255.0"
#define OB_USER_GATEWAY "10.0.2.2"
#define OB_USER_DNS "10.0.2.3"
#define OB_USER_ADDRESS6 "fec0::15"
#define OB_USER_NETWORK6 "fec0::"
#define OB_USER_GATEWAY6 "fec0::2"
#define OB_USER_DNS6 "fec0::3"

/* The largest packet of both back-ends, and the default: they offer no segmentation offload. */
#define OB_USER_MTU_MOST 65520u
/* The smallest that IPv6 allows. */
#define OB_USER_MTU_LEAST 1280u

/*
 * Bytes of frames from the kernel that wait for the other side: about the window of a TCP
 * connection through passt. With 4 MB, one connection loses frames and falls to a tenth.
 */
#define OB_USER_BACKLOG_BYTES (16ul << 20)

#define OB_USER_FORWARDS_MOST 64

/*
 * user_forward.c: one port of the host that leads to a port of the kernel. Or a TCP socket of this
 * process that listens already.
 */
struct ob_user_forward {
	bool udp;
	int socket;		/* in the place of address and port; 0: none */
	int family;		/* AF_UNSPEC: all addresses of the host */
	union {
		struct in_addr v4;
		struct in6_addr v6;
	} address;
	uint16_t host_port;
	uint16_t guest_port;
};

struct ob_user_forwards {
	int count;
	struct ob_user_forward list[OB_USER_FORWARDS_MOST];
};

/* NULL is an empty list. -EINVAL: `error` has one line that names the wrong part. */
int ob_user_forwards_parse(const char *text, struct ob_user_forwards *forwards, char *error,
			   size_t error_size);

/*
 * Binds each port of the host for a moment, so that an error can name the port and the reason.
 * The host's error, with one line in `error`.
 */
int ob_user_forwards_check(const struct ob_user_forwards *forwards, char *error,
			   size_t error_size);

/* user_forward.c: the socket address of the host's port. `family` is AF_INET or AF_INET6. */
socklen_t ob_user_forward_address(const struct ob_user_forward *forward, int family,
				  struct sockaddr_storage *address);

/* The options of one interface. user.c has checked them. */
struct ob_user_options {
	struct ob_user_forwards forwards;
	uint32_t mtu;
	bool no_ipv6;
	/* Where forwarded ports of IPv6 lead; zeros: to the address that the kernel chooses. */
	struct in6_addr address6;
	/* The gateway's address does not lead to the host's loopback. libslirp only. */
	bool no_host_loopback;
};

/* -ENOENT: the package is not installed, and `error` is not written. */
typedef int ob_user_open(struct ob_host *host, struct ob_net_port *port,
			 const struct ob_user_options *options, struct ob_net_backend **backend,
			 char *error, size_t error_size);
ob_user_open ob_user_passt_open;
ob_user_open ob_user_slirp_open;

#endif
