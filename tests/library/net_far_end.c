// SPDX-License-Identifier: GPL-2.0-only
/* See net_far_end.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include "client.h"
#include "net_far_end.h"
#include "net_links.h"

static volatile long server_task;
static volatile int cable_is_there, is_ready;

/* Its addresses are usable as soon as the cable is: no duplicate is looked for. */
static void accept_duplicates(const char *link)
{
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/accept_dad", link);
	fd = (int)OK(ob_sys_open(path, O_WRONLY, 0));
	CHECK_EQUAL(OK(ob_sys_write(fd, "0", 1)), 1);
	OK(ob_sys_close(fd));
}

static void *run(void *argument)
{
	const struct net_far_end *far_end = argument;
	int fd;

	OK(ob_sys_unshare(CLONE_NEWNET));
	server_task = OK(ob_sys_gettid());
	while (!cable_is_there)
		OK(ob_sys_sched_yield());
	accept_duplicates(far_end->peer);
	net_configure(far_end->peer, far_end->address);
	fd = far_end->open();
	is_ready = 1;
	far_end->serve(fd);
	return NULL;
}

void net_far_end_start(const struct net_far_end *far_end)
{
	pthread_t thread;

	server_task = cable_is_there = is_ready = 0;
	CHECK(!pthread_create(&thread, NULL, run, (void *)far_end));
	CHECK(!pthread_detach(thread));
	while (!server_task)
		OK(ob_sys_sched_yield());
	net_make_veth(far_end->link, far_end->peer);
	net_move_link(far_end->peer, server_task);
	cable_is_there = 1;
	while (!is_ready)
		OK(ob_sys_sched_yield());
}
