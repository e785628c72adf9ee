// SPDX-License-Identifier: GPL-2.0-only
/*
 * The DHCPv6 client, against a server at the other end of a cable inside the kernel.
 *
 *   dhcp6_test CASE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include <outboard/net.h>

#include "client.h"
#include "dhcp6_server.h"
#include "lease_cases.h"
#include "net_links.h"
#include "threads.h"
#include "wait_for.h"

#define MANAGED 0x80
#define OTHER 0x40
#define SERVER 0xfd, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x53

static bool has_servers(const char *wanted)
{
	char text[256] = "";

	net_read_file("/etc/resolv.conf", text, sizeof(text));
	return !strcmp(text, wanted);
}

/* Whether the interface has an address that the router announces. */
static bool has_announced(void)
{
	char source[64];

	return net_source("2001:db8:1::99", source, sizeof(source)) &&
	       !strncmp(source, "2001:db8:1:", 11);
}

static void test_lease(void)
{
	dhcp6_server_option(23, (uint8_t[]){ SERVER }, 16);
	net_configure("eth7", "dhcp6,dns=10.5.0.99");
	CHECK(net_has_address("fd00:7::77") && net_is_up("lo"));
	CHECK(has_servers("nameserver 10.5.0.99\nnameserver fd00:7::53\n"));
	lease_expect_failure("dhcp6", -EEXIST, "eth7: dhcp6: a client runs already");
	net_configure("eth7", "down");
	CHECK(!net_has_address("fd00:7::77"));
	CHECK(has_servers("nameserver 10.5.0.99\n"));
	CHECK_EQUAL(threads_named("outboard dhcp6", NULL), 0);
	WAIT_FOR(dhcp6_server.releases == 1);
	net_configure("eth7", "dhcp6");
	CHECK(net_has_address("fd00:7::77"));
	CHECK_EQUAL(dhcp6_server.solicits, 2);
}

/* The client waits for all offers, and chooses the one of the preferred server. */
static void test_choice(void)
{
	dhcp6_server.has_rival = true;
	dhcp6_server.preference = 2;
	net_configure("eth7", "dhcp6");
	CHECK(net_has_address("fd00:7::77") && !net_has_address("fd00:7::66"));
}

static void test_renewal(void)
{
	double end;

	dhcp6_server.valid = 3;
	net_configure("eth7", "dhcp6");
	for (end = seconds() + 7; seconds() < end; usleep(10000))
		CHECK(net_has_address("fd00:7::77"));
	CHECK(dhcp6_server.renewals >= 2 && dhcp6_server.solicits == 1);
}

/* The server falls silent: the client asks it, then all servers, then it begins again. */
static void test_expiry(void)
{
	dhcp6_server.valid = 5;
	net_configure("eth7", "dhcp6");
	dhcp6_server.mode = DHCP6_SILENT;
	WAIT_FOR(dhcp6_server.renewals && dhcp6_server.rebinds);
	WAIT_FOR(!net_has_address("fd00:7::77"));
	WAIT_FOR(dhcp6_server.solicits > 1);
	dhcp6_server.host = 0x78;
	dhcp6_server.mode = DHCP6_ANSWER;
	WAIT_FOR(net_has_address("fd00:7::78"));
}

static void test_refused_renewal(void)
{
	dhcp6_server.valid = 2;
	net_configure("eth7", "dhcp6");
	dhcp6_server.mode = DHCP6_REFUSE_ONCE;
	WAIT_FOR(net_has_address("fd00:7::78"));
	CHECK(!net_has_address("fd00:7::77"));
}

static void test_refused(void)
{
	dhcp6_server.mode = DHCP6_REFUSE;
	lease_expect_failure("dhcp6=5", -ETIMEDOUT,
		       "eth7: dhcp6: no server has given a lease in 5 seconds");
	/* It did not ask as fast as it could. */
	CHECK(dhcp6_server.requests >= 1 && dhcp6_server.requests < 10);
	CHECK(!net_is_up("eth7"));
}

/* A server that never answers harms no other link. */
static void test_silent(void)
{
	net_make_dummy("test0");
	net_configure("test0", "ip=10.6.0.1/24,ip=fd00:6::1/64");
	dhcp6_server.mode = DHCP6_SILENT;
	lease_expect_failure("dhcp6=4,ip=10.7.0.1/24", -ETIMEDOUT, "in 4 seconds");
	CHECK(dhcp6_server.solicits >= 1);
	CHECK(!net_has_address("10.7.0.1") && !net_is_up("eth7"));
	CHECK(net_has_address("10.6.0.1") && net_has_address("fd00:6::1") && net_is_up("test0"));
	CHECK_EQUAL(threads_named("outboard dhcp6", NULL), 0);
	CHECK_EQUAL(ob_net_configure("lo", "dhcp6=1"), -EOPNOTSUPP);
}

static void test_hostile(void)
{
	dhcp6_server.wrong = 2000;
	dhcp6_server.valid = 4;
	net_configure("eth7", "dhcp6=120");
	CHECK(net_has_address("fd00:7::77"));
	WAIT_FOR(dhcp6_server.renewals > 2);
	CHECK(net_has_address("fd00:7::77"));
}

/* The router says that addresses come by DHCPv6. */
static void test_managed(void)
{
	dhcp6_server.flags = MANAGED;
	dhcp6_server.announces = true;
	net_configure("eth7", "slaac=60");
	CHECK(net_has_address("fd00:7::77"));
	CHECK_EQUAL(dhcp6_server.informations, 0);
}

/* It says so, and no server answers. */
static void test_managed_silent(void)
{
	dhcp6_server.flags = MANAGED;
	dhcp6_server.announces = true;
	dhcp6_server.mode = DHCP6_SILENT;
	lease_expect_failure("slaac=5", -ETIMEDOUT, "eth7: dhcp6: no server has given a lease");
	CHECK(!net_is_up("eth7"));
	/* An address of the router's network is enough. */
	dhcp6_server.prefix = true;
	net_configure("eth7", "slaac=10");
	CHECK(has_announced() && *ob_net_error() == '\0');
	CHECK_EQUAL(threads_named("outboard dhcp6", NULL), 0);
}

/* The router announces a network, and that a server knows more. */
static void test_information(void)
{
	dhcp6_server_option(23, (uint8_t[]){ SERVER }, 16);
	dhcp6_server.flags = OTHER;
	dhcp6_server.prefix = dhcp6_server.announces = true;
	net_configure("eth7", "slaac=60");
	CHECK(has_announced() && !net_has_address("fd00:7::77"));
	CHECK(has_servers("nameserver fd00:7::53\n"));
	CHECK(dhcp6_server.informations && !dhcp6_server.solicits);
	net_configure("eth7", "down");
	CHECK(has_servers(""));
	/* A silent server delays the call for a moment. Its answer is used when it comes. */
	dhcp6_server.mode = DHCP6_SILENT;
	net_configure("eth7", "slaac=60");
	CHECK(has_announced() && has_servers(""));
	dhcp6_server.mode = DHCP6_ANSWER;
	WAIT_FOR(has_servers("nameserver fd00:7::53\n"));
	CHECK_EQUAL(dhcp6_server.releases, 0);
}

/* Without these flags nobody asks a server, and the program's own client stays. */
static void test_flags(void)
{
	dhcp6_server.prefix = dhcp6_server.announces = true;
	net_configure("eth7", "slaac=60");
	CHECK(has_announced());
	CHECK_EQUAL(threads_named("outboard dhcp6", NULL), 0);
	dhcp6_server.flags = OTHER;
	net_configure("eth7", "dhcp6,slaac=60");
	CHECK(net_has_address("fd00:7::77") && has_announced());
	CHECK_EQUAL(dhcp6_server.informations, 0);
}

static void silence(void)
{
	dhcp6_server.mode = DHCP6_SILENT;
}

static const struct lease_client client = {
	.word = "dhcp6",
	.thread = "outboard dhcp6",
	.start = dhcp6_server_start,
	.silence = silence,
	.asked = &dhcp6_server.solicits,
};

static void test_interrupt(void)
{
	lease_test_interrupt(&client);
}

static void test_halt(void)
{
	lease_test_halt(&client);
}

static const struct lease_case cases[] = {
	{ "lease", test_lease },	 { "choice", test_choice },
	{ "renewal", test_renewal },	 { "expiry", test_expiry },
	{ "refused", test_refused },	 { "refused-renewal", test_refused_renewal },
	{ "silent", test_silent },	 { "hostile", test_hostile },
	{ "managed", test_managed },	 { "managed-silent", test_managed_silent },
	{ "information", test_information }, { "flags", test_flags },
	{ "interrupt", test_interrupt }, { "halt", test_halt },
};

int main(int count, char **arguments)
{
	CHECK(count == 2);
	return lease_run(&client, cases, sizeof(cases) / sizeof(cases[0]), arguments[1]);
}
