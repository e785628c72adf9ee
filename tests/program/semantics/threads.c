// SPDX-License-Identifier: GPL-2.0-only
/* Threads, and what they share: mutexes, futexes, thread-local storage, ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "semantics.h"

static pthread_t start_thread(void *(*function)(void *), void *argument)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, function, argument));
	return thread;
}

static void *join(pthread_t thread)
{
	void *result;

	CHECK(!pthread_join(thread, &result));
	return result;
}

/* ---- mutexes -------------------------------------------------------------- */

struct counter {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	volatile long value;
	long turn;
};

static void make_counter(struct counter *counter, int protocol, int robust)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t condition;

	CHECK(!pthread_mutexattr_init(&mutex) && !pthread_condattr_init(&condition));
	CHECK(!pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
	CHECK(!pthread_mutexattr_setprotocol(&mutex, protocol));
	CHECK(!pthread_mutexattr_setrobust(&mutex, robust));
	CHECK(!pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_ERRORCHECK));
	CHECK(!pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
	CHECK(!pthread_mutex_init(&counter->mutex, &mutex));
	CHECK(!pthread_cond_init(&counter->changed, &condition));
}

static void *count_up(void *argument)
{
	struct counter *counter = argument;

	for (long i = 0; i < rounds(500, 50000); i++) {
		CHECK(!pthread_mutex_lock(&counter->mutex));
		counter->value = counter->value + 1;
		if (i % 64 == 0)
			sched_yield();
		CHECK(!pthread_mutex_unlock(&counter->mutex));
	}
	return NULL;
}

static void count_together(int protocol)
{
	struct counter *counter = map(PAGE, MAP_SHARED);
	pthread_t threads[4];
	pid_t child;

	make_counter(counter, protocol, PTHREAD_MUTEX_STALLED);
	child = fork_or_die();
	for (int i = 0; i < 4; i++)
		threads[i] = start_thread(count_up, counter);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	if (!child)
		_exit(0);
	wait_for_success(child);
	CHECK_EQUAL(counter->value, 8 * rounds(500, 50000));
}

static void check_deadlines(void)
{
	struct counter *counter = map(PAGE, MAP_SHARED);
	struct timespec past = { 1, 0 };
	pid_t child;

	make_counter(counter, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
	CHECK(!pthread_mutex_lock(&counter->mutex));
	CHECK_EQUAL(pthread_mutex_lock(&counter->mutex), EDEADLK);
	CHECK_EQUAL(pthread_cond_timedwait(&counter->changed, &counter->mutex, &past), ETIMEDOUT);
	child = fork_or_die();
	if (!child) {
		CHECK_EQUAL(pthread_mutex_trylock(&counter->mutex), EBUSY);
		CHECK_EQUAL(pthread_mutex_timedlock(&counter->mutex, &past), ETIMEDOUT);
		CHECK_EQUAL(pthread_mutex_unlock(&counter->mutex), EPERM);
		_exit(0);
	}
	wait_for_success(child);
}

void mutexes(void)
{
	count_together(PTHREAD_PRIO_NONE);
	count_together(PTHREAD_PRIO_INHERIT);
	check_deadlines();
}

/* The owner ends, as a thread or as a process, with the mutex locked. */
static void *lock_and_end(void *argument)
{
	struct counter *counter = argument;
	int error = pthread_mutex_lock(&counter->mutex);

	CHECK(!error || error == EOWNERDEAD);
	counter->turn++;
	if (error)
		CHECK(!pthread_mutex_consistent(&counter->mutex));
	return NULL;
}

static void check_robust(int protocol)
{
	struct counter *counter = map(PAGE, MAP_SHARED);
	pid_t child;

	make_counter(counter, protocol, PTHREAD_MUTEX_ROBUST);
	join(start_thread(lock_and_end, counter));
	CHECK_EQUAL(pthread_mutex_lock(&counter->mutex), EOWNERDEAD);
	CHECK(!pthread_mutex_consistent(&counter->mutex));
	CHECK(!pthread_mutex_unlock(&counter->mutex));
	for (int i = 0; i < 5; i++) {
		child = fork_or_die();
		if (!child) {
			lock_and_end(counter);
			/* It waits for the end, and is killed in it. */
			for (;;)
				pause();
		}
		while (*(volatile long *)&counter->turn < i + 2)
			usleep(500);
		CHECK(!kill(child, SIGKILL));
		/* This one waits in the kernel until the owner has ended. */
		CHECK_EQUAL(pthread_mutex_lock(&counter->mutex), EOWNERDEAD);
		CHECK(!pthread_mutex_consistent(&counter->mutex));
		CHECK(!pthread_mutex_unlock(&counter->mutex));
		wait_for_signal(child, SIGKILL);
	}
	join(start_thread(lock_and_end, counter));
	CHECK_EQUAL(pthread_mutex_lock(&counter->mutex), EOWNERDEAD);
	CHECK(!pthread_mutex_unlock(&counter->mutex));
	CHECK_EQUAL(pthread_mutex_lock(&counter->mutex), ENOTRECOVERABLE);
}

void robust_mutexes(void)
{
	check_robust(PTHREAD_PRIO_NONE);
	check_robust(PTHREAD_PRIO_INHERIT);
}

/* ---- one file at two addresses -------------------------------------------- */

static void take_turns(struct counter *counter, long which)
{
	CHECK(!pthread_mutex_lock(&counter->mutex));
	for (int i = 0; i < 100; i++) {
		while (counter->turn % 2 != which)
			CHECK(!pthread_cond_wait(&counter->changed, &counter->mutex));
		counter->turn++;
		CHECK(!pthread_cond_broadcast(&counter->changed));
	}
	CHECK(!pthread_mutex_unlock(&counter->mutex));
}

static struct counter *map_counter(int fd)
{
	struct counter *counter = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(counter != MAP_FAILED);
	return counter;
}

static void *take_odd_turns(void *counter)
{
	take_turns(counter, 1);
	return NULL;
}

void two_addresses(void)
{
	int fd = unnamed_file(PAGE);
	struct counter *here = map_counter(fd), *there = map_counter(fd);
	pthread_t thread;
	pid_t child;

	CHECK(here != there);
	make_counter(here, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
	thread = start_thread(take_odd_turns, there);
	take_turns(here, 0);
	join(thread);
	child = fork_or_die();
	if (!child) {
		struct counter *third = map_counter(fd);

		CHECK(!munmap(here, PAGE) && !munmap(there, PAGE));
		take_turns(third, 1);
		_exit(0);
	}
	take_turns(there, 0);
	wait_for_success(child);
	CHECK_EQUAL(here->turn, 400);
}

/* ---- cancellation --------------------------------------------------------- */

static int cleaned;
static int nothing_comes[2];
static _Atomic int canceled_thread;

static void clean(void *unused)
{
	(void)unused;
	cleaned++;
}

static void *read_for_ever(void *unused)
{
	char byte;

	pthread_cleanup_push(clean, unused);
	atomic_store(&canceled_thread, gettid());
	CHECK(read(nothing_comes[0], &byte, 1) == 1);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *compute_for_ever(void *unused)
{
	pthread_cleanup_push(clean, unused);
	CHECK(!pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
	atomic_store(&canceled_thread, gettid());
	for (volatile long i = 0;; i = i + 1)
		;
	pthread_cleanup_pop(0);
	return NULL;
}

static void *ignore_it(void *unused)
{
	CHECK(!pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
	atomic_store(&canceled_thread, gettid());
	usleep(3000);
	return unused;
}

static void *cancel(void *(*function)(void *))
{
	pthread_t thread = start_thread(function, NULL);

	while (!atomic_exchange(&canceled_thread, 0))
		usleep(500);
	CHECK(!pthread_cancel(thread));
	return join(thread);
}

void cancellation(void)
{
	CHECK(!pipe(nothing_comes));
	for (int i = 0; i < 10; i++) {
		CHECK(cancel(read_for_ever) == PTHREAD_CANCELED);
		CHECK(cancel(compute_for_ever) == PTHREAD_CANCELED);
		CHECK(cancel(ignore_it) == NULL);
	}
	CHECK_EQUAL(cleaned, 20);
}

/* ---- many ----------------------------------------------------------------- */

static __thread unsigned long own[64];
static _Atomic long ended;

static void *use_own(void *argument)
{
	unsigned long seed = (unsigned long)argument;

	for (unsigned int i = 0; i < 64; i++) {
		CHECK(!own[i]);
		own[i] = seed + i;
	}
	sched_yield();
	for (unsigned int i = 0; i < 64; i++)
		CHECK(own[i] == seed + i);
	atomic_fetch_add(&ended, 1);
	return argument;
}

static void *create_more(void *argument)
{
	pthread_t threads[4];

	for (unsigned long i = 0; i < 4; i++)
		threads[i] = start_thread(use_own, (void *)(i + 1));
	for (unsigned long i = 0; i < 4; i++)
		CHECK(join(threads[i]) == (void *)(i + 1));
	return argument;
}

static void check_end_of_process(void)
{
	pid_t child = fork_or_die();

	/* The first thread ends, and the process with the last one. */
	if (!child) {
		start_thread(create_more, NULL);
		pthread_exit(NULL);
	}
	wait_for_success(child);
}

void many_threads(void)
{
	pthread_t threads[16];

	for (long round = 0; round < rounds(3, 100); round++) {
		for (int i = 0; i < 16; i++)
			threads[i] = start_thread(create_more, NULL);
		for (int i = 0; i < 16; i++)
			join(threads[i]);
	}
	CHECK_EQUAL(atomic_load(&ended), 64 * rounds(3, 100));
	check_end_of_process();
}

/* ---- futexes -------------------------------------------------------------- */

static _Atomic unsigned int words[3];
static _Atomic int woken;

static long futex(_Atomic unsigned int *word, int operation, unsigned int value, long more,
		  _Atomic unsigned int *other, unsigned int last)
{
	return syscall(SYS_futex, word, operation, value, more, other, last);
}

static void *wait_for_word_0(void *unused)
{
	atomic_store(&canceled_thread, gettid());
	CHECK(!futex(&words[0], FUTEX_WAIT_PRIVATE, 0, 0, NULL, 0));
	atomic_fetch_add(&woken, 1);
	return unused;
}

static pthread_t start_waiter(void)
{
	pthread_t thread = start_thread(wait_for_word_0, NULL);
	pid_t id;

	while (!(id = atomic_exchange(&canceled_thread, 0)))
		usleep(500);
	wait_until_asleep(id);
	return thread;
}

static void check_requeue(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		threads[i] = start_waiter();
	CHECK(futex(&words[0], FUTEX_CMP_REQUEUE_PRIVATE, 1, 2, &words[1], 7) == -1);
	CHECK_EQUAL(errno, EAGAIN);
	CHECK_EQUAL(futex(&words[0], FUTEX_CMP_REQUEUE_PRIVATE, 1, 2, &words[1], 0), 3);
	CHECK_EQUAL(futex(&words[0], FUTEX_WAKE_PRIVATE, 9, 0, NULL, 0), 0);
	/* words[2] += 5; wakes one of words[1], and of words[2] if that was 0. */
	CHECK_EQUAL(futex(&words[1], FUTEX_WAKE_OP_PRIVATE, 1, 1, &words[2],
			  FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0)), 1);
	CHECK_EQUAL(atomic_load(&words[2]), 5);
	CHECK_EQUAL(futex(&words[1], FUTEX_WAKE_PRIVATE, 9, 0, NULL, 0), 1);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
	CHECK_EQUAL(atomic_load(&woken), 3);
}

void futex_calls(void)
{
	struct timespec soon = { 0, 2000000 };

	check_requeue();
	CHECK(futex(&words[0], FUTEX_WAIT, 1, 0, NULL, 0) == -1 && errno == EAGAIN);
	CHECK(futex(&words[0], FUTEX_WAIT, 0, (long)&soon, NULL, 0) == -1 && errno == ETIMEDOUT);
	CHECK(futex((void *)8, FUTEX_WAIT, 0, 0, NULL, 0) == -1 && errno == EFAULT);
	CHECK(futex((void *)8, FUTEX_WAKE, 1, 0, NULL, 0) == -1 && errno == EFAULT);
	CHECK(futex((void *)((char *)words + 1), FUTEX_WAKE, 1, 0, NULL, 0) == -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK(futex((void *)(1ul << 60), FUTEX_WAIT, 0, 0, NULL, 0) == -1 && errno == EFAULT);
	/* A page that nobody has touched yet, and one that may only be read. */
	CHECK(futex(map(PAGE, MAP_SHARED), FUTEX_WAIT, 1, 0, NULL, 0) == -1 && errno == EAGAIN);
	CHECK(futex(map(PAGE, MAP_PRIVATE), FUTEX_LOCK_PI, 0, 0, NULL, 0) == 0);
}

/* ---- libraries that are loaded late --------------------------------------- */

static long *(*address_of_local)(void);

static void *use_local(void *unused)
{
	long *local = address_of_local();

	CHECK_EQUAL(*local, 42);
	*local = 43;
	CHECK(address_of_local() == local && *local == 43);
	return unused;
}

/* Only the dynamic program has such a library beside it. */
void loaded_library(void)
{
	const char *path = getenv("LATE_LIBRARY");
	void *library;

	if (!path)
		return;
	library = dlopen(path, RTLD_NOW);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	*(void **)&address_of_local = dlsym(library, "address_of_local");
	CHECK(address_of_local);
	for (int i = 0; i < 5; i++)
		join(start_thread(use_local, NULL));
	use_local(NULL);
	CHECK(!dlclose(library));
}
