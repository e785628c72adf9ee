// SPDX-License-Identifier: GPL-2.0-only
/* Ports of a hub for its tests: frames with known contents, other processes, the tests' main(). */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "hub.h"
#include "net_hub_member.h"

struct member members[MEMBERS];
char path[200], error[256];

/* Follows the Ethernet header of each frame. */
struct stamp {
	uint32_t sender, number, length;
};

#define FRAME_LEAST (HEADER + 14 + sizeof(struct stamp))

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

uint32_t next_of(struct stream *stream)
{
	return __atomic_load_n(&stream->next, __ATOMIC_ACQUIRE);
}

void wait_for_stream(struct stream *stream, uint32_t count)
{
	for (int i = 0; i < 30 * SECONDS && next_of(stream) < count; i++)
		usleep(1000);
	CHECK_EQUAL(next_of(stream), count);
}

/* Waits until all frames to the member are there. */
void wait_for(struct member *member, const struct member *from)
{
	wait_for_stream(&member->own[from->id], from->sent[member->id]);
}

void wait_for_common(struct member *member, unsigned int from, uint32_t count)
{
	wait_for_stream(&member->common[from], count);
}

/* Sends the next frame in pieces. 0, or the error of the back-end. */
int try_send(struct member *member, unsigned int to, uint32_t length)
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
void send_to(struct member *member, unsigned int to, uint32_t length)
{
	int result;

	while ((result = try_send(member, to, length)) == -ENOBUFS)
		usleep(100);
	CHECK_EQUAL(result, 0);
}

uint32_t random_length(void)
{
	uint32_t most = rand() % 4 ? 1600 : OB_NET_FRAME_MOST;

	return (uint32_t)FRAME_LEAST + (uint32_t)rand() % (most - (uint32_t)FRAME_LEAST + 1);
}

/* ---- ports ------------------------------------------------------------------ */

int try_join(struct member *member, const char *target, uint32_t mtu)
{
	struct ob_net_request request = { .target = target, .mtu = mtu };

	error[0] = '\0';
	return ob_net_hub_open(NULL, &member->port, &request, &member->hub, error, sizeof(error));
}

struct member *join_with(unsigned int id, unsigned int buffers)
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

struct member *join(unsigned int id)
{
	return join_with(id, 128);
}

void leave(struct member *member)
{
	member->hub->operations->close(member->hub);
	port_free(&member->port);
}

/* The second one joined last: it has the memory of the first one, which opens its memory soon. */
void meet(struct member *first, struct member *last)
{
	send_to(last, ALL, 100);
	wait_for_common(first, last->id, last->sent[ALL]);
	send_to(first, ALL, 100);
	wait_for_common(last, first->id, first->sent[ALL]);
}

int peers_of(const struct member *member)
{
	return __builtin_popcountll(((struct ob_hub *)member->hub)->present);
}

void wait_for_peers(const struct member *member, int count)
{
	for (int i = 0; i < 10 * SECONDS && peers_of(member) != count; i++)
		usleep(1000);
	CHECK_EQUAL(peers_of(member), count);
}

/* Runs a role (below) in another process: not by fork() alone, which copies locks of threads. */
pid_t start(const char *role, unsigned int id)
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

void finish(pid_t child)
{
	int status;

	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
}

void check_not_failed(pid_t child)
{
	siginfo_t info = { .si_pid = 0 };

	CHECK_EQUAL(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	CHECK(!info.si_pid || (info.si_code == CLD_EXITED && info.si_status == 0));
}

void end(pid_t child)
{
	int status;

	CHECK_EQUAL(kill(child, SIGKILL), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- main() ------------------------------------------------------------------ */

static int run_role(const struct role *roles, char **arguments)
{
	unsigned int id = (unsigned int)atoi(arguments[2]);

	strcpy(path, arguments[0]);
	srand(id);
	for (; roles->name; roles++)
		if (!strcmp(roles->name, arguments[1]))
			roles->run(id);
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

static bool is_test(const struct test *tests, const char *name)
{
	for (; tests->name; tests++) {
		if (!strcmp(tests->name, name))
			return true;
	}
	return false;
}

int run_tests(const struct test *tests, const struct role *roles, int count, char **arguments)
{
	CHECK(count >= 2);
	if (!strcmp(arguments[1], "--role"))
		return run_role(roles, arguments + 2);
	for (int i = 2; i < count; i++)
		CHECK(is_test(tests, arguments[i]));
	for (; tests->name; tests++) {
		bool chosen = count == 2;
		double begin = now();

		for (int j = 2; j < count; j++)
			chosen |= !strcmp(arguments[j], tests->name);
		if (!chosen || (tests->root && geteuid()))
			continue;
		snprintf(path, sizeof(path), "%s/%s.hub", arguments[1], tests->name);
		unlink(path);
		run_test(tests->run);
		fprintf(stderr, "%s %.1f\n", tests->name, now() - begin);
	}
	return 0;
}
