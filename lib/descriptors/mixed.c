// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waits for descriptors of the kernel and of the host at once.
 *
 * The caller waits in the kernel. A helper thread waits in the host meanwhile, and wakes the caller
 * through an eventfd of the kernel. Before the caller returns, it ends the helper's wait through an
 * eventfd of the host. Helpers stay for the next callers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <outboard/platform_host.h>
#include <outboard/syscalls.h>

#include "local.h"

struct helper {
	struct helper *next;		/* in the list of idle ones */
	int kernel_event, host_event;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool waits;			/* the helper has a job */
	struct pollfd *descriptors;	/* of the job; the last one is host_event */
	nfds_t count;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct helper *idle;		/* under the mutex */
static pid_t owner;			/* the process that the list belongs to */

int64_t ob_local_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const struct timespec *ob_local_left(int64_t end, struct timespec *left)
{
	int64_t now;

	if (end == OB_LOCAL_NEVER)
		return NULL;
	now = ob_local_now();
	*left = (struct timespec){ 0 };
	if (end > now) {
		left->tv_sec = (end - now) / 1000000000;
		left->tv_nsec = (end - now) % 1000000000;
	}
	return left;
}

/* ---- helpers ------------------------------------------------------------------- */

static void run_job(struct helper *helper)
{
	uint64_t one = 1;

	while (poll(helper->descriptors, helper->count, -1) < 0 && errno == EINTR)
		;
	ob_sys_write(helper->kernel_event, &one, sizeof(one));
}

static void *help(void *argument)
{
	struct helper *helper = argument;

	pthread_mutex_lock(&helper->mutex);
	for (;;) {
		while (!helper->waits)
			pthread_cond_wait(&helper->changed, &helper->mutex);
		pthread_mutex_unlock(&helper->mutex);
		run_job(helper);
		pthread_mutex_lock(&helper->mutex);
		helper->waits = false;
		pthread_cond_signal(&helper->changed);
	}
	return NULL;
}

/* The program's signals are for its own threads. */
static int start_thread(struct helper *helper)
{
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGURG);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, help, helper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		pthread_detach(thread);
	return error;
}

static void free_helper(struct helper *helper)
{
	if (helper->host_event >= 0)
		close(helper->host_event);
	if (helper->kernel_event >= 0)
		ob_sys_close(helper->kernel_event);
	free(helper);
}

static struct helper *new_helper(void)
{
	struct helper *helper = calloc(1, sizeof(*helper));
	int error = 0;

	if (!helper)
		return NULL;
	pthread_mutex_init(&helper->mutex, NULL);
	pthread_cond_init(&helper->changed, NULL);
	helper->host_event = ob_platform_descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	helper->kernel_event = (int)ob_sys_eventfd2(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (helper->host_event < 0 || helper->kernel_event < 0)
		error = errno;
	if (!error)
		error = start_thread(helper);
	if (!error)
		return helper;
	free_helper(helper);
	errno = error;
	return NULL;
}

/* A fork()ed child has none of the helpers. */
static struct helper *take_helper(void)
{
	struct helper *helper;

	pthread_mutex_lock(&mutex);
	if (owner != getpid())
		idle = NULL;
	owner = getpid();
	helper = idle;
	if (helper)
		idle = helper->next;
	pthread_mutex_unlock(&mutex);
	return helper ? helper : new_helper();
}

static void return_helper(struct helper *helper)
{
	pthread_mutex_lock(&mutex);
	helper->next = idle;
	idle = helper;
	pthread_mutex_unlock(&mutex);
}

static void begin_job(struct helper *helper, struct pollfd *descriptors, nfds_t count)
{
	pthread_mutex_lock(&helper->mutex);
	helper->descriptors = descriptors;
	helper->count = count;
	helper->waits = true;
	pthread_cond_signal(&helper->changed);
	pthread_mutex_unlock(&helper->mutex);
}

static void end_job(struct helper *helper)
{
	uint64_t value = 1;

	if (write(helper->host_event, &value, sizeof(value)) < 0)
		abort();
	pthread_mutex_lock(&helper->mutex);
	while (helper->waits)
		pthread_cond_wait(&helper->changed, &helper->mutex);
	pthread_mutex_unlock(&helper->mutex);
	/* Neither event must end the next wait. */
	if (read(helper->host_event, &value, sizeof(value)) < 0)
		abort();
	ob_sys_read(helper->kernel_event, &value, sizeof(value));
}

/* ---- waiting ------------------------------------------------------------------- */

static int count_ready(const struct pollfd *descriptors, int count)
{
	int ready = 0;

	for (int i = 0; i < count; i++)
		ready += descriptors[i].revents != 0;
	return ready;
}

static int poll_kernel(struct pollfd *descriptors, int count, int64_t end)
{
	struct timespec left;

	return (int)ob_sys_ppoll(descriptors, (unsigned int)count,
				 (struct timespec *)ob_local_left(end, &left), NULL, 8);
}

/* Both lists have room for one more. */
static int wait_with(struct helper *helper, struct pollfd *kernel, int kernel_count,
		     struct pollfd *host, int host_count, int64_t end)
{
	int result, error;

	kernel[kernel_count] = (struct pollfd){ .fd = helper->kernel_event, .events = POLLIN };
	host[host_count] = (struct pollfd){ .fd = helper->host_event, .events = POLLIN };
	begin_job(helper, host, (nfds_t)host_count + 1);
	result = poll_kernel(kernel, kernel_count + 1, end);
	error = errno;
	end_job(helper);
	errno = error;
	return result < 0 ? -1 : count_ready(kernel, kernel_count) + count_ready(host, host_count);
}

/* Copies the lists, with room for the events of the helper. */
static int wait_for_both(struct pollfd *kernel, int kernel_count, struct pollfd *host,
			 int host_count, int64_t end)
{
	size_t kernel_bytes = sizeof(*kernel) * (size_t)kernel_count;
	size_t host_bytes = sizeof(*host) * (size_t)host_count;
	struct pollfd *copies = malloc(kernel_bytes + host_bytes + 2 * sizeof(*copies));
	struct pollfd *host_copy = copies + kernel_count + 1;
	struct helper *helper = take_helper();
	int result = -1;

	if (copies && helper) {
		memcpy(copies, kernel, kernel_bytes);
		memcpy(host_copy, host, host_bytes);
		result = wait_with(helper, copies, kernel_count, host_copy, host_count, end);
		memcpy(kernel, copies, kernel_bytes);
		memcpy(host, host_copy, host_bytes);
	} else {
		errno = ENOMEM;
	}
	if (helper)
		return_helper(helper);
	free(copies);
	return result;
}

int ob_local_poll_both(struct pollfd *kernel, int kernel_count, struct pollfd *host,
		       int host_count, int64_t end)
{
	int of_kernel, of_host;

	if (!host_count)
		return poll_kernel(kernel, kernel_count, end);
	of_kernel = poll_kernel(kernel, kernel_count, 0);
	of_host = of_kernel < 0 ? -1 : poll(host, (nfds_t)host_count, 0);
	if (of_host < 0 || of_kernel + of_host || end <= ob_local_now())
		return of_host < 0 ? -1 : of_kernel + of_host;
	return wait_for_both(kernel, kernel_count, host, host_count, end);
}
