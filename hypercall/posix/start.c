// SPDX-License-Identifier: GPL-2.0-only
/* Start and stop of the POSIX platform, and what happens on fork(). */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "fork_owner.h"
#include "internal.h"
#include "regions.h"

static pthread_once_t fork_hook_once = PTHREAD_ONCE_INIT;
static int fork_hook_error;

/* For the signal handlers and the hook for the end of threads, which exist while a host is live. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool is_any_live(void)
{
	return ob_host_live(ob_host_first());
}

static void set_live(struct ob_host *host, bool live)
{
	__atomic_store_n(&host->live, live, __ATOMIC_SEQ_CST);
}

static void forget_parent(struct ob_host *host)
{
	ob_posix_regions_forked(host);
	ob_posix_block_forked(host);
	ob_posix_virtio_forked(host);
	ob_posix_sockets_forked(host);
	ob_posix_snapshot_forked(host);
	ob_posix_threads_forked(host);
	ob_posix_spaces_forked(host);
	host->upcalls->forked();
}

/*
 * The child has one thread and no kernel, and can boot one of its own. Handlers that it installs
 * until then are its own: no old one covers ours.
 */
static void forked_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	ob_fork_owners_close();
	ob_posix_hosts_forked();
	ob_host_for_all(ob_platform_stop);
	ob_host_for_all(forget_parent);
	ob_posix_thread_blocks_forked();
	ob_posix_origin_renew();
}

void ob_platform_forget_parent(void)
{
	forked_child();
}

static void fork_hook_install(void)
{
	fork_hook_error = ob_fork_owners_hook(forked_child);
	ob_posix_origin_make();
}

static bool fork_hook_is_installed(void)
{
	pthread_once(&fork_hook_once, fork_hook_install);
	return !fork_hook_error;
}

/* Without the hook, children would share the file that this prepares. */
void ob_platform_prepare(struct ob_host *host)
{
	if (fork_hook_is_installed())
		ob_posix_huge_prepare(host);
}

/* After the file with huge pages, which stubs show. */
void ob_platform_prepare_programs(struct ob_host *host)
{
	if (fork_hook_is_installed())
		ob_posix_spaces_prepare(host, ob_posix_huge_fd(host));
}

void ob_platform_prepared_drop(struct ob_host *host)
{
	ob_posix_spaces_stop(host);
	ob_posix_ram_drop(host);
}

static int start_first(void)
{
	int error = ob_posix_thread_hook_create();

	if (error)
		return error;
	ob_posix_components_find();
	ob_posix_signals_install();
	return 0;
}

int ob_platform_start(struct ob_host *host, ob_platform_log *log, void *context)
{
	int error = 0;

	if (!fork_hook_is_installed())
		return -EAGAIN;
	ob_posix_snapshot_reset(host);
	ob_posix_set_log(host, log, context);
	pthread_mutex_lock(&mutex);
	if (!is_any_live())
		error = start_first();
	if (!error)
		set_live(host, true);
	pthread_mutex_unlock(&mutex);
	return error;
}

void ob_platform_stop(struct ob_host *host)
{
	pthread_mutex_lock(&mutex);
	if (__atomic_load_n(&host->live, __ATOMIC_SEQ_CST)) {
		set_live(host, false);
		if (!is_any_live()) {
			ob_posix_signals_remove();
			ob_posix_thread_hook_delete();
		}
	}
	pthread_mutex_unlock(&mutex);
}
