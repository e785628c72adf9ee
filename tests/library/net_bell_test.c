// SPDX-License-Identifier: GPL-2.0-only
/* Eventfds that a stranger keeps full: threads that ring them come back. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "check.h"
#include "net/bell.h"
#include "shared_fd.h"
#include "threads.h"

static struct ob_bell bell;
static uint32_t ended;

static void fill(void)
{
	uint64_t most = UINT64_MAX - 1;

	CHECK_EQUAL(fcntl(bell.fd, F_SETFL, O_NONBLOCK), 0);
	ob_shared_event_clear(bell.fd);
	CHECK_EQUAL(write(bell.fd, &most, sizeof(most)), (ssize_t)sizeof(most));
	CHECK_EQUAL(fcntl(bell.fd, F_SETFL, 0), 0);
}

static bool is_readable(void)
{
	struct pollfd fd = { .fd = bell.fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static void *ring(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "ringer");
	ob_bell_ring(&bell);
	__atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Starts a thread that blocks in the write. */
static pthread_t start(void)
{
	pthread_t thread;
	pid_t id = 0;

	ob_bell_open(&bell);
	fill();
	__atomic_store_n(&ended, 0, __ATOMIC_SEQ_CST);
	CHECK_EQUAL(pthread_create(&thread, NULL, ring, NULL), 0);
	while (threads_named("ringer", &id) != 1 || host_state(id) != 'S')
		usleep(1000);
	return thread;
}

static void test_ring(void)
{
	ob_bell_ring(&bell);
	CHECK(!is_readable());
	ob_bell_open(&bell);
	ob_bell_ring(&bell);
	CHECK(is_readable());
	ob_shared_event_clear(bell.fd);
	/* An empty one does not block the reader. */
	CHECK_EQUAL(fcntl(bell.fd, F_SETFL, 0), 0);
	ob_shared_event_clear(bell.fd);
	CHECK(ob_bell_silence(&bell, NULL));
}

static void test_silence(void)
{
	pthread_t thread = start();

	CHECK(ob_bell_silence(&bell, NULL));
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	ob_shared_event_clear(bell.fd);
	ob_bell_ring(&bell);
	CHECK(!is_readable());
}

static void test_wait(void)
{
	struct ob_bell *const bells[] = { &bell };
	pthread_t thread = start();

	CHECK(ob_bell_wait(bells, 1, NULL, &ended));
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK(ob_bell_silence(&bell, NULL));
}

int main(void)
{
	bell.fd = eventfd(0, EFD_NONBLOCK);
	CHECK(bell.fd >= 0);
	test_ring();
	for (int i = 0; i < 20; i++) {
		test_silence();
		test_wait();
	}
	return 0;
}
