// SPDX-License-Identifier: GPL-2.0-only
/*
 * Host threads end at bad moments: while their task is evicted, while others want its vCPU, while
 * it holds file locks and robust futexes, while signals and interrupts are on the way to it.
 * Nothing leaks, nobody hangs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "client.h"

#define ROUNDS 400
#define THREADS 8

static volatile int numbers[THREADS];
static volatile int stop;
static int pid;

static void compute(unsigned int amount)
{
	for (volatile unsigned int i = 0; i < amount; i++)
		;
}

struct life {
	int place;
	unsigned int round;
};

static void *live(void *argument)
{
	struct life *life = argument;
	unsigned int random = life->round * 2654435761u + (unsigned int)life->place * 40503u;
	int ends[2], file;
	char byte = 'x';

	numbers[life->place] = (int)OK(ob_sys_gettid());
	file = (int)OK(ob_sys_openat(AT_FDCWD, "/locked", O_RDWR | O_CREAT, 0600));
	/*
	 * The lock goes with the file, which is closed below or by a later round: who waits must
	 * get on.
	 */
	if (random & 1) {
		while (ob_sys_flock(file, LOCK_EX))
			;
	}
	OK(ob_sys_pipe2(ends, 0));
	OK(ob_sys_write(ends[1], &byte, 1));
	compute(random >> 8 & 0x3ffff);
	OK(ob_sys_read(ends[0], &byte, 1));
	OK(ob_sys_close(ends[0]));
	OK(ob_sys_close(ends[1]));
	OK(ob_sys_close(file));
	/* Long enough to be evicted, sometimes, and then it ends without another call. */
	compute(random >> 4 & 0xfffff);
	if (random & 2)
		pthread_exit(NULL);
	return NULL;
}

/* Shoots at threads that may not exist any more. */
static void *disturb(void *unused)
{
	for (unsigned int i = 0; !stop; i++) {
		int number = numbers[i % THREADS];

		if (number) {
			CHECK(ob_interrupt(number) <= 0);
			ob_sys_tgkill(pid, number, SIGUSR1);
		}
		if (!(i % 16))
			usleep(100);
	}
	return unused;
}

static void on_signal(int number)
{
	(void)number;
}

int main(void)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} action = { on_signal, SA_RESTART, NULL, 0 };
	pthread_t threads[THREADS], other;
	struct life lives[THREADS];
	long tasks;

	client_boot(2);
	pid = (int)OK(ob_sys_getpid());
	OK(ob_sys_rt_sigaction(SIGUSR1, (void *)&action, NULL, sizeof(uint64_t)));
	CHECK(!pthread_create(&other, NULL, disturb, NULL));
	tasks = client_task_count();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < THREADS; i++) {
			lives[i] = (struct life){ i, round };
			CHECK(!pthread_create(&threads[i], NULL, live, &lives[i]));
		}
		for (int i = 0; i < THREADS; i++)
			CHECK(!pthread_join(threads[i], NULL));
	}
	stop = 1;
	CHECK(!pthread_join(other, NULL));
	client_wait_for_tasks(tasks + 8);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
