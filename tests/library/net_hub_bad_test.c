// SPDX-License-Identifier: GPL-2.0-only
/* The hub back-end: ports that do harm, files that are none, and errors of joining. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
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
static void write_lies(struct ob_hub *hub)
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

		write_lies(hub);
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
	while (now() - begin < 2) {
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

/* The next record of the ring to port 0, as it is: its length, and how far the position moves. */
static void put_record(struct ob_hub *hub, uint32_t length, uint64_t moves)
{
	struct ob_hub_peer *peer = hub->peers[0];

	memcpy(ob_hub_ring(hub, 0) + peer->sent % OB_HUB_RING_BYTES, &length, 4);
	peer->sent += moves;
	__atomic_store_n(&hub->control->links[0].sent, peer->sent, __ATOMIC_RELEASE);
	ob_hub_ring_bell(peer->bell);
}

#define SKIP UINT32_MAX
#define LIES 7

static void tell_lie(struct member *member, unsigned int lie)
{
	struct ob_hub *hub = (struct ob_hub *)member->hub;

	switch (lie) {
	case 0: return put_record(hub, OB_NET_FRAME_MOST + 1, 65600);	/* longer than any */
	case 1: return put_record(hub, 25, 64);			/* shorter */
	case 2: return put_record(hub, 200, 64);		/* longer than the position says */
	case 3: return put_record(hub, 50, 65);			/* not aligned */
	case 4: return put_record(hub, SKIP, 64);		/* skips more than there is */
	case 5: /* more than a ring; without end if each record skips */
		memcpy(ob_hub_ring(hub, 0), &(uint32_t){ SKIP }, 4);
		return put_record(hub, SKIP, 1ull << 62);
	case 6: /* beyond the end of the ring */
		while (hub->peers[0]->sent < OB_HUB_RING_BYTES - 60032)
			CHECK_EQUAL(try_send(member, ALL, 60000), 0);
		while (hub->peers[0]->sent < OB_HUB_RING_BYTES - 128)
			CHECK_EQUAL(try_send(member, ALL, 100), 0);
		return put_record(hub, 65000, 65024);
	}
}

static void lie_once(unsigned int id)
{
	struct member *member = join(id);

	send_to(member, ALL, 100);
	while (!next_of(&member->common[1]))
		usleep(1000);
	tell_lie(member, id - 2);
	for (;;)
		pause();
}

/* A port that breaks the protocol is not read any more. The port's next user is. */
static void test_broken(void)
{
	struct member *a = join(1);
	struct ob_hub *hub = (struct ob_hub *)a->hub;

	for (unsigned int i = 0; i < LIES; i++) {
		pid_t child = start("lie", 2 + i);
		uint32_t count;

		wait_for_common(a, 2 + i, 1);
		/* The ring fills up to its end. */
		a->port.hold = i == 6;
		send_to(a, ALL, 100);
		usleep(a->port.hold ? 200000 : 0);
		port_release(&a->port, 0);
		for (int j = 0; j < 10 * SECONDS; j++, usleep(1000))
			if (__atomic_load_n(&hub->peers[1]->broken, __ATOMIC_ACQUIRE))
				break;
		CHECK(hub->peers[1]->broken);
		count = next_of(&a->common[2 + i]);
		CHECK(i == 6 ? count > 60 : count == 1);
		end(child);
		/* It looks for ports that ended. */
		hub->bell->changes++;
		ob_hub_ring_bell(hub->bell);
		wait_for_peers(a, 0);
	}
	meet(a, join(60));
	CHECK_EQUAL(((struct ob_hub *)members[60].hub)->port, 1);
	leave(a);
	leave(&members[60]);
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
	refused(path, 0, -EBUSY, "holds the lock of the file for 2 seconds");
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

static const struct test tests[] = {
	{ "hostile", test_hostile, false },
	{ "broken", test_broken, false },
	{ "file", test_file, false },
	{ "mtu", test_mtu, false },
	{ "file-in-use", test_file_in_use, false },
	{ "locked", test_locked, false },
	{ "other-user", test_other_user, true },
	{ 0 },
};

static const struct role roles[] = {
	{ "scribble", scribble },
	{ "lie", lie_once },
	{ 0 },
};

int main(int count, char **arguments)
{
	return run_tests(tests, roles, count, arguments);
}
