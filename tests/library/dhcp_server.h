/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A small DHCP server that runs in the kernel, in a network namespace of its own, at the other end
 * of a cable. Links with dhcp_server.c, and the files that net_far_end.h names.
 */
#ifndef OUTBOARD_TESTS_DHCP_SERVER_H
#define OUTBOARD_TESTS_DHCP_SERVER_H

#include <stdint.h>

enum dhcp_mode {
	DHCP_ANSWER,
	DHCP_SILENT,
	DHCP_REFUSE,			/* a NAK for each request */
	DHCP_REFUSE_ONCE,		/* then DHCP_ANSWER, with the next address */
};

/* The test may change these at any time. */
struct dhcp_server {
	volatile enum dhcp_mode mode;
	volatile uint32_t lease;	/* seconds */
	volatile uint8_t host;		/* the last byte of the address that it gives */
	volatile int wrong;		/* so many damaged replies precede each reply */
	/* Options of each reply, after type, server, lease and mask. */
	uint8_t options[128];
	int option_bytes;
	/* It counts what it got. */
	volatile int discovers, requests, renewals, rebinds, releases;
};

extern struct dhcp_server dhcp_server;

/*
 * Makes the cable eth7, and starts the server at its other end, as 10.5.0.1/24. It gives
 * 10.5.0.HOST with a prefix of 24.
 */
void dhcp_server_start(void);

/* Adds an option to all replies. */
void dhcp_server_option(uint8_t number, const void *value, uint8_t bytes);

#endif
