// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signals of the host program keep working while it uses the kernel, and its handlers are back
 * after halt.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "client.h"

static volatile sig_atomic_t alarms, users, faults, calls_in_handler;
static sigjmp_buf after_fault;
static volatile char *expected_address;

static void on_alarm(int number)
{
	long result;

	(void)number;
	alarms++;
	/* Inside a system call, or on the way in, a second one is refused; between two it works. */
	result = ob_syscall(OB_SYS_getppid);
	if (result >= 0)
		calls_in_handler++;
	else
		CHECK_EQUAL(result, -EDEADLK);
}

static void on_user(int number)
{
	(void)number;
	users++;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	CHECK_EQUAL(number, SIGSEGV);
	CHECK(info->si_addr == expected_address);
	faults++;
	siglongjmp(after_fault, 1);
}

static void install_all(void)
{
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };

	CHECK(!sigaltstack(&stack, NULL));
	CHECK(!sigaction(SIGSEGV, &fault, NULL));
	CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
	CHECK(signal(SIGUSR1, on_user) != SIG_ERR);
}

static void host_fault(volatile char *address)
{
	int before = faults;

	expected_address = address;
	if (!sigsetjmp(after_fault, 1))
		*address = 1;
	CHECK_EQUAL(faults, before + 1);
}

/* A timer fires all the time while calls are made: no result is wrong, no alarm is lost. */
static void calls_under_alarms(void)
{
	struct itimerval every_ms = { { 0, 1000 }, { 0, 1000 } }, off = { { 0, 0 }, { 0, 0 } };
	int ends[2], sum = 0;
	char byte;

	OK(ob_sys_pipe2(ends, 0));
	CHECK(!setitimer(ITIMER_REAL, &every_ms, NULL));
	while (alarms < 500) {
		byte = (char)alarms;
		CHECK_EQUAL(OK(ob_sys_write(ends[1], &byte, 1)), 1);
		CHECK_EQUAL(OK(ob_sys_read(ends[0], &byte, 1)), 1);
		CHECK(ob_sys_getppid() >= 0);
		sum++;
	}
	CHECK(!setitimer(ITIMER_REAL, &off, NULL));
	CHECK(sum > 100);
	CHECK(calls_in_handler > 0);
}

static volatile int stop;

static void *busy(void *unused)
{
	sigset_t all;

	(void)unused;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (!stop)
		CHECK(ob_sys_getppid() >= 0);
	return NULL;
}

/*
 * The thread computes between its calls while others want its vCPU, so it is evicted and has to
 * wait on its way in. A handler that makes a call in that moment must not get in its way.
 */
static void calls_while_evicted(void)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, off = { { 0, 0 }, { 0, 0 } };
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, busy, NULL));
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (int i = 0; i < 1000; i++) {
		for (volatile int work = 0; work < 100000; work++)
			;
		CHECK(ob_sys_getppid() >= 0);
	}
	CHECK(!setitimer(ITIMER_REAL, &off, NULL));
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static void *blocked_reader(void *fd)
{
	char byte;

	CHECK_EQUAL(OK(ob_sys_read((int)(long)fd, &byte, 1)), 1);
	CHECK_EQUAL(byte, 'x');
	return NULL;
}

/* The handler runs while the thread waits in the kernel, and the wait goes on. */
static void signal_to_a_blocked_thread(void)
{
	pthread_t thread;
	int ends[2];

	OK(ob_sys_pipe2(ends, 0));
	CHECK(!pthread_create(&thread, NULL, blocked_reader, (void *)(long)ends[0]));
	usleep(50000);
	for (int i = 1; i <= 5; i++) {
		CHECK(!pthread_kill(thread, SIGUSR1));
		for (int wait = 0; wait < 60000 && users < i; wait++)
			usleep(1000);
		CHECK_EQUAL(users, i);
	}
	OK(ob_sys_write(ends[1], "x", 1));
	pthread_join(thread, NULL);
}

static void faults_are_the_programs(void)
{
	char *page = ob_sys_mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);

	CHECK(page != MAP_FAILED);
	page[4096] = 1;
	host_fault(NULL);
	host_fault((char *)client_border());
	/* Also in the client window, where nothing is mapped any more or writing is forbidden. */
	OK(ob_sys_munmap(page + 4096, 4096));
	host_fault(page + 4096);
	OK(ob_sys_mprotect(page, 4096, PROT_READ));
	CHECK_EQUAL(page[0], 0);
	host_fault(page);
	CHECK(ob_sys_getppid() >= 0);
}

/* Argument: the number of vCPUs. */
int main(int count, char **arguments)
{
	struct sigaction now;

	CHECK_EQUAL(count, 2);
	install_all();
	client_boot((unsigned int)atoi(arguments[1]));
	calls_under_alarms();
	calls_while_evicted();
	signal_to_a_blocked_thread();
	for (int i = 0; i < 10; i++)
		faults_are_the_programs();
	CHECK_EQUAL(ob_halt(), 0);
	sigaction(SIGSEGV, NULL, &now);
	CHECK(now.sa_sigaction == on_fault && (now.sa_flags & SA_ONSTACK));
	sigaction(SIGURG, NULL, &now);
	CHECK(now.sa_handler == SIG_DFL);
	host_fault(NULL);
	return 0;
}
