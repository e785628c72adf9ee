// SPDX-License-Identifier: GPL-2.0-only
/*
 * Polling by the tap back-end: frames are taken by its thread, or by one that waits for the kernel.
 * Arguments: names of tests; none: all.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "net_tap_bed.h"
#include "tap.h"

static void look(bool is_last)
{
	tap->operations->poll(tap, is_last);
}

static uint32_t taker(void)
{
	return __atomic_load_n(&((struct ob_tap *)tap)->queues[0].taker.state, __ATOMIC_SEQ_CST);
}

/* Looks until the queue's thread leaves the frames to those who poll. */
static void begin_to_poll(void)
{
	while (taker() != TAKER_POLLERS) {
		usleep(1000);
		look(false);
	}
}

static void send_one(int fd)
{
	tap_make_frame(100, 0);
	tap_host_sends(fd, 100);
}

/* While a thread polls, the queue's thread leaves frames to it. Its next look finds them. */
static void test_poll(void)
{
	uint64_t before;
	int left = 0, fd;

	tap_setup(0);
	fd = tap_packet_socket();
	for (int i = 0; i < 20; i++) {
		begin_to_poll();
		before = port_frames(&port, 0);
		send_one(fd);
		usleep(1000);
		left += port_frames(&port, 0) == before;
		look(false);
		CHECK(port_wait(&port, 0, before + 1, 10 * SECONDS));
		look(true);
	}
	CHECK(left >= 10);
	close(fd);
	tap_finish();
}

/*
 * After a wait without frames they are the queue's thread's again: it does not wait for its look at
 * the pollers, once a second.
 */
static void test_last_look(void)
{
	time_t begin = time(NULL);
	int fd;

	tap_setup(0);
	fd = tap_packet_socket();
	for (unsigned int i = 0; i < 100; i++) {
		begin_to_poll();
		look(true);
		usleep(2000);
		send_one(fd);
		CHECK(port_wait(&port, 0, i + 1, 10 * SECONDS));
	}
	CHECK(time(NULL) - begin < 50);
	close(fd);
	tap_finish();
}

/* A wait in which a frame comes. */
static void wait_with_frame(int fd)
{
	uint64_t before = port_frames(&port, 0);

	begin_to_poll();
	send_one(fd);
	look(false);
	look(true);
	CHECK(port_wait(&port, 0, before + 1, 10 * SECONDS));
}

/* After some waits with frames the tap stays with those who poll, as long as they come. */
static void test_stays(void)
{
	int fd, stayed = 0;

	tap_setup(0);
	fd = tap_packet_socket();
	for (unsigned int i = 0; i < 50; i++) {
		wait_with_frame(fd);
		stayed += taker() == TAKER_POLLERS;
	}
	CHECK(stayed);
	send_one(fd);
	CHECK(port_wait(&port, 0, 51, 10 * SECONDS));
	close(fd);
	tap_finish();
}

/* A thread that polls is stopped, or in a signal handler: the queue's thread takes over. */
static void test_stopped_poll(void)
{
	int fd;

	tap_setup(0);
	fd = tap_packet_socket();
	begin_to_poll();
	send_one(fd);
	CHECK(port_wait(&port, 0, 1, 60 * SECONDS));
	close(fd);
	tap_finish();
}

/* The queue's thread does its other work while threads poll. */
static void test_notice_while_polled(void)
{
	tap_setup(0);
	for (int i = 0; i < 20; i++) {
		begin_to_poll();
		tap_set_features(i % 2 ? 0 : SEGMENTS);
	}
	begin_to_poll();
	tap_finish();
}

static bool polls;

static void *poll_all_the_time(void *unused)
{
	while (__atomic_load_n(&polls, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 5; i++)
			look(i == 4);
		usleep(20);
	}
	return unused;
}

/* The queue's thread and one that polls take turns. No frame is lost, doubled or out of order. */
static void test_turns(void)
{
	unsigned int next = 0;
	pthread_t thread;
	int fd;

	port_init(&port, 256, 1536, tap_check_numbers, &next);
	tap_open(1, 0);
	fd = tap_packet_socket();
	polls = true;
	CHECK_EQUAL(pthread_create(&thread, NULL, poll_all_the_time, NULL), 0);
	for (unsigned int i = 0; i < 20000; i++) {
		tap_number_frame(i);
		tap_host_sends(fd, 1514);
		if (i % 100 == 99)
			CHECK(port_wait(&port, 0, i + 1, 60 * SECONDS));
		if (i % 1000 == 0)
			usleep(2000);
	}
	__atomic_store_n(&polls, false, __ATOMIC_RELAXED);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(next, 20000);
	close(fd);
	tap_finish();
}

static const struct tap_test tests[] = {
	{ "poll", test_poll },
	{ "last-look", test_last_look },
	{ "stays", test_stays },
	{ "stopped-poll", test_stopped_poll },
	{ "notice-while-polled", test_notice_while_polled },
	{ "turns", test_turns },
	{ 0 },
};

int main(int count, char **names)
{
	return tap_run_tests(tests, count, names);
}
