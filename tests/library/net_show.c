// SPDX-License-Identifier: GPL-2.0-only
/*
 * Adds an interface and shows what became of it:
 *
 *   net_show DESCRIPTION
 *
 * Prints the result of ob_net_add, with its reason; then IPv6 addresses with their prefix and
 * scope, as /proc/net/if_inet6 has them; name servers; "ready". Waits for the end of standard
 * input, and removes the interface.
 */
#include <string.h>

#include <outboard/net.h>

#include "client.h"
#include "net_links.h"

static void show_file(const char *path)
{
	char text[4096] = "";

	net_read_file(path, text, sizeof(text));
	fputs(text, stdout);
}

int main(int count, char **arguments)
{
	int number;

	CHECK(count == 2);
	client_boot(1);
	number = ob_net_add(arguments[1], NULL);
	printf("%d %s\n", number < 0 ? number : 0, ob_net_error());
	show_file("/proc/net/if_inet6");
	show_file("/etc/resolv.conf");
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	if (number >= 0)
		CHECK_EQUAL(ob_net_remove(number), 0);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
