// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hub back-end, between ports of one process and of several. Every frame says who sent it, its
 * number, and the seed of its contents; the receiver checks all of it. usage: net_hub_test
 * DIRECTORY [TEST...]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "hub.h"
#include "net_port.h"
#include "threads.h"

#define HEADER OB_NET_HEADER_BYTES
#define ALL 0xff
#define MEMBERS 66
#define SECONDS 1000
#define FRAME_LEAST (HEADER + 14 + sizeof(struct stamp))

/* Follows the Ethernet header of each frame. */
struct stamp {
	uint32_t sender, number, length;
};

/* The frames of one sender to one address. */
struct stream {
	uint32_t first, next;		/* numbers; nothing came if next is 0 */
	uint64_t seen;			/* a bit for each number below 64 */
};

/* A port of the hub, and what came to it. */
struct member {
	unsigned int id;
	struct ob_net_port port;
	struct ob_net_backend *hub;
	uint32_t sent[256];		/* to each id, and to ALL */
	struct stream own[256];		/* from each id to this one */
	struct stream common[256];	/* from each id to ALL */
	bool gaps;			/* frames may be lost */
	bool any_order;			/* frames may overtake each other */
};

static struct member members[MEMBERS];
static char path[200], error[256];

/* ---- frames ----------------------------------------------------------------- */

static void fill(unsigned char *bytes, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++) {
		if (i % 64 == 0)
			seed = seed * 1664525 + 1013904223;
		bytes[i] = (unsigned char)((seed >> 16) + i);
	}
}

static void address(unsigned char *bytes, unsigned int id)
{
	memcpy(bytes, id == ALL ? "\377\377\377\377\377\377" : "\2\0\0\0\0\0", 6);
	bytes[5] = (unsigned char)id;
}

static void make(unsigned char *frame, unsigned int from, unsigned int to, uint32_t number,
		 uint32_t length)
{
	struct stamp stamp = { from, number, length };

	fill(frame, length, number * 31 + from);
	address(frame + HEADER, to);
	address(frame + HEADER + 6, from);
	memcpy(frame + HEADER + 12, "\x88\xb5", 2);
	memcpy(frame + HEADER + 14, &stamp, sizeof(stamp));
}

/* Frames come in order. If none may be lost, they come without a gap from the first one on. */
static void note(const struct member *member, struct stream *stream, uint32_t number)
{
	CHECK(number >= 64 || !(stream->seen >> number & 1));
	if (number < 64)
		__atomic_or_fetch(&stream->seen, 1ull << number, __ATOMIC_RELEASE);
	if (!stream->next)
		stream->first = number;
	else if (member->any_order)
		return;
	else if (member->gaps)
		CHECK(number >= stream->next);
	else
		CHECK_EQUAL(number, stream->next);
	__atomic_store_n(&stream->next, number + 1, __ATOMIC_RELEASE);
}

static void receive(void *context, unsigned int queue, const struct iovec *pieces, int count,
		    size_t length)
{
	static __thread unsigned char got[OB_NET_FRAME_MOST], wanted[OB_NET_FRAME_MOST];
	struct member *member = context;
	struct stamp stamp;

	(void)queue;
	(void)count;
	CHECK(length >= FRAME_LEAST);
	port_copy(got, pieces, 0, length);
	memcpy(&stamp, got + HEADER + 14, sizeof(stamp));
	CHECK_EQUAL(stamp.length, length);
	CHECK(stamp.sender < 256);
	make(wanted, stamp.sender, got[HEADER + 5], stamp.number, stamp.length);
	CHECK(!memcmp(got, wanted, length));
	if (got[HEADER + 5] == ALL)
		note(member, &member->common[stamp.sender], stamp.number);
	else if (got[HEADER + 5] == member->id)
		note(member, &member->own[stamp.sender], stamp.number);
}

static uint32_t next_of(struct stream *stream)
{
	return __atomic_load_n(&stream->next, __ATOMIC_ACQUIRE);
}

static void wait_for_stream(struct stream *stream, uint32_t count)
{
	for (int i = 0; i < 30 * SECONDS && next_of(stream) < count; i++)
		usleep(1000);
	CHECK_EQUAL(next_of(stream), count);
}

/* Waits until all frames to the member are there. */
static void wait_for(struct member *member, const struct member *from)
{
	wait_for_stream(&member->own[from->id], from->sent[member->id]);
}

static void wait_for_common(struct member *member, unsigned int from, uint32_t count)
{
	wait_for_stream(&member->common[from], count);
}

/* Sends the next frame in pieces. 0, or the error of the back-end. */
static int try_send(struct member *member, unsigned int to, uint32_t length)
{
	static __thread unsigned char frame[OB_NET_FRAME_MOST];
	struct iovec pieces[OB_NET_PIECES_MOST];
	int count = 0, result;

	make(frame, member->id, to, member->sent[to], length);
	for (uint32_t at = 0, part = HEADER; at < length; at += part, part = 4000, count++) {
		if (part > length - at)
			part = length - at;
		pieces[count] = (struct iovec){ frame + at, part };
	}
	result = member->hub->operations->transmit(member->hub, 0, pieces, count);
	member->hub->operations->transmit_end(member->hub, 0);
	member->sent[to] += !result;
	return result;
}

/* Waits for room. */
static void send_to(struct member *member, unsigned int to, uint32_t length)
{
	int result;

	while ((result = try_send(member, to, length)) == -ENOBUFS)
		usleep(100);
	CHECK_EQUAL(result, 0);
}

static uint32_t random_length(void)
{
	uint32_t most = rand() % 4 ? 1600 : OB_NET_FRAME_MOST;

	return (uint32_t)FRAME_LEAST + (uint32_t)rand() % (most - (uint32_t)FRAME_LEAST + 1);
}

/* ---- ports ------------------------------------------------------------------ */

static int try_join(struct member *member, const char *target, uint32_t mtu)
{
	struct ob_net_request request = { .target = target, .mtu = mtu };

	error[0] = '\0';
	return ob_net_hub_open(NULL, &member->port, &request, &member->hub, error, sizeof(error));
}

static struct member *join_with(unsigned int id, unsigned int buffers)
{
	struct member *member = &members[id];
	int result;

	memset(member, 0, sizeof(*member));
	member->id = id;
	port_init(&member->port, buffers, 1536, receive, member);
	result = try_join(member, path, 0);
	if (result)
		fprintf(stderr, "%s\n", error);
	CHECK_EQUAL(result, 0);
	CHECK_EQUAL(member->hub->operations->set_features(member->hub, 0), 0);
	return member;
}

static struct member *join(unsigned int id)
{
	return join_with(id, 128);
}

static void leave(struct member *member)
{
	member->hub->operations->close(member->hub);
	port_free(&member->port);
}

/* The second one joined last: it has the memory of the first one, which opens its memory soon. */
static void meet(struct member *first, struct member *last)
{
	send_to(last, ALL, 100);
	wait_for_common(first, last->id, last->sent[ALL]);
	send_to(first, ALL, 100);
	wait_for_common(last, first->id, first->sent[ALL]);
}

static int peers_of(const struct member *member)
{
	return __builtin_popcountll(((struct ob_hub *)member->hub)->present);
}

static void wait_for_peers(const struct member *member, int count)
{
	for (int i = 0; i < 10 * SECONDS && peers_of(member) != count; i++)
		usleep(1000);
	CHECK_EQUAL(peers_of(member), count);
}

/* Runs a role (below) in another process: not by fork() alone, which copies locks of threads. */
static pid_t start(const char *role, unsigned int id)
{
	pid_t child = fork();
	char number[8];

	CHECK(child >= 0);
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(number, sizeof(number), "%u", id);
	execl("/proc/self/exe", "net_hub_test", "--role", path, role, number, NULL);
	_exit(1);
}

static void finish(pid_t child)
{
	int status;

	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
}

static void end(pid_t child)
{
	int status;

	CHECK_EQUAL(kill(child, SIGKILL), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

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
	send_to(c, ALL, 100);
	wait_for_common(a, 2, c->sent[ALL]);
	before = port_frames(&b->port, 0);
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
		for (unsigned int i = 0; i < 3; i++)
			ready += has_visited(member, 10 + i);
	} while (ready < 3);
	for (unsigned int i = 0; i < 3; i++) {
		for (int status; waitpid(children[i], &status, WNOHANG) == 0; usleep(1000))
			send_to(member, ALL, 100);
	}
	leave(member);
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

/* ---- a hostile port ---------------------------------------------------------- */

static void write_random(void *bytes, size_t size, size_t count)
{
	for (size_t i = 0; i < count; i++)
		((volatile unsigned char *)bytes)[(size_t)rand() % size] = (unsigned char)rand();
}

/* Of another port's memory, a stranger can write nothing. */
static void check_protection(const struct ob_hub *hub)
{
	struct ob_hub_entry entries[OB_HUB_PORTS];
	char name[64];
	int fd;

	ob_hub_file_entries(hub, entries);
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", entries[0].process, entries[0].memory);
	fd = open(name, O_RDWR);
	CHECK(fd >= 0);
	CHECK_EQUAL(pwrite(fd, "x", 1, 0), -1);
	CHECK_EQUAL(ftruncate(fd, 0), -1);
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	close(fd);
	CHECK_EQUAL(mprotect((void *)hub->peers[0]->control, 4096, PROT_READ | PROT_WRITE), -1);
	CHECK_EQUAL(mprotect((void *)hub->peers[0]->ring, 4096, PROT_READ | PROT_WRITE), -1);
}

/* Positions and lengths that are wrong, in a link that is open otherwise. */
static void lie(struct ob_hub *hub)
{
	struct ob_hub_link *link = &hub->control->links[rand() % 3];
	uint64_t value = (uint64_t)rand() << (rand() % 40);

	link->sent = rand() % 2 ? value : value & ~63ull;
	link->taken = value;
	write_random(ob_hub_ring(hub, (unsigned int)rand() % 3), 64, 4);
}

/* The first of them writes to the file, too. */
#define FIRST 30

static void scribble(unsigned int id)
{
	struct member *member = join(id);
	struct ob_hub *hub = (struct ob_hub *)member->hub;
	uint32_t i;

	wait_for_peers(member, 3);
	usleep(50000);
	hub->stopping = true;
	if (id == FIRST)
		check_protection(hub);
	for (i = 0;; i++) {
		struct ob_hub_file file;
		int32_t bad[4] = { getpid(), rand() % 9, rand() % 9, rand() };

		lie(hub);
		if (i % 64)
			continue;
		write_random(hub->control->links, sizeof(hub->control->links), 16);
		for (int port = 0; port < 3; port++)
			if (hub->peers[port])
				write_random(hub->peers[port]->bell, 8, 2);
		if (id != FIRST)
			continue;
		write_random(&file, sizeof(file), sizeof(file));
		if (i % 4096 == 0)
			CHECK(pwrite(hub->file, &file, sizeof(file), 0) > 0);
		CHECK(pwrite(hub->file, bad, sizeof(bad), 64 + (rand() % 64) * 24 + 8) > 0);
		if (i % 65536 == 0)
			CHECK_EQUAL(ftruncate(hub->file, rand() % 2000), 0);
	}
}

/* Two ports exchange frames, none of which is lost or changed, while a third one does its worst. */
static void test_hostile(void)
{
	struct member *a = join(1), *b = join(2);
	pid_t children[2];
	double begin;
	long frames = 0;

	meet(a, b);
	children[0] = start("scribble", FIRST);
	children[1] = start("scribble", FIRST + 1);
	begin = now();
	while (now() - begin < 3) {
		for (int i = 0; i < 20; i++, frames++) {
			send_to(a, 2, random_length());
			send_to(b, 1, random_length());
		}
		wait_for(a, b);
		wait_for(b, a);
	}
	for (int i = 0; i < 2; i++) {
		CHECK_EQUAL(waitpid(children[i], NULL, WNOHANG), 0);
		end(children[i]);
	}
	CHECK(frames > 100);
	leave(a);
	leave(b);
}

static void lie_once(unsigned int id)
{
	struct member *member = join(id);
	struct ob_hub *hub = (struct ob_hub *)member->hub;
	uint32_t length = 0xfffffff0u;

	send_to(member, ALL, 100);
	wait_for_common(member, 1, 1);
	memcpy(ob_hub_ring(hub, 0) + hub->peers[0]->sent % OB_HUB_RING_BYTES, &length, 4);
	hub->control->links[0].sent += 64;
	ob_hub_ring_bell(hub->peers[0]->bell);
	for (;;)
		pause();
}

/* A port that breaks the protocol is not read any more. The port's next user is. */
static void test_broken(void)
{
	struct member *a = join(1);
	struct ob_hub *hub = (struct ob_hub *)a->hub;
	pid_t child = start("lie", 5);

	wait_for_common(a, 5, 1);
	send_to(a, ALL, 100);
	for (int i = 0; i < 10 * SECONDS; i++, usleep(1000))
		if (__atomic_load_n(&hub->peers[1]->broken, __ATOMIC_ACQUIRE))
			break;
	CHECK(hub->peers[1]->broken);
	end(child);
	meet(a, join(6));
	CHECK_EQUAL(((struct ob_hub *)members[6].hub)->port, 1);
	leave(a);
	leave(&members[6]);
}

/* ---- the file ---------------------------------------------------------------- */

static void refused(const char *target, uint32_t mtu, int result, const char *text)
{
	struct member *member = &members[0];

	port_init(&member->port, 64, 1536, NULL, NULL);
	CHECK_EQUAL(try_join(member, target, mtu), result);
	if (!strstr(error, text) || strncmp(error, "cannot join hub ", 16) || strchr(error, '\n')) {
		fprintf(stderr, "'%s' does not contain '%s'\n", error, text);
		_Exit(1);
	}
	port_free(&member->port);
	CHECK_EQUAL(threads_named("outboard-hub", NULL), 0);
}

static void write_file(const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK_EQUAL(write(fd, bytes, size), size);
	close(fd);
}

static void test_file(void)
{
	struct ob_hub_file file = { .header = { OB_HUB_MAGIC, .version = 7 } };
	struct stat status;

	umask(0);
	leave(join(1));
	CHECK_EQUAL(stat(path, &status), 0);
	CHECK_EQUAL(status.st_mode, S_IFREG | 0600);
	CHECK_EQUAL(truncate(path, 100), 0);
	refused(path, 0, -EINVAL, "the file is truncated; remove it");
	CHECK_EQUAL(truncate(path, 20), 0);
	refused(path, 0, -EINVAL, "the file is truncated; remove it");
	write_file(&file, sizeof(file));
	refused(path, 0, -EPROTO, "it has version 7, and this program knows version 1");
	write_file("I am a letter to my aunt.\n", 26);
	refused(path, 0, -EINVAL, "it is no file of a hub; use another path");
	CHECK_EQUAL(truncate(path, 0), 0);
	leave(join(1));
	refused("", 0, -EINVAL, "it has no path");
	refused("/", 0, -EISDIR, "refuses to open or create the file (Is a directory)");
	refused("/dev/null", 0, -EINVAL, "it is no regular file");
	refused("/no/such/place", 0, -ENOENT, "(No such file or directory)");
	refused(path, 65522, -EINVAL, "an MTU of 65522 is not possible; use 68 to 65521");
}

/* The first port's MTU is that of ports that ask for none. */
static void test_mtu(void)
{
	static const uint32_t asked[] = { 9000, 0, 1400 }, given[] = { 9000, 9000, 1400 };

	for (int i = 0; i < 3; i++) {
		port_init(&members[i].port, 64, 1536, NULL, NULL);
		CHECK_EQUAL(try_join(&members[i], path, asked[i]), 0);
		CHECK_EQUAL(members[i].hub->mtu, given[i]);
	}
	for (int i = 0; i < 3; i++)
		leave(&members[i]);
}

/* Ports go on when the file is gone, and repair what somebody overwrites. */
static void test_file_in_use(void)
{
	struct member *a = join(1), *b = join(2);

	meet(a, b);
	CHECK_EQUAL(truncate(path, 0), 0);
	send_to(a, 2, 1000);
	wait_for(b, a);
	/* It creates the contents anew, finds no entries, and is found by the others. */
	join(3);
	wait_for_peers(a, 2);
	wait_for_peers(&members[3], 2);
	meet(a, &members[3]);
	CHECK_EQUAL(unlink(path), 0);
	send_to(a, 2, 1000);
	wait_for(b, a);
	leave(a);
	leave(b);
	leave(&members[3]);
}

/* Somebody stopped while it joined. */
static void test_locked(void)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1ll << 32, .l_len = 1,
	};
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	CHECK_EQUAL(fcntl(fd, F_OFD_SETLK, &lock), 0);
	refused(path, 0, -EBUSY, "holds the lock of the file for 5 seconds");
	close(fd);
}

static void test_other_user(void)
{
	struct member *a = join(1);
	pid_t child;

	CHECK_EQUAL(chmod(path, 0666), 0);
	child = fork();
	if (!child) {
		CHECK_EQUAL(setuid(12345), 0);
		CHECK(try_join(&members[2], path, 0) == -EACCES);
		CHECK(strstr(error, "cannot be reached (Permission denied); all processes of a "
			     "hub run as one user"));
		_exit(0);
	}
	finish(child);
	leave(a);
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

/* ---- all -------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
	bool root;
} tests[] = {
	{ "frames", test_frames, false },
	{ "addresses", test_addresses, false },
	{ "load", test_load, false },
	{ "visitors", test_visitors, false },
	{ "killed", test_killed, false },
	{ "stopped", test_stopped, false },
	{ "fork", test_fork, false },
	{ "all-ports", test_all_ports, false },
	{ "hostile", test_hostile, false },
	{ "broken", test_broken, false },
	{ "file", test_file, false },
	{ "mtu", test_mtu, false },
	{ "file-in-use", test_file_in_use, false },
	{ "locked", test_locked, false },
	{ "other-user", test_other_user, true },
	{ "idle", test_idle, false },
};

static const struct {
	const char *name;
	void (*run)(unsigned int id);
} roles[] = {
	{ "load", send_load },
	{ "visit", visit },
	{ "flood", send_for_ever },
	{ "stay", stay },
	{ "fork", leave_by_fork },
	{ "scribble", scribble },
	{ "lie", lie_once },
};

static int run_role(char **arguments)
{
	unsigned int id = (unsigned int)atoi(arguments[2]);

	strcpy(path, arguments[0]);
	srand(id);
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (!strcmp(roles[i].name, arguments[1]))
			roles[i].run(id);
	return 0;
}

static void run_test(void (*run)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		run();
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	if (status)
		_Exit(1);
}

int main(int count, char **arguments)
{
	CHECK(count >= 2);
	if (!strcmp(arguments[1], "--role"))
		return run_role(arguments + 2);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		bool chosen = count == 2;
		double begin = now();

		for (int j = 2; j < count; j++)
			chosen |= !strcmp(arguments[j], tests[i].name);
		if (!chosen || (tests[i].root && geteuid()))
			continue;
		snprintf(path, sizeof(path), "%s/%s.hub", arguments[1], tests[i].name);
		unlink(path);
		run_test(tests[i].run);
		fprintf(stderr, "%s %.1f\n", tests[i].name, now() - begin);
	}
	return 0;
}
