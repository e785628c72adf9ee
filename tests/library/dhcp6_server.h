/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A small DHCPv6 server that runs in the kernel, in a network namespace of its own, at the other
 * end of a cable. It can be a router as well. Links with dhcp6_server.c, and the files that
 * net_far_end.h names.
 */
#ifndef OUTBOARD_TESTS_DHCP6_SERVER_H
#define OUTBOARD_TESTS_DHCP6_SERVER_H

#include <stdbool.h>
#include <stdint.h>

enum dhcp6_mode {
	DHCP6_ANSWER,
	DHCP6_SILENT,
	DHCP6_REFUSE,			/* advertises an address, and refuses each request */
	DHCP6_REFUSE_ONCE,		/* then DHCP6_ANSWER, with the next address */
};

/* The test may change these at any time. */
struct dhcp6_server {
	volatile enum dhcp6_mode mode;
	volatile uint32_t valid;	/* the lifetime in seconds */
	volatile uint8_t host;		/* the last byte of the address that it gives */
	volatile uint8_t preference;
	volatile bool has_rival;	/* another server advertises first, with less preference */
	volatile int wrong;		/* so many damaged replies precede each reply */
	/* Options of each reply. */
	uint8_t options[128];
	int option_bytes;
	/* Announcements of a router: none, or its flags. `prefix`: also 2001:db8:1::/64. */
	volatile bool announces, prefix;
	volatile uint8_t flags;
	/* It counts what it got. */
	volatile int solicits, requests, renewals, rebinds, releases, informations;
};

extern struct dhcp6_server dhcp6_server;

/* Makes the cable eth7, and starts the server at its other end. It gives fd00:7::HOST. */
void dhcp6_server_start(void);

/* Adds an option to all replies. */
void dhcp6_server_option(uint8_t number, const void *value, uint8_t bytes);

#endif
