// SPDX-License-Identifier: GPL-2.0-only
/* The hosts: one handle for each kernel of this process. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include <outboard/platform.h>

#include "internal.h"

static struct ob_host hosts[OB_HOSTS_MOST];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;	/* of `taken` */
/* Behind the last place that was ever taken; atomic. Loops leave the memory beyond untouched. */
static struct ob_host *used_end = hosts;

static struct ob_host *end_of_used(void)
{
	return __atomic_load_n(&used_end, __ATOMIC_ACQUIRE);
}

static void initialize(struct ob_host *host)
{
	pthread_mutex_init(&host->disks.mutex, NULL);
	pthread_mutex_init(&host->queue.mutex, NULL);
	pthread_mutex_init(&host->queue.users_mutex, NULL);
	pthread_mutex_init(&host->queue.start_mutex, NULL);
	pthread_mutex_init(&host->offers.mutex, NULL);
	ob_posix_snapshot_reset(host);
}

int ob_platform_host_new(const struct ob_upcalls *upcalls, struct ob_host **new)
{
	struct ob_host *host = hosts;

	pthread_mutex_lock(&mutex);
	while (host < hosts + OB_HOSTS_MOST && host->taken)
		host++;
	if (host < hosts + OB_HOSTS_MOST) {
		host->taken = true;
		if (host == end_of_used())
			__atomic_store_n(&used_end, host + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&mutex);
	if (host == hosts + OB_HOSTS_MOST)
		return -EAGAIN;
	initialize(host);
	__atomic_store_n(&host->upcalls, upcalls, __ATOMIC_RELEASE);
	*new = host;
	return 0;
}

void ob_platform_host_free(struct ob_host *host)
{
	pthread_mutex_lock(&mutex);
	host->taken = false;
	pthread_mutex_unlock(&mutex);
}

struct ob_host *ob_host_first(void)
{
	return hosts;
}

struct ob_host *ob_host_live(struct ob_host *host)
{
	for (; host < end_of_used(); host++)
		if (__atomic_load_n(&host->live, __ATOMIC_ACQUIRE))
			return host;
	return NULL;
}

void ob_host_for_all(void (*function)(struct ob_host *host))
{
	for (struct ob_host *host = hosts; host < end_of_used(); host++)
		if (host->upcalls)
			function(host);
}

void ob_posix_hosts_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
}
