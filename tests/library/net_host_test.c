// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sockets of the host as a kernel's own: net_host_test VCPUS BYTES HUB
 *
 * The other side of each connection is the host itself, in the same process, by the C library.
 * This file has the descriptions of the interface and the halt; net_host_bed.h names the others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <outboard/net.h>

#include "net_host_bed.h"

static void refused(const char *description, int error, const char *why)
{
	CHECK_EQUAL(ob_net_add(description, NULL), error);
	if (!strstr(ob_net_error(), why)) {
		fprintf(stderr, "%s: %s\n", description, ob_net_error());
		CHECK(!"the message");
	}
}

static int add(void)
{
	char name[16];
	int number = ob_net_add("host", name);

	if (number < 0)
		fprintf(stderr, "%s\n", ob_net_error());
	CHECK(number >= 0);
	CHECK(!strcmp(name, "host"));
	return number;
}

/* Closes the kernel's socket: does that free a descriptor of the host? */
static bool is_hosts(int fd)
{
	long before = client_belongings().descriptors;

	OK(ob_sys_close((unsigned int)fd));
	return client_belongings().descriptors < before;
}

static void test_descriptions(const char *hub)
{
	int before, number, after, own;

	refused("host:x", -EINVAL, "there is one host");
	refused("host,ip=10.0.0.1/24", -EINVAL, "its only word is dns");
	own = ob_net_add(hub, NULL);
	CHECK(own >= 0);
	refused("host", -EBUSY, "eth0");
	CHECK_EQUAL(ob_net_remove(own), 0);
	before = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	number = add();
	refused("host", -EBUSY, "remove the interface host");
	refused(hub, -EBUSY, "remove the interface host");
	CHECK(!is_hosts(before));
	before = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	/* A new network namespace has sockets of the kernel's own. */
	OK(ob_sys_unshare(0x40000000 /* CLONE_NEWNET */));
	CHECK_EQUAL(ob_net_remove(number), 0);
	CHECK(is_hosts(before));
	after = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	CHECK(!is_hosts(after));
	own = ob_net_add("host,dns=127.0.0.1", NULL);
	CHECK(own >= 0);
	CHECK_EQUAL(ob_net_remove(own), 0);
}

/* Sockets that would open the host's as their own are refused, also while `host` is there. */
static void test_mptcp(int family)
{
	int fd = (int)OK(ob_sys_socket(family, SOCK_STREAM, IPPROTO_MPTCP)), number;

	refused("host", -EBUSY, "an MPTCP socket of this kernel is open");
	OK(ob_sys_close((unsigned int)fd));
	number = add();
	FAILS(ob_sys_socket(family, SOCK_STREAM, IPPROTO_MPTCP), EPROTONOSUPPORT);
	CHECK_EQUAL(ob_net_remove(number), 0);
	fd = (int)OK(ob_sys_socket(family, SOCK_STREAM, IPPROTO_MPTCP));
	OK(ob_sys_close((unsigned int)fd));
	/* A raw socket is none of MPTCP. */
	fd = (int)OK(ob_sys_socket(family, SOCK_RAW, IPPROTO_MPTCP));
	number = add();
	CHECK_EQUAL(ob_net_remove(number), 0);
	OK(ob_sys_close((unsigned int)fd));
}

/* A halt ends what is open: calls, connections, descriptors of the host. */
static void test_halt(unsigned int vcpus, struct client_belongings before)
{
	struct waiter waiter;
	struct end ends[2];
	union address address;
	char byte;

	connected(&host, &kernel, AF_INET, ends);
	listening(&kernel, AF_INET, &address);
	start(&waiter, ends[1].fd, receive_one);
	CHECK_EQUAL(ob_halt(), 0);
	CHECK_EQUAL(finish(&waiter), ENODEV);
	CHECK_EQUAL(OK(recv(ends[0].fd, &byte, 1, 0)), 0);
	OK(close(ends[0].fd));
	client_check_files_and_threads(before);
	client_boot(vcpus);
	add();
	connected(&host, &kernel, AF_INET, ends);
	exchange(ends, PIECE);
	CHECK_EQUAL(ob_halt(), 0);
	OK(close(ends[0].fd));
	client_check_files_and_threads(before);
}

int main(int argc, char **argv)
{
	unsigned int vcpus = argc > 3 ? (unsigned int)atoi(argv[1]) : 1;
	struct client_belongings before;
	uint64_t bytes;

	CHECK(argc == 4);
	bytes = strtoull(argv[2], NULL, 10);
	client_boot(vcpus);
	test_descriptions(argv[3]);
	test_mptcp(AF_INET);
	test_mptcp(AF_INET6);
	CHECK_EQUAL(ob_halt(), 0);
	/* The library keeps its archive of components open. */
	before = client_belongings();
	client_boot(vcpus);
	add();
	test_transfers(bytes);
	test_connections();
	test_waits();
	test_options();
	test_halt(vcpus, before);
	return 0;
}
