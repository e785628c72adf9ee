// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads, waiting and the timer, all on one host thread.
 *
 * A thread of this platform runs until it waits, yields or ends. Then the next thread that can run
 * continues. If no thread can, the host thread sleeps until the first timeout. So a client that
 * computes without a call keeps all others waiting: on this platform that is right.
 *
 * All threads have the same thread pointer, and so the same block of the kernel. Only the kernel's
 * code for the current thread uses that block. So the platform exchanges its contents when threads
 * switch.
 *
 * The timer is such a thread, too. It calls ob_kernel_service() for each vCPU in time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "internal.h"

#define STACK_BYTES (256ul << 10)
#define NSEC_PER_SEC 1000000000ull

static __thread char thread_blocks[MOCK_KERNELS][OB_THREAD_BLOCK_BYTES]
	__attribute__((aligned(OB_THREAD_BLOCK_BYTES), tls_model("initial-exec")));
static bool thread_block_used[MOCK_KERNELS];

int64_t mock_thread_block_distance(const struct ob_host *host)
{
	uint64_t thread_pointer;

	__asm__("movq %%fs:0, %0" : "=r"(thread_pointer));
	return (int64_t)((uint64_t)host->thread_block - thread_pointer);
}

static bool take_thread_block(struct ob_host *host)
{
	for (int i = 0; i < MOCK_KERNELS; i++) {
		if (thread_block_used[i])
			continue;
		thread_block_used[i] = true;
		host->thread_block = thread_blocks[i];
		memset(host->thread_block, 0, OB_THREAD_BLOCK_BYTES);
		return true;
	}
	fprintf(stderr, "mock: a process can have %d kernels\n", MOCK_KERNELS);
	return false;
}

static bool can_run(const struct mock_thread *thread, uint64_t now)
{
	return thread->used && !thread->ended && (!thread->word || now >= thread->until);
}

/* The next thread in turn that can run, with the calling one last. NULL: none can. */
static struct mock_thread *find_next(struct ob_host *host)
{
	uint64_t now = ob_host_clock_monotonic(host);
	long current = host->current - host->threads;

	for (long i = 1; i <= MOCK_THREADS; i++) {
		struct mock_thread *thread = &host->threads[(current + i) % MOCK_THREADS];

		if (can_run(thread, now))
			return thread;
	}
	return NULL;
}

/* Sleeps until a thread of this platform times out. */
static void idle(struct ob_host *host)
{
	uint64_t until = OB_FOREVER;
	struct timespec time;

	for (int i = 0; i < MOCK_THREADS; i++) {
		const struct mock_thread *thread = &host->threads[i];

		if (thread->used && !thread->ended && thread->until < until)
			until = thread->until;
	}
	if (until == OB_FOREVER)
		ob_host_panic(host, "every thread waits for ever");
	time.tv_sec = (time_t)(until / NSEC_PER_SEC);
	time.tv_nsec = (long)(until % NSEC_PER_SEC);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void switch_to(struct ob_host *host, struct mock_thread *next)
{
	struct mock_thread *before = host->current;

	if (next == before)
		return;
	memcpy(before->block, host->thread_block, OB_THREAD_BLOCK_BYTES);
	memcpy(host->thread_block, next->block, OB_THREAD_BLOCK_BYTES);
	host->current = next;
	swapcontext(&before->context, &next->context);
}

/* Lets others run. Returns when the calling thread's turn comes again. */
static void give_way(struct ob_host *host)
{
	struct mock_thread *next;

	while (!(next = find_next(host)))
		idle(host);
	switch_to(host, next);
}

void ob_host_wait(struct ob_host *host, const uint32_t *word, uint32_t value, uint64_t timeout)
{
	struct mock_thread *self = host->current;

	if (*word != value)
		return;
	self->word = word;
	self->until = timeout == OB_FOREVER ? OB_FOREVER : ob_host_clock_monotonic(host) + timeout;
	give_way(host);
	self->word = NULL;
	self->until = OB_FOREVER;
}

uint32_t ob_host_wake(struct ob_host *host, const uint32_t *word, uint32_t count)
{
	uint32_t woken = 0;

	for (int i = 0; i < MOCK_THREADS && woken < count; i++) {
		if (host->threads[i].word != word)
			continue;
		host->threads[i].word = NULL;
		woken++;
	}
	return woken;
}

void ob_host_thread_yield(struct ob_host *host)
{
	give_way(host);
}

/* The first function of each thread. makecontext() passes ints: `host` comes in two halves. */
static void run_thread(unsigned int high, unsigned int low)
{
	struct ob_host *host = (struct ob_host *)((uint64_t)high << 32 | low);
	struct mock_thread *self = host->current;

	self->fn(self->arg);
	if (self->adopted)
		host->upcalls->thread_exit();
	self->ended = 1;
	ob_host_wake(host, &self->ended, UINT32_MAX);
	give_way(host);
}

static struct mock_thread *find_unused(struct ob_host *host)
{
	for (int i = 0; i < MOCK_THREADS; i++)
		if (!host->threads[i].used)
			return &host->threads[i];
	return NULL;
}

/* Handles are counted from 1: 0 is none. */
int ob_host_thread_create(struct ob_host *host, void (*fn)(void *arg), void *arg, const char *name,
			  uint64_t *handle)
{
	struct mock_thread *thread = find_unused(host);
	void *stack = thread ? aligned_alloc(PAGE_BYTES, STACK_BYTES) : NULL;

	(void)name;
	if (!stack)
		return -EAGAIN;
	*thread = (struct mock_thread) {
		.stack = stack, .fn = fn, .arg = arg, .until = OB_FOREVER, .used = true,
	};
	getcontext(&thread->context);
	thread->context.uc_stack.ss_sp = stack;
	thread->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&thread->context, (void (*)(void))run_thread, 2,
		    (unsigned int)((uint64_t)host >> 32), (unsigned int)(uint64_t)host);
	host->counts.threads++;
	*handle = (uint64_t)(thread - host->threads) + 1;
	return 0;
}

static void forget(struct mock_thread *thread)
{
	free(thread->stack);
	*thread = (struct mock_thread){ 0 };
}

void ob_host_thread_join(struct ob_host *host, uint64_t handle)
{
	struct mock_thread *thread = &host->threads[handle - 1];

	while (!thread->ended)
		ob_host_wait(host, &thread->ended, 0, OB_FOREVER);
	forget(thread);
}

uint64_t ob_host_thread_self(struct ob_host *host)
{
	return (uint64_t)(host->current - host->threads) + 1;
}

/* No other thread runs at the same time. */
void ob_host_thread_interrupt(struct ob_host *host, uint64_t self)
{
	(void)host;
	(void)self;
}

int ob_host_thread_adopted(struct ob_host *host)
{
	host->current->adopted = true;
	return 0;
}

void ob_host_service_request(struct ob_host *host, uint32_t vcpu)
{
	host->services[vcpu].on = true;
	host->services[vcpu].at = 0;
	host->service_word++;
	ob_host_wake(host, &host->service_word, 1);
}

void ob_host_service_end(struct ob_host *host, uint32_t vcpu)
{
	host->services[vcpu].on = false;
	while (host->services[vcpu].runs)
		ob_host_thread_yield(host);
}

/* A request during the call sets the time to 0, which stays. */
static void serve(struct ob_host *host, uint32_t vcpu)
{
	struct mock_service *service = &host->services[vcpu];
	uint64_t next;

	service->runs = true;
	service->at = OB_FOREVER;
	host->counts.services++;
	next = host->upcalls->service(vcpu);
	if (next < service->at)
		service->at = next;
	service->runs = false;
}

static void timer_main(void *argument)
{
	struct ob_host *host = argument;

	for (;;) {
		uint32_t word = host->service_word;
		uint64_t first = OB_FOREVER, now;

		for (uint32_t vcpu = 0; vcpu < MOCK_VCPUS; vcpu++) {
			struct mock_service *service = &host->services[vcpu];

			if (service->on && ob_host_clock_monotonic(host) >= service->at)
				serve(host, vcpu);
			if (service->on && service->at < first)
				first = service->at;
		}
		now = ob_host_clock_monotonic(host);
		if (first > now)
			ob_host_wait(host, &host->service_word, word,
				     first == OB_FOREVER ? OB_FOREVER : first - now);
		else
			ob_host_thread_yield(host);
	}
}

/* The program's own thread is the first. */
bool mock_threads_begin(struct ob_host *host)
{
	uint64_t handle;

	if (!take_thread_block(host))
		return false;
	host->current = &host->threads[0];
	host->current->used = true;
	host->current->until = OB_FOREVER;
	if (ob_host_thread_create(host, timer_main, host, "timer", &handle))
		ob_host_panic(host, "no memory for the timer");
	host->counts.threads = 0;
	return true;
}

void mock_threads_end(struct ob_host *host)
{
	for (int i = 0; i < MOCK_KERNELS; i++)
		thread_block_used[i] &= host->thread_block != thread_blocks[i];
	for (int i = 0; i < MOCK_THREADS; i++)
		forget(&host->threads[i]);
}
