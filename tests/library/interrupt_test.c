// SPDX-License-Identifier: GPL-2.0-only
/*
 * ob_interrupt and ob_abort_call: blocked calls of other threads end with EINTR, none is missed,
 * and nothing else is disturbed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define ROUNDS 3000

struct victim {
	pthread_t thread;
	int (*call)(void);		/* blocks: -1 and EINTR if it was interrupted */
	sem_t started;
	int number;
	volatile long interrupted;
	volatile int stop;
};

static int ends[2], sockets[2], locked;

static int read_pipe(void)
{
	char byte;

	return (int)ob_sys_read(ends[0], &byte, 1);
}

static int sleep_long(void)
{
	struct timespec hour = { 3600, 0 };

	return (int)ob_sys_clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL);
}

static int wait_futex(void)
{
	static uint32_t word;

	return (int)ob_sys_futex(&word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static int poll_forever(void)
{
	struct pollfd one = { ends[0], POLLIN, 0 };

	return (int)ob_sys_poll(&one, 1, -1);
}

static int lock_file(void)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/locked", O_RDWR, 0)),
	    result = (int)ob_sys_flock(file, LOCK_EX), error = errno;

	OK(ob_sys_close(file));
	errno = error;
	return result;
}

static int receive(void)
{
	char byte;

	return (int)ob_sys_recvfrom(sockets[0], &byte, 1, 0, NULL, NULL);
}

static int wait_signal(void)
{
	uint64_t set = 1u << (SIGUSR1 - 1);

	return (int)ob_sys_rt_sigtimedwait((void *)&set, NULL, NULL, sizeof(set));
}

static void *suffer(void *argument)
{
	struct victim *victim = argument;

	victim->number = (int)OK(ob_sys_gettid());
	sem_post(&victim->started);
	while (!victim->stop) {
		CHECK_EQUAL(victim->call(), -1);
		CHECK_EQUAL(errno, EINTR);
		victim->interrupted++;
	}
	return NULL;
}

static void start(struct victim *victim, int (*call)(void))
{
	*victim = (struct victim){ .call = call };
	CHECK(!sem_init(&victim->started, 0, 0));
	CHECK(!pthread_create(&victim->thread, NULL, suffer, victim));
	CHECK(!sem_wait(&victim->started));
}

/* Waits without a limit: a lost interrupt is a hang, which the runner reports. */
static void interrupt_and_wait(struct victim *victim)
{
	long before = victim->interrupted;

	CHECK_EQUAL(before % 2 ? ob_interrupt(victim->number) : ob_abort_call(victim->number), 0);
	while (victim->interrupted == before)
		sched_yield();
}

static void finish(struct victim *victim)
{
	victim->stop = 1;
	CHECK_EQUAL(ob_interrupt(victim->number), 0);
	CHECK(!pthread_join(victim->thread, NULL));
}

static void every_kind_of_wait(void)
{
	static int (*const calls[])(void) = { read_pipe, sleep_long,  wait_futex, poll_forever,
					      lock_file, wait_signal, receive };
	struct victim victim;

	/* The last needs a network. */
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls) - !sockets[0]; i++) {
		start(&victim, calls[i]);
		for (int round = 0; round < 20; round++) {
			if (round % 2)
				usleep(500);
			interrupt_and_wait(&victim);
		}
		finish(&victim);
	}
}

/* At every moment of the victim's way into the call, and out of it. */
static void at_any_moment(void)
{
	struct victim victims[3];

	for (int i = 0; i < 3; i++)
		start(&victims[i], read_pipe);
	for (int round = 0; round < ROUNDS; round++) {
		for (volatile int wait = 0; wait < (round * 37) % 5000; wait++)
			;
		interrupt_and_wait(&victims[round % 3]);
	}
	for (int i = 0; i < 3; i++)
		finish(&victims[i]);
}

/* The mark waits for a call that would block. */
static void before_the_call(void)
{
	char byte = 'x';

	CHECK_EQUAL(ob_interrupt((int)OK(ob_sys_gettid())), 0);
	/* It is an interrupt of some vCPU: it has been seen when a call was made on each. */
	usleep(50000);
	for (int i = 0; i < 100; i++) {
		OK(ob_sys_getppid());
		CHECK_EQUAL(OK(ob_sys_write(ends[1], &byte, 1)), 1);
		CHECK_EQUAL(OK(ob_sys_read(ends[0], &byte, 1)), 1);
	}
	CHECK_EQUAL(read_pipe(), -1);
	CHECK_EQUAL(errno, EINTR);
	OK(ob_sys_write(ends[1], &byte, 1));
	CHECK_EQUAL(read_pipe(), 1);
}

static volatile int handled;

static void on_user(int number)
{
	(void)number;
	CHECK_EQUAL(ob_interrupt(0), 0);
	handled++;
}

/* Ctrl-C in a program that waits in the kernel. */
static void from_a_signal_handler(void)
{
	struct victim victim;

	CHECK(signal(SIGUSR2, on_user) != SIG_ERR);
	start(&victim, read_pipe);
	for (int round = 0; round < 300; round++) {
		long before = victim.interrupted;
		int seen = handled;

		CHECK(!pthread_kill(victim.thread, SIGUSR2));
		while (victim.interrupted == before || handled == seen)
			sched_yield();
	}
	finish(&victim);
}

static void *call_once(void *unused)
{
	OK(ob_sys_getppid());
	return unused;
}

static void nobody(void)
{
	pthread_t thread;

	CHECK_EQUAL(ob_interrupt(-1), -ESRCH);
	/* Neither the kernel's init, nor a task that does not exist, nor the clients' leader. */
	CHECK_EQUAL(ob_interrupt(1), 0);
	CHECK_EQUAL(ob_interrupt(1 << 20), 0);
	CHECK_EQUAL(ob_interrupt((int)OK(ob_sys_getpid())), 0);
	usleep(20000);
	CHECK(!pthread_create(&thread, NULL, call_once, NULL));
	CHECK(!pthread_join(thread, NULL));
}

static void *no_client(void *unused)
{
	CHECK_EQUAL(ob_interrupt(0), -ESRCH);
	return unused;
}

/* The thread that boots is a client before its first call, and others are not. */
static void first_client(void)
{
	pthread_t thread;
	char byte;

	CHECK_EQUAL(ob_interrupt(0), 0);
	OK(ob_sys_pipe2(ends, 0));
	CHECK_EQUAL(ob_sys_read(ends[0], &byte, 1), -1);
	CHECK_EQUAL(errno, EINTR);
	CHECK(!pthread_create(&thread, NULL, no_client, NULL));
	CHECK(!pthread_join(thread, NULL));
}

int main(void)
{
	CHECK_EQUAL(ob_interrupt(0), -ENODEV);
	client_boot(2);
	first_client();
	if (ob_sys_socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		CHECK_EQUAL(errno, ENOSYS);
	locked = (int)OK(ob_sys_openat(AT_FDCWD, "/locked", O_CREAT | O_RDWR, 0600));
	OK(ob_sys_flock(locked, LOCK_EX));
	before_the_call();
	every_kind_of_wait();
	at_any_moment();
	from_a_signal_handler();
	nobody();
	CHECK_EQUAL(ob_halt(), 0);
	CHECK_EQUAL(ob_interrupt(0), -ENODEV);
	return 0;
}
