/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of libslirp's public interface that user_slirp.c uses, as of SlirpConfig version 1:
 * libslirp 4.1 and all later ones. The library is loaded at run time, so its package is needed
 * neither to build nor to run anything else. tests/library/slirp_api_test.c compares this with
 * <libslirp.h>.
 */
#ifndef OUTBOARD_DEVICES_NET_SLIRP_API_H
#define OUTBOARD_DEVICES_NET_SLIRP_API_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define OB_SLIRP_LIBRARY "libslirp.so.0"
#define OB_SLIRP_CONFIG_VERSION 1

struct Slirp;

enum ob_slirp_poll {
	OB_SLIRP_POLL_IN = 1,
	OB_SLIRP_POLL_OUT = 2,
	OB_SLIRP_POLL_PRI = 4,
	OB_SLIRP_POLL_ERR = 8,
	OB_SLIRP_POLL_HUP = 16,
};

enum ob_slirp_forward {
	OB_SLIRP_FORWARD_UDP = 1,
	OB_SLIRP_FORWARD_V6ONLY = 2,
};

/* Calls from libslirp: struct SlirpCb. The last parameter is that of slirp_new(). */
struct ob_slirp_calls {
	ssize_t (*send_packet)(const void *frame, size_t length, void *opaque);
	void (*guest_error)(const char *message, void *opaque);
	int64_t (*clock_get_ns)(void *opaque);
	void *(*timer_new)(void (*expired)(void *data), void *data, void *opaque);
	void (*timer_free)(void *timer, void *opaque);
	/* The time is that of the clock, in milliseconds. */
	void (*timer_mod)(void *timer, int64_t time, void *opaque);
	void (*register_poll_fd)(int fd, void *opaque);
	void (*unregister_poll_fd)(int fd, void *opaque);
	void (*notify)(void *opaque);
};

/* struct SlirpConfig */
struct ob_slirp_config {
	uint32_t version;
	int restricted;
	bool in_enabled;
	struct in_addr vnetwork;
	struct in_addr vnetmask;
	struct in_addr vhost;
	bool in6_enabled;
	struct in6_addr vprefix_addr6;
	uint8_t vprefix_len;
	struct in6_addr vhost6;
	const char *vhostname;
	const char *tftp_server_name;
	const char *tftp_path;
	const char *bootfile;
	struct in_addr vdhcp_start;
	struct in_addr vnameserver;
	struct in6_addr vnameserver6;
	const char **vdnssearch;
	const char *vdomainname;
	size_t if_mtu;
	size_t if_mru;
	bool disable_host_loopback;
	bool enable_emu;
};

/* The functions of the library, by their names without "slirp_". */
struct ob_slirp_library {
	struct Slirp *(*new)(const struct ob_slirp_config *config,
			     const struct ob_slirp_calls *calls, void *opaque);
	void (*cleanup)(struct Slirp *slirp);
	/* *timeout is in milliseconds, and becomes smaller. */
	void (*pollfds_fill)(struct Slirp *slirp, uint32_t *timeout,
			     int (*add)(int fd, int events, void *opaque), void *opaque);
	void (*pollfds_poll)(struct Slirp *slirp, int is_failed,
			     int (*events)(int index, void *opaque), void *opaque);
	void (*input)(struct Slirp *slirp, const uint8_t *frame, int length);
	/* -1, with errno. */
	int (*add_hostfwd)(struct Slirp *slirp, int is_udp, struct in_addr host, int host_port,
			   struct in_addr guest, int guest_port);
	/* libslirp 4.5 and later; else NULL. */
	int (*add_hostxfwd)(struct Slirp *slirp, const struct sockaddr *host, socklen_t host_size,
			    const struct sockaddr *guest, socklen_t guest_size, int flags);
};

/*
 * user_slirp_load.c: loads the library, once for the process. 0, or an error: -ENOENT: it is not
 * installed; others: the host has no descriptor for its file, and a later call tries again.
 */
int ob_slirp_load(const struct ob_slirp_library **loaded);

#endif
