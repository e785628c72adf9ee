// SPDX-License-Identifier: GPL-2.0-only
/*
 * Host threads: those that the kernel starts, and the hook for the end of a client's thread.
 *
 * The hook is the destructor of a thread-specific value. Destructors run in no particular order, so
 * that of another library may make a system call after ours. Then the thread is adopted again, the
 * value is set again, and the C library calls our destructor again (PTHREAD_DESTRUCTOR_ITERATIONS
 * rounds).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define STACK_BYTES (256ul << 10)

static pthread_key_t adopted_key;

static struct ob_start *start_take(struct ob_host *host)
{
	for (int i = 0; i < OB_STARTS; i++)
		if (!__atomic_exchange_n(&host->threads.used[i], true, __ATOMIC_ACQUIRE))
			return &host->threads.starts[i];
	return NULL;
}

static void start_release(struct ob_host *host, struct ob_start *start)
{
	__atomic_store_n(&host->threads.used[start - host->threads.starts], false,
			 __ATOMIC_RELEASE);
}

static void *run_thread(void *pointer)
{
	struct ob_start start = *(struct ob_start *)pointer;

	start_release(start.host, pointer);
	pthread_setname_np(pthread_self(), start.name);
	/* The kernel's timers expire in this thread, and the kernel has added its slack already. */
	prctl(PR_SET_TIMERSLACK, 1ul);
	start.fn(start.arg);
	return NULL;
}

/* All signals but those of faults and the preempt signal. */
void ob_posix_blocked_signals(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, SIGSEGV);
	sigdelset(set, SIGBUS);
	sigdelset(set, SIGILL);
	sigdelset(set, SIGFPE);
	sigdelset(set, OB_PREEMPT_SIGNAL);
}

static int create_with_attributes(pthread_t *thread, struct ob_start *start)
{
	/* The C library takes what it needs, thread-local storage included, out of the stack. */
	long minimum = sysconf(_SC_THREAD_STACK_MIN);
	pthread_attr_t attributes;
	sigset_t blocked;
	int error;

	error = pthread_attr_init(&attributes);
	if (error)
		return error;
	ob_posix_blocked_signals(&blocked);
	error = pthread_attr_setstacksize(&attributes,
					  STACK_BYTES + (minimum > 0 ? (size_t)minimum : 0));
	if (!error)
		error = pthread_attr_setsigmask_np(&attributes, &blocked);
	if (!error)
		error = pthread_create(thread, &attributes, run_thread, start);
	pthread_attr_destroy(&attributes);
	return error;
}

int ob_host_thread_create(struct ob_host *host, void (*fn)(void *arg), void *arg, const char *name,
			  uint64_t *thread)
{
	struct ob_start *start = start_take(host);
	pthread_t new;

	if (!start)
		return -EAGAIN;
	start->host = host;
	start->fn = fn;
	start->arg = arg;
	strncpy(start->name, name, sizeof(start->name) - 1);
	if (create_with_attributes(&new, start)) {
		start_release(host, start);
		return -EAGAIN;
	}
	*thread = (uint64_t)new;
	return 0;
}

void ob_host_thread_join(struct ob_host *host, uint64_t thread)
{
	int before;

	(void)host;
	/* The one cancellation point that no raw system call can replace: raw.h. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_join((pthread_t)thread, NULL);
	pthread_setcancelstate(before, NULL);
}

struct ob_patience ob_posix_patience_begin(struct ob_host *host)
{
	return ob_patience_of(ob_host_clock_monotonic(host), OB_PATIENCE);
}

bool ob_posix_patience_is_over(struct ob_host *host, struct ob_patience *patience)
{
	return ob_patience_ends(patience, ob_host_clock_monotonic(host));
}

/*
 * Somebody may set the wall clock, which the C library's call goes by: then one step is shorter or
 * longer. Not pthread_clockjoin_np(): gcc 12's thread sanitizer takes a thread that it joins for a
 * leak.
 */
bool ob_posix_thread_join_until(struct ob_host *host, uint64_t thread, struct ob_patience *patience)
{
	uint64_t until;
	int before, error;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	do {
		until = ob_host_clock_realtime(host) + OB_PATIENCE_STEP;
		error = pthread_timedjoin_np((pthread_t)thread, NULL, &(struct timespec){
			(time_t)(until / 1000000000), (long)(until % 1000000000) });
	} while (error && !ob_posix_patience_is_over(host, patience));
	pthread_setcancelstate(before, NULL);
	if (error)
		pthread_detach((pthread_t)thread);
	return !error;
}

int ob_platform_thread_create(struct ob_host *host, void (*fn)(void *arg), void *arg,
			      const char *name, uint64_t *thread)
{
	return ob_host_thread_create(host, fn, arg, name, thread);
}

bool ob_platform_thread_join(struct ob_host *host, uint64_t thread)
{
	struct ob_patience patience = ob_posix_patience_begin(host);

	return ob_posix_thread_join_until(host, thread, &patience);
}

void ob_posix_leave_behind(struct ob_host *host)
{
	__atomic_store_n(&host->left_behind, true, __ATOMIC_RELEASE);
}

bool ob_platform_has_left_behind(const struct ob_host *host)
{
	return __atomic_load_n(&host->left_behind, __ATOMIC_ACQUIRE);
}

const char ob_posix_preempt_mark;

uint64_t ob_host_thread_self(struct ob_host *host)
{
	(void)host;
	return (uint64_t)gettid();
}

void ob_host_thread_interrupt(struct ob_host *host, uint64_t self)
{
	siginfo_t info = { 0 };

	(void)host;
	info.si_signo = OB_PREEMPT_SIGNAL;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = (void *)&ob_posix_preempt_mark;
	syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)self, OB_PREEMPT_SIGNAL, &info);
}

void ob_host_thread_yield(struct ob_host *host)
{
	(void)host;
	sched_yield();
}

/* The threads that were starting are the parent's. */
void ob_posix_threads_forked(struct ob_host *host)
{
	memset(host->threads.used, 0, sizeof(host->threads.used));
}

static void adopted_thread_ends(void *value)
{
	struct ob_host *host;

	(void)value;
	ob_for_each_live_host(host)
		host->upcalls->thread_exit();
}

int ob_posix_thread_hook_create(void)
{
	return pthread_key_create(&adopted_key, adopted_thread_ends) ? -EAGAIN : 0;
}

void ob_posix_thread_hook_delete(void)
{
	pthread_key_delete(adopted_key);
}

bool ob_posix_faults_are_blocked(void)
{
	sigset_t blocked;

	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	return sigismember(&blocked, SIGSEGV);
}

/*
 * The kernel touches memory that a fault makes accessible. If the thread blocked these signals, the
 * host would end the process.
 */
static void unblock_faults(void)
{
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

int ob_host_thread_adopted(struct ob_host *host)
{
	if (ob_posix_faults_are_blocked())
		ob_posix_closed_open_all(host);
	unblock_faults();
	return pthread_setspecific(adopted_key, &adopted_key) ? -EAGAIN : 0;
}
