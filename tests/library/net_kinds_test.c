// SPDX-License-Identifier: GPL-2.0-only
/*
 * The network components of the kernel are there, and work together:
 * net_kinds_test KINDS SOCKETS COMPONENTS
 *
 *   KINDS       links that Linux makes without more words, as in "bridge,bond"
 *   SOCKETS     families, types and protocols, as in "2.1.132"
 *   COMPONENTS  names that load
 */
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "net_links.h"

static void make_links(char *kinds)
{
	int number = 0;
	char name[16];

	for (char *kind = strtok(kinds, ","); kind; kind = strtok(NULL, ",")) {
		snprintf(name, sizeof(name), "link%d", number++);
		fprintf(stderr, "link %s\n", kind);
		net_make_link(kind, name);
		CHECK(net_index(name) > 0);
		net_delete_link(name);
		CHECK(net_index(name) < 0);
	}
}

static void make_sockets(char *sockets)
{
	for (char *word = strtok(sockets, ","); word; word = strtok(NULL, ",")) {
		int family, type, protocol;

		fprintf(stderr, "socket %s\n", word);
		CHECK_EQUAL(sscanf(word, "%d.%d.%d", &family, &type, &protocol), 3);
		OK(ob_sys_close((int)OK(ob_sys_socket(family, type, protocol))));
	}
}

static void load(char *components)
{
	for (char *name = strtok(components, ","); name; name = strtok(NULL, ",")) {
		fprintf(stderr, "component %s\n", name);
		CHECK_EQUAL(ob_component_load(name, NULL), 0);
	}
}

int main(int count, char *words[])
{
	CHECK_EQUAL(count, 4);
	client_boot(2);
	make_links(words[1]);
	make_sockets(words[2]);
	load(words[3]);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
