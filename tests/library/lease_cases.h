/* SPDX-License-Identifier: GPL-2.0-only */
/* Cases that the tests of DHCP and DHCPv6 share. Link with lease_cases.c. */
#ifndef OUTBOARD_TESTS_LEASE_CASES_H
#define OUTBOARD_TESTS_LEASE_CASES_H

/* A client of addresses on eth7, and the test's server. */
struct lease_client {
	const char *word;		/* in the words of an interface, as in "dhcp" */
	const char *thread;		/* the name of its thread */
	void (*start)(void);		/* starts the server */
	void (*silence)(void);		/* from now on the server does not answer */
	volatile int *asked;		/* how often the server was looked for */
};

/* The words are refused with this error, for a reason that contains `part`. */
void lease_expect_failure(const char *words, int wanted, const char *part);

/* ob_interrupt() ends a call that waits for a lease. */
void lease_test_interrupt(const struct lease_client *client);

/* A halt ends the client: with a lease, and while a call waits for one. Boots again afterwards. */
void lease_test_halt(const struct lease_client *client);

struct lease_case {
	const char *name;
	void (*run)(void);
};

/* Runs the case of this name, with a kernel and a server. Returns the exit code of the program. */
int lease_run(const struct lease_client *client, const struct lease_case cases[], int count,
	      const char *name);

#endif
