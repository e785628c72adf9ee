// SPDX-License-Identifier: GPL-2.0-only
/*
 * A thread that has booted a kernel calls a later one, whose number has the same lower half as that
 * of the first: gdb leaves out the boots between (test_snapshot.py). The thread's task of the first
 * kernel had the address that the booting thread's task of the other has, since both are from one
 * snapshot. But each thread is a task of its own.
 */
#include <pthread.h>
#include <stdlib.h>

#include "client.h"

static pthread_barrier_t barrier;
static long task;

static void *boot_and_call_later(void *unused)
{
	client_boot(1);
	OK(ob_sys_gettid());
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	task = OK(ob_sys_gettid());
	return unused;
}

/* gdb stops here. */
__attribute__((noinline)) void leave_out_boots(void)
{
	__asm__ volatile("");
}

int main(void)
{
	pthread_t thread;

	/* Saves the snapshot. */
	client_boot(1);
	CHECK_EQUAL(ob_halt(), 0);
	CHECK(!pthread_barrier_init(&barrier, NULL, 2));
	CHECK(!pthread_create(&thread, NULL, boot_and_call_later, NULL));
	pthread_barrier_wait(&barrier);
	CHECK_EQUAL(ob_halt(), 0);
	leave_out_boots();
	client_boot(1);
	OK(ob_sys_gettid());
	pthread_barrier_wait(&barrier);
	CHECK(!pthread_join(thread, NULL));
	CHECK(task != OK(ob_sys_gettid()));
	CHECK_EQUAL(ob_halt(), 0);
	puts("two tasks");
	return 0;
}
