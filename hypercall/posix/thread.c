// SPDX-License-Identifier: GPL-2.0-only
/*
 * Host threads: those that the kernel starts, and the hook that tells it when
 * a client's thread ends.
 *
 * The hook is the destructor of a thread-specific value. Destructors run in no
 * particular order, so that of another library may make a system call after
 * ours: the thread is then adopted again, the value set again, and the C
 * library calls us again (PTHREAD_DESTRUCTOR_ITERATIONS rounds).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "internal.h"

#define STACK_BYTES (256ul << 10)

/* Threads that can be on their way at the same time. */
#define STARTS 64

/*
 * What a new thread shall do; owned by the thread once it runs. Not from the heap: a thread that gives something
 * back to it gets a heap of its own from the C library, which takes longer than to start it.
 */
struct start {
	void (*fn)(void *arg);
	void *arg;
	char name[16];
};
static struct start starts[STARTS];
static bool starts_used[STARTS];	/* atomic */

static pthread_key_t adopted_key;

uint32_t ob_host_processor_count(void)
{
	cpu_set_t set;
	long online;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (uint32_t)CPU_COUNT(&set);
	/* More processors than the set has room for. */
	online = sysconf(_SC_NPROCESSORS_ONLN);
	return online > 0 ? (uint32_t)online : 1;
}

static struct start *start_take(void)
{
	for (int i = 0; i < STARTS; i++)
		if (!__atomic_exchange_n(&starts_used[i], true, __ATOMIC_ACQUIRE))
			return &starts[i];
	return NULL;
}

static void start_release(struct start *start)
{
	__atomic_store_n(&starts_used[start - starts], false, __ATOMIC_RELEASE);
}

static void *run_thread(void *pointer)
{
	struct start start = *(struct start *)pointer;

	start_release(pointer);
	pthread_setname_np(pthread_self(), start.name);
	/* The kernel's timers expire here, and it has added the slack that it allows. */
	prctl(PR_SET_TIMERSLACK, 1ul);
	start.fn(start.arg);
	return NULL;
}

/* All signals but those of faults and the preempt signal. */
static void blocked_signals(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, SIGSEGV);
	sigdelset(set, SIGBUS);
	sigdelset(set, SIGILL);
	sigdelset(set, SIGFPE);
	sigdelset(set, OB_PREEMPT_SIGNAL);
}

static int create_with_attributes(pthread_t *thread, struct start *start)
{
	/* The C library takes its own needs, thread-local storage included, out of the stack. */
	long minimum = sysconf(_SC_THREAD_STACK_MIN);
	pthread_attr_t attributes;
	sigset_t blocked;
	int error;

	error = pthread_attr_init(&attributes);
	if (error)
		return error;
	blocked_signals(&blocked);
	error = pthread_attr_setstacksize(&attributes, STACK_BYTES + (minimum > 0 ? (size_t)minimum : 0));
	if (!error)
		error = pthread_attr_setsigmask_np(&attributes, &blocked);
	if (!error)
		error = pthread_create(thread, &attributes, run_thread, start);
	pthread_attr_destroy(&attributes);
	return error;
}

int ob_host_thread_create(void (*fn)(void *arg), void *arg, const char *name, uint64_t *thread)
{
	struct start *start = start_take();
	pthread_t new;

	if (!start)
		return -EAGAIN;
	start->fn = fn;
	start->arg = arg;
	strncpy(start->name, name, sizeof(start->name) - 1);
	if (create_with_attributes(&new, start)) {
		start_release(start);
		return -EAGAIN;
	}
	*thread = (uint64_t)new;
	return 0;
}

void ob_host_thread_join(uint64_t thread)
{
	int before;

	/* The one cancellation point that no raw system call can replace: raw.h. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_join((pthread_t)thread, NULL);
	pthread_setcancelstate(before, NULL);
}

uint64_t ob_host_thread_self(void)
{
	return (uint64_t)gettid();
}

void ob_host_thread_interrupt(uint64_t self)
{
	ob_posix_preempt_send(self);
}

void ob_host_thread_yield(void)
{
	sched_yield();
}

/* Threads that were about to start are the parent's. */
void ob_posix_threads_forked(void)
{
	memset(starts_used, 0, sizeof(starts_used));
}

static void adopted_thread_ends(void *value)
{
	(void)value;
	ob_kernel_thread_exit();
}

int ob_posix_thread_hook_create(void)
{
	return pthread_key_create(&adopted_key, adopted_thread_ends) ? -EAGAIN : 0;
}

void ob_posix_thread_hook_delete(void)
{
	pthread_key_delete(adopted_key);
}

/* The kernel touches memory that is made accessible by a fault: with these blocked, the host would end the process. */
static void unblock_faults(void)
{
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

int ob_host_thread_adopted(void)
{
	if (ob_posix_faults_are_blocked())
		ob_posix_closed_open_all();
	unblock_faults();
	return pthread_setspecific(adopted_key, &adopted_key) ? -EAGAIN : 0;
}
