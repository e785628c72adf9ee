// SPDX-License-Identifier: GPL-2.0-only
/* The hub back-end: frames between ports, and ports that come, go, stop and are killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "hub.h"
#include "net_hub_member.h"
#include "threads.h"

/* ---- delivery --------------------------------------------------------------- */

static void test_frames(void)
{
	static const uint32_t lengths[] = { 60, 61, 127, 128, 1526, 1530, 4096, 65534, 65565 };
	struct member *a = join(1), *b = join(2);

	meet(a, b);
	for (int round = 0; round < 40; round++) {
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			send_to(a, 2, lengths[i]);
			send_to(b, 1, lengths[i]);
		}
	}
	wait_for(a, b);
	wait_for(b, a);
	CHECK_EQUAL(try_send(a, 2, HEADER + 13), -EMSGSIZE);
	leave(a);
	leave(b);
}

/* A frame goes to all ports until its destination has sent one, then to that port only. */
static void test_addresses(void)
{
	struct member *a = join(1), *b = join(2), *c = join(3);
	uint64_t before;

	wait_for_peers(a, 2);
	wait_for_peers(b, 2);
	send_to(a, 3, 200);
	wait_for(c, a);
	CHECK(port_wait(&b->port, 0, 1, 10 * SECONDS));
	meet(a, c);
	meet(a, b);
	wait_for_common(b, 3, 1);
	wait_for_common(c, 2, 1);
	wait_for_common(c, 1, a->sent[ALL]);
	before = port_frames(&c->port, 0);
	for (int i = 0; i < 100; i++)
		send_to(a, 2, 200);
	wait_for(b, a);
	send_to(a, 3, 200);
	wait_for(c, a);
	CHECK_EQUAL(port_frames(&c->port, 0), before + 1);
	/* Address 2 moves to another port, and frames follow. */
	c->id = 2;
	c->own[1].next = 0;
	c->sent[ALL] = b->sent[ALL];
	before = port_frames(&b->port, 0) + 1;
	send_to(c, ALL, 100);
	wait_for_common(a, 2, c->sent[ALL]);
	CHECK(port_wait(&b->port, 0, before, 10 * SECONDS));
	send_to(a, 2, 100);
	wait_for(c, a);
	CHECK_EQUAL(port_frames(&b->port, 0), before);
	leave(a);
	leave(b);
	leave(c);
}

#define LOAD 3000

static void send_load(unsigned int id)
{
	struct member *member = join(id);

	wait_for_common(member, 1, 1);
	for (int i = 0; i < LOAD; i++)
		send_to(member, 1, random_length());
	pause();
}

/* Several senders; the receiver loses nothing, although its kernel is sometimes slow. */
static void test_load(void)
{
	struct member *member = join_with(1, 100);
	pid_t children[4];

	for (unsigned int i = 0; i < 4; i++)
		children[i] = start("load", 2 + i);
	wait_for_peers(member, 4);
	send_to(member, ALL, 100);
	for (int i = 0; i < 20; i++) {
		member->port.hold = true;
		usleep(2000);
		port_release(&member->port, 0);
	}
	for (unsigned int i = 0; i < 4; i++) {
		wait_for_stream(&member->own[2 + i], LOAD);
		CHECK_EQUAL(member->own[2 + i].first, 0);
		end(children[i]);
	}
	leave(member);
}

/* Without frames the thread sleeps. */
static void test_idle(void)
{
	struct member *a = join(1), *b = join(2);
	pid_t thread = 0;
	struct timespec before, after;
	clockid_t clock;

	meet(a, b);
	usleep(10000);
	CHECK_EQUAL(threads_named("outboard-hub", &thread), 2);
	clock = (clockid_t)(~(unsigned int)thread << 3 | 6);	/* of that thread */
	CHECK_EQUAL(clock_gettime(clock, &before), 0);
	sleep(2);
	CHECK_EQUAL(clock_gettime(clock, &after), 0);
	CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec <
	      10000000);
	leave(a);
	leave(b);
}

static long sleeps_of(pid_t thread)
{
	static const char name[] = "\nvoluntary_ctxt_switches:";
	char file[64], text[4096];
	int fd;
	ssize_t size;

	snprintf(file, sizeof(file), "/proc/self/task/%d/status", thread);
	fd = open(file, O_RDONLY);
	CHECK(fd >= 0);
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	CHECK(size > 0);
	text[size] = '\0';
	CHECK(strstr(text, name));
	return atol(strstr(text, name) + sizeof(name) - 1);
}

/* A port that its kernel does not use looks at the file every four seconds only. */
static void test_unused(void)
{
	struct member *a = join(1);
	struct ob_hub *hub = (struct ob_hub *)a->hub;
	pid_t thread = 0, child = start("stay", 3);
	long before;

	wait_for_common(a, 3, 1);
	send_to(a, ALL, 100);
	for (int i = 0; i < 10 * SECONDS && __atomic_load_n(&hub->used, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	CHECK(!hub->used);
	CHECK_EQUAL(threads_named("outboard-hub", &thread), 1);
	before = sleeps_of(thread);
	sleep(3);
	CHECK(sleeps_of(thread) - before <= 1);
	/* It looks for ports that ended when the kernel uses it again. */
	end(child);
	before = sleeps_of(thread);
	send_to(a, ALL, 100);
	wait_for_peers(a, 0);
	for (int i = 0; i < 10 * SECONDS && sleeps_of(thread) <= before; i++)
		usleep(1000);
	CHECK(sleeps_of(thread) > before);
	leave(a);
}

/* A frame wakes a thread that sleeps: without that, each would wait for up to a second. */
static void test_wake(void)
{
	struct member *a = join(1), *b = join(2);
	double begin = now();

	meet(a, b);
	for (int i = 0; i < 40; i++) {
		usleep(10000);
		send_to(a, 2, 100);
		wait_for(b, a);
	}
	CHECK(now() - begin < 15);
	leave(a);
	leave(b);
}

/* ---- polling ------------------------------------------------------------------ */

static void look(struct member *member, bool is_last)
{
	member->hub->operations->poll(member->hub, is_last);
}

/* Looks until the member's thread leaves the frames to those who poll. */
static void begin_to_poll(struct member *member)
{
	struct ob_hub *hub = (struct ob_hub *)member->hub;

	while (__atomic_load_n(&hub->taker.state, __ATOMIC_SEQ_CST) != TAKER_POLLERS) {
		usleep(1000);
		look(member, false);
	}
}

/*
 * While a thread polls, the port's thread leaves frames to it, but for a look at the ports each
 * second. The next look of the one that polls finds the frames.
 */
static void test_poll(void)
{
	struct member *a = join(1), *b = join(2);
	uint64_t before;
	int left = 0;

	meet(a, b);
	for (int i = 0; i < 20; i++) {
		begin_to_poll(b);
		before = port_frames(&b->port, 0);
		send_to(a, 2, 100);
		usleep(1000);
		left += port_frames(&b->port, 0) == before;
		look(b, false);
		wait_for(b, a);
		look(b, true);
	}
	CHECK(left >= 10);
	leave(a);
	leave(b);
}

/* After the last look, frames are the thread's: those that came later, and those that came then. */
static void test_last_look(void)
{
	struct member *a = join(1), *b = join(2);
	double begin;

	meet(a, b);
	begin = now();
	for (int i = 0; i < 40; i++) {
		begin_to_poll(b);
		look(b, true);
		send_to(a, 2, 100);
		wait_for(b, a);
	}
	CHECK(now() - begin < 15);
	leave(a);
	leave(b);
}

/* A thread that polls is stopped, or in a signal handler: the port's thread takes over. */
static void test_stopped_poll(void)
{
	struct member *a = join(1), *b = join(2);

	meet(a, b);
	begin_to_poll(b);
	send_to(a, 2, 100);
	wait_for(b, a);
	leave(a);
	leave(b);
}

static bool polls;

static void *poll_all_the_time(void *argument)
{
	struct member *member = argument;

	while (__atomic_load_n(&polls, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 5; i++)
			look(member, i == 4);
		usleep(20);
	}
	return NULL;
}

/*
 * The port's thread and one that polls take turns, and peers sleep in between. No frame is lost,
 * doubled or out of order, none waits for the next look at the ports, and new ports are seen.
 */
static void test_turns(void)
{
	struct member *a = join(1), *b = join(2), *c;
	pthread_t thread;
	double begin;

	meet(a, b);
	polls = true;
	CHECK_EQUAL(pthread_create(&thread, NULL, poll_all_the_time, b), 0);
	begin = now();
	for (int i = 0; i < 3000; i++) {
		send_to(a, 2, random_length());
		if (i % 3)
			continue;
		wait_for(b, a);
		send_to(b, 1, 100);
		wait_for(a, b);
	}
	wait_for(b, a);
	CHECK(now() - begin < 60);
	c = join(3);
	meet(b, c);
	__atomic_store_n(&polls, false, __ATOMIC_RELAXED);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	leave(c);
	leave(a);
	leave(b);
}

/* ---- ports that come and go -------------------------------------------------- */

#define VISITS 10

/* Joins, sends, and leaves when there is an answer. */
static void visit(unsigned int id)
{
	for (uint32_t i = 0; i < VISITS; i++) {
		struct member *member = join(id);

		member->any_order = true;	/* of the other visitors */
		member->sent[ALL] = i * 2;
		send_to(member, ALL, random_length());
		send_to(member, ALL, 100);
		while (!next_of(&member->common[1]))
			usleep(1000);
		leave(member);
	}
}

static bool has_visited(struct member *member, unsigned int id)
{
	return __atomic_load_n(&member->common[id].seen, __ATOMIC_ACQUIRE) ==
	       (1ull << VISITS * 2) - 1;
}

/*
 * The first frames of a port arrive, although the others open its memory only then, and so do the
 * last ones, although it has left. The next visit may be on a port that is read earlier.
 */
static void test_visitors(void)
{
	struct member *member = join(1);
	pid_t children[3];
	int ready;

	member->any_order = true;

	for (unsigned int i = 0; i < 3; i++)
		children[i] = start("visit", 10 + i);
	do {
		send_to(member, ALL, 100);
		usleep(1000);
		ready = 0;
		for (unsigned int i = 0; i < 3; i++) {
			ready += has_visited(member, 10 + i);
			check_not_failed(children[i]);
		}
	} while (ready < 3);
	for (unsigned int i = 0; i < 3; i++) {
		for (int status; waitpid(children[i], &status, WNOHANG) == 0; usleep(1000))
			send_to(member, ALL, 100);
	}
	leave(member);
}

/* A port's frames arrive although it has left when the receiver's kernel has room again. */
static void test_rest(void)
{
	struct member *a = join_with(1, 64), *b = join(2);

	wait_for_peers(a, 1);
	a->port.hold = true;
	for (int i = 0; i < 200; i++)
		send_to(b, ALL, 1500);
	CHECK(port_wait(&a->port, 0, 64, 10 * SECONDS));
	leave(b);
	usleep(50000);
	port_release(&a->port, 0);
	wait_for_common(a, 2, 200);
	wait_for_peers(a, 0);
	leave(a);
}

/* The next user of a port gets no frame that was for the one before. */
static void test_successor(void)
{
	struct member *a = join(1), *b = join(2), *c;

	meet(a, b);
	for (int i = 0; i < 10; i++)
		send_to(a, ALL, 100);
	wait_for_common(b, 1, 11);
	leave(b);
	wait_for_peers(a, 0);
	c = join(3);
	wait_for_peers(a, 1);
	CHECK_EQUAL(((struct ob_hub *)c->hub)->port, 1);
	ob_hub_ring_bell(((struct ob_hub *)c->hub)->bell);
	usleep(50000);
	CHECK_EQUAL(port_frames(&c->port, 0), 0);
	meet(a, c);
	CHECK_EQUAL(c->common[1].first, 11);
	leave(a);
	leave(c);
}

static void send_for_ever(unsigned int id)
{
	struct member *member = join(id);

	member->gaps = true;
	for (;;) {
		try_send(member, ALL, random_length());
		try_send(member, 1, random_length());
	}
}

/* Two ports that go on while others are killed. */
static void test_killed(void)
{
	struct member *a = join(1), *b = join(2);

	meet(a, b);
	a->gaps = b->gaps = true;
	for (unsigned int i = 0; i < 10; i++) {
		pid_t child = start("flood", 20 + i);

		for (int j = 0; j < 10 * SECONDS && !next_of(&a->own[20 + i]); j++)
			usleep(1000);
		CHECK(next_of(&a->own[20 + i]));
		usleep(5000 * i);
		end(child);
		send_to(a, 2, random_length());
		send_to(b, 1, random_length());
		wait_for(a, b);
		wait_for(b, a);
	}
	wait_for_peers(a, 1);
	/* The first free port was used again and again. */
	join(3);
	CHECK_EQUAL(((struct ob_hub *)members[3].hub)->port, 2);
	leave(a);
	leave(b);
	leave(&members[3]);
}

static void stay(unsigned int id)
{
	struct member *member = join(id);

	member->gaps = true;
	send_to(member, ALL, 100);
	for (;;)
		pause();
}

/* A port that is stopped loses frames. It costs the others nothing. */
static void test_stopped(void)
{
	struct member *a = join(1), *b = join(2);
	pid_t child = start("stay", 3);
	uint32_t count = 0;
	double begin;

	wait_for_common(a, 3, 1);
	meet(a, b);
	CHECK_EQUAL(kill(child, SIGSTOP), 0);
	CHECK_EQUAL(waitpid(child, NULL, WUNTRACED), child);
	begin = now();
	while (!try_send(a, 3, 60000))
		count++;
	CHECK(count >= 60 && count <= 70);
	for (int i = 0; i < 2000; i++) {
		CHECK_EQUAL(try_send(a, 3, 60000), -ENOBUFS);
		if (i % 20 == 0)
			send_to(a, 2, 60000);
	}
	wait_for(b, a);
	CHECK(now() - begin < 60);
	CHECK_EQUAL(kill(child, SIGCONT), 0);
	while (try_send(a, 3, 60000))
		usleep(1000);
	end(child);
	leave(a);
	leave(b);
}

static void leave_by_fork(unsigned int id)
{
	struct member *member = join(id);

	send_to(member, ALL, 100);
	if (fork()) {
		wait_for_common(member, 1, 1);
		_exit(0);
	}
	ob_fork_owners_close();
	member->hub->operations->forked(member->hub);
	sleep(4);
	_exit(0);
}

/* A child of a port has nothing of it: when the parent ends, the port is free. */
static void test_fork(void)
{
	struct member *a = join(1);
	pid_t child = start("fork", 2);

	wait_for_common(a, 2, 1);
	usleep(100000);
	send_to(a, ALL, 100);
	finish(child);
	for (int i = 0; i < 3 * SECONDS && peers_of(a); i++)
		usleep(1000);
	CHECK_EQUAL(peers_of(a), 0);
	leave(a);
}

static void test_all_ports(void)
{
	for (unsigned int i = 0; i < OB_HUB_PORTS; i++)
		join_with(i, 64);
	port_init(&members[64].port, 64, 1536, NULL, NULL);
	CHECK_EQUAL(try_join(&members[64], path, 0), -EUSERS);
	CHECK(strstr(error, "all of its 64 ports are in use"));
	wait_for_peers(&members[0], 63);
	send_to(&members[0], ALL, 1000);
	for (unsigned int i = 1; i < OB_HUB_PORTS; i++)
		wait_for_common(&members[i], 0, 1);
	leave(&members[10]);
	CHECK_EQUAL(try_join(&members[64], path, 0), 0);
	leave(&members[64]);
	for (unsigned int i = 0; i < OB_HUB_PORTS; i++)
		if (i != 10)
			leave(&members[i]);
}

static const struct test tests[] = {
	{ "frames", test_frames, false },
	{ "addresses", test_addresses, false },
	{ "load", test_load, false },
	{ "idle", test_idle, false },
	{ "unused", test_unused, false },
	{ "wake", test_wake, false },
	{ "poll", test_poll, false },
	{ "last-look", test_last_look, false },
	{ "stopped-poll", test_stopped_poll, false },
	{ "turns", test_turns, false },
	{ "visitors", test_visitors, false },
	{ "rest", test_rest, false },
	{ "successor", test_successor, false },
	{ "killed", test_killed, false },
	{ "stopped", test_stopped, false },
	{ "fork", test_fork, false },
	{ "all-ports", test_all_ports, false },
	{ 0 },
};

static const struct role roles[] = {
	{ "load", send_load },
	{ "visit", visit },
	{ "flood", send_for_ever },
	{ "stay", stay },
	{ "fork", leave_by_fork },
	{ 0 },
};

int main(int count, char **arguments)
{
	return run_tests(tests, roles, count, arguments);
}
