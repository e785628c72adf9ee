// SPDX-License-Identifier: GPL-2.0-only
/* Cases that the tests of DHCP and DHCPv6 share: lease_cases.h. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <outboard/net.h>

#include "client.h"
#include "lease_cases.h"
#include "net_links.h"
#include "threads.h"
#include "wait_for.h"

void lease_expect_failure(const char *words, int wanted, const char *part)
{
	int error = ob_net_configure("eth7", words);

	if (error != wanted || !strstr(ob_net_error(), part)) {
		fprintf(stderr, "%s: %d, not %d: %s\n", words, error, wanted, ob_net_error());
		_Exit(1);
	}
}

/* A thread whose call waits for a lease. */
struct lease_waiter {
	const struct lease_client *client;
	pthread_t thread;
	volatile int task;
	int result;
};

static void *wait_for_lease(void *argument)
{
	struct lease_waiter *waiter = argument;
	char words[32];

	snprintf(words, sizeof(words), "%s=300", waiter->client->word);
	waiter->task = (int)OK(ob_sys_gettid());
	waiter->result = ob_net_configure("eth7", words);
	return NULL;
}

/* The server is silent: returns when it has been looked for so many times. */
static void start_to_wait(struct lease_waiter *waiter, int times)
{
	waiter->client->silence();
	*waiter->client->asked = 0;
	CHECK(!pthread_create(&waiter->thread, NULL, wait_for_lease, waiter));
	WAIT_FOR(*waiter->client->asked >= times);
}

void lease_test_interrupt(const struct lease_client *client)
{
	struct lease_waiter waiter = { .client = client };

	start_to_wait(&waiter, 2);
	CHECK_EQUAL(ob_interrupt(waiter.task), 0);
	CHECK(!pthread_join(waiter.thread, NULL));
	CHECK_EQUAL(waiter.result, -EINTR);
	CHECK(!net_is_up("eth7"));
}

void lease_test_halt(const struct lease_client *client)
{
	struct lease_waiter waiter = { .client = client };

	net_configure("eth7", client->word);
	CHECK_EQUAL(threads_named(client->thread, NULL), 1);
	CHECK_EQUAL(ob_halt(), 0);
	CHECK_EQUAL(threads_named(client->thread, NULL), 0);
	client_boot(1);
	client->start();
	start_to_wait(&waiter, 1);
	CHECK_EQUAL(ob_halt(), 0);
	CHECK(!pthread_join(waiter.thread, NULL));
	CHECK_EQUAL(waiter.result, -ENODEV);
	client_boot(1);
}

int lease_run(const struct lease_client *client, const struct lease_case cases[], int count,
	      const char *name)
{
	for (int i = 0; i < count; i++) {
		if (strcmp(cases[i].name, name))
			continue;
		client_boot(2);
		client->start();
		cases[i].run();
		CHECK_EQUAL(ob_halt(), 0);
		return 0;
	}
	fprintf(stderr, "no such case: %s\n", name);
	return 2;
}
