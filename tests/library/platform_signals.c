// SPDX-License-Identifier: GPL-2.0-only
/* Tests of the POSIX platform: faults, and the signal that interrupts a thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform_bed.h"

/* ---- faults ---- */

static void test_fault_is_resumed(void)
{
	setup();
	errno = 77;
	CHECK_EQUAL(mock_read_byte(NULL), -EFAULT);
	CHECK_EQUAL(mock_write_byte((void *)8), -EFAULT);
	CHECK_EQUAL(mock.last_fault.address, 8);
	CHECK_EQUAL(mock.last_fault.flags, OB_FAULT_WRITE);
	/* No address at all: the processor reports no address for it. */
	CHECK_EQUAL(mock_read_byte((void *)0x8000000000000000ul), -EFAULT);
	CHECK_EQUAL(mock_write_byte((void *)"constant"), -EFAULT);
	CHECK_EQUAL(errno, 77);
}

static void test_fault_beyond_file(void)
{
	FILE *file = tmpfile();
	char *map;

	setup();
	CHECK(file);
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
	CHECK(map != MAP_FAILED);
	CHECK_EQUAL(mock_read_byte(map), -EFAULT);	/* SIGBUS */
}

static volatile sig_atomic_t chained;
static sigjmp_buf after_fault;

static void chained_with_info(int number, siginfo_t *info, void *context)
{
	sigset_t now;

	chained++;
	sigprocmask(SIG_BLOCK, NULL, &now);
	/* As the program had asked for: its mask, and the signal itself. */
	if (!context || info->si_signo != number || !sigismember(&now, number) ||
	    !sigismember(&now, SIGUSR2))
		_exit(9);
	siglongjmp(after_fault, 1);
}

static void chained_plain(int number)
{
	(void)number;
	chained++;
	siglongjmp(after_fault, 1);
}

static void fault_of_the_program(void)
{
	*(volatile char *)16 = 1;
}

static void install(int number, void (*plain)(int), void (*with_info)(int, siginfo_t *, void *),
		    int flags)
{
	struct sigaction action = { .sa_flags = flags };

	sigemptyset(&action.sa_mask);
	if (with_info) {
		action.sa_flags |= SA_SIGINFO;
		action.sa_sigaction = with_info;
		sigaddset(&action.sa_mask, SIGUSR2);
	} else {
		action.sa_handler = plain;
	}
	CHECK_EQUAL(sigaction(number, &action, NULL), 0);
}

static void test_fault_chains_to_handler(void)
{
	install(SIGSEGV, NULL, chained_with_info, 0);
	setup();
	for (int i = 1; i <= 2; i++) {
		if (!sigsetjmp(after_fault, 1))
			fault_of_the_program();
		CHECK_EQUAL(chained, i);
	}
	CHECK_EQUAL(mock_read_byte(NULL), -EFAULT);
	CHECK_EQUAL(chained, 2);
}

static void fault_after_one_shot_handler(void)
{
	install(SIGSEGV, chained_plain, NULL, SA_RESETHAND);
	setup();
	if (!sigsetjmp(after_fault, 1))
		fault_of_the_program();
	if (chained != 1)
		_exit(9);
	fault_of_the_program();
}

static void fault_by_default(void)
{
	install(SIGSEGV, SIG_DFL, NULL, 0);
	setup();
	fault_of_the_program();
}

static void fault_ignored(void)
{
	install(SIGSEGV, SIG_IGN, NULL, 0);
	setup();
	fault_of_the_program();
}

static void sent_by_default(void)
{
	install(SIGBUS, SIG_DFL, NULL, 0);
	setup();
	kill(getpid(), SIGBUS);
}

static void sent_and_ignored(void)
{
	install(SIGSEGV, SIG_IGN, NULL, 0);
	setup();
	kill(getpid(), SIGSEGV);
}

static void test_fault_default_actions(void)
{
	CHECK_EQUAL(WTERMSIG(status_of_child(fault_by_default)), SIGSEGV);
	CHECK_EQUAL(WTERMSIG(status_of_child(fault_ignored)), SIGSEGV);
	CHECK_EQUAL(WTERMSIG(status_of_child(fault_after_one_shot_handler)), SIGSEGV);
	CHECK_EQUAL(WTERMSIG(status_of_child(sent_by_default)), SIGBUS);
	CHECK_EQUAL(status_of_child(sent_and_ignored), 0);
}

static void test_stop_restores_handlers(void)
{
	struct sigaction now;

	install(SIGSEGV, chained_plain, NULL, 0);
	start();
	install(SIGBUS, chained_plain, NULL, SA_NODEFER);	/* on top of ours: stays */
	ob_platform_stop(mock_host);
	sigaction(SIGSEGV, NULL, &now);
	CHECK(now.sa_handler == chained_plain);
	sigaction(SIGBUS, NULL, &now);
	CHECK(now.sa_handler == chained_plain && (now.sa_flags & SA_NODEFER));
	sigaction(SIGURG, NULL, &now);
	CHECK(now.sa_handler == SIG_DFL);
}

/* ---- the preempt signal ---- */

static int pipe_ends[2];
static uint64_t reader_self;

static void *blocked_reader(void *unused)
{
	char byte;

	(void)unused;
	errno = 55;
	__atomic_store_n(&reader_self, ob_host_thread_self(mock_host), __ATOMIC_SEQ_CST);
	set_flag(1);
	/* Not -1 and EINTR: the call is restarted. */
	CHECK_EQUAL(read(pipe_ends[0], &byte, 1), 1);
	CHECK_EQUAL(errno, 55);
	return NULL;
}

static void wait_for_preemptions(uint32_t count)
{
	for (int i = 0; i < 60000 && __atomic_load_n(&mock.preemptions, __ATOMIC_SEQ_CST) < count;
	     i++)
		usleep(1000);
	CHECK_EQUAL(mock.preemptions, count);
}

static void test_preempt(void)
{
	pthread_t thread;

	install(SIGURG, chained_plain, NULL, 0);
	start();
	CHECK_EQUAL(pipe(pipe_ends), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, blocked_reader, NULL), 0);
	wait_for_flag(1);
	usleep(20000);
	ob_host_thread_interrupt(mock_host, reader_self);
	wait_for_preemptions(1);
	CHECK_EQUAL(mock_preempted_thread, reader_self);
	CHECK_EQUAL(chained, 0);
	CHECK_EQUAL(write(pipe_ends[1], "x", 1), 1);
	pthread_join(thread, NULL);
	ob_host_thread_interrupt(mock_host, reader_self);	/* has ended */
}

static void test_preempt_chains(void)
{
	install(SIGURG, chained_plain, NULL, 0);
	start();
	if (!sigsetjmp(after_fault, 1))
		raise(SIGURG);
	CHECK_EQUAL(chained, 1);
	ob_platform_stop(mock_host);
	if (!sigsetjmp(after_fault, 1))
		raise(SIGURG);
	CHECK_EQUAL(chained, 2);
}

static void test_preempt_ignored_by_default(void)
{
	start();
	raise(SIGURG);
	CHECK_EQUAL(mock.preemptions, 1);
}

const struct platform_test signal_tests[] = {
	TEST(fault_is_resumed),
	TEST(fault_beyond_file),
	TEST(fault_chains_to_handler),
	TEST(fault_default_actions),
	TEST(stop_restores_handlers),
	TEST(preempt),
	TEST(preempt_chains),
	TEST(preempt_ignored_by_default),
	{ NULL, NULL },
};
