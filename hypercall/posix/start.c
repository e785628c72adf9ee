// SPDX-License-Identifier: GPL-2.0-only
/* Start and stop of the POSIX platform, and what happens on fork(). */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "internal.h"

static pthread_once_t fork_hook_once = PTHREAD_ONCE_INIT;
static int fork_hook_error;
static bool started;

/*
 * The child has one thread and no kernel; it can boot one of its own. Handlers that it installs until
 * then are its own: none of them covers ours.
 */
static void forked_child(void)
{
	ob_posix_stop();
	ob_posix_memory_forked();
	ob_posix_block_forked();
	ob_posix_snapshot_forked();
	ob_posix_threads_forked();
	ob_kernel_forked();
}

static void fork_hook_install(void)
{
	fork_hook_error = pthread_atfork(NULL, NULL, forked_child);
}

static bool fork_hook_is_installed(void)
{
	pthread_once(&fork_hook_once, fork_hook_install);
	return !fork_hook_error;
}

/* Without the hook, children would share what is prepared. */
void ob_posix_prepare(void)
{
	if (fork_hook_is_installed())
		ob_posix_huge_prepare();
}

int ob_posix_start(ob_posix_log *log)
{
	int error;

	if (!fork_hook_is_installed())
		return -EAGAIN;
	error = ob_posix_thread_hook_create();
	if (error)
		return error;
	ob_posix_components_find();
	ob_posix_set_log(log);
	ob_posix_signals_install();
	started = true;
	return 0;
}

void ob_posix_stop(void)
{
	if (!started)
		return;
	ob_posix_signals_remove();
	ob_posix_thread_hook_delete();
	started = false;
}
