/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A server in the kernel, in a network namespace of its own, at the other end of a cable. Links
 * with net_far_end.c, net_links.c, net_message.c and client.c.
 */
#ifndef OUTBOARD_TESTS_NET_FAR_END_H
#define OUTBOARD_TESTS_NET_FAR_END_H

struct net_far_end {
	const char *link, *peer;	/* the names of the cable's ends */
	const char *address;		/* of the peer, as for ob_net_configure */
	int (*open)(void);		/* opens the server's socket, in its namespace */
	void (*serve)(int fd);		/* until the kernel halts */
};

/* Makes the cable and starts the server. `far_end` stays. */
void net_far_end_start(const struct net_far_end *far_end);

#endif
