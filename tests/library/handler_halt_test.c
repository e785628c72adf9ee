// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client's signal handler that lasts longer than its kernel: handler_halt_test again|other|itself
 *
 *   again    another thread halts the kernel and boots it again meanwhile
 *   other    the same, and the next kernel is another instance, which the handler calls
 *   itself   the handler halts the kernel and boots it again
 *
 * The call that the handler has interrupted fails with ENODEV. It is not made in the next kernel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

/* Where all hangs, the test is not to wait for the runner's limit. */
#define DEADLINE 300		/* seconds */

/* Linux's own structure: the C library's is another one. */
struct action {
	void (*handler)(int number);
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static struct ob_instance *first, *second;
static volatile bool is_handling, may_return;
static volatile long reader_task, task_in_handler;
static int ends[2];

static struct ob_instance *booted(void)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .memory = 64 << 20,
		.log_level = OB_LOG_DEFAULT,
	};
	struct ob_instance *instance;

	CHECK_EQUAL(ob_instance_new(&instance), 0);
	CHECK_EQUAL(ob_boot_on(instance, &config), 0);
	return instance;
}

static void handle(struct ob_instance *instance, void (*handler)(int number))
{
	struct action action = { .handler = handler, .flags = SA_RESTART };

	OK(ob_sys_rt_sigaction_on(instance, SIGUSR1, (void *)&action, NULL, sizeof(uint64_t)));
}

static void wait_in_handler(int number)
{
	(void)number;
	is_handling = true;
	while (!may_return)
		usleep(1000);
	if (second)
		task_in_handler = OK(ob_sys_gettid_on(second));
}

static void boot_again(void)
{
	CHECK_EQUAL(ob_halt(), 0);
	client_boot(2);
	/* The same numbers as in the kernel before. There is a byte for a read that comes. */
	OK(ob_sys_pipe2(ends, 0));
	CHECK_EQUAL(OK(ob_sys_write(ends[1], "x", 1)), 1);
}

static void boot_in_handler(int number)
{
	(void)number;
	boot_again();
}

static void check_nobody_has_read(void)
{
	char byte;

	CHECK_EQUAL(OK(ob_sys_read(ends[0], &byte, 1)), 1);
	CHECK_EQUAL(byte, 'x');
}

static void *read_in_first_kernel(void *unused)
{
	char byte;

	reader_task = OK(ob_sys_gettid());
	CHECK_EQUAL(ob_sys_read(ends[0], &byte, 1), -1);
	CHECK_EQUAL(errno, ENODEV);
	OK(ob_sys_getppid());
	return unused;
}

static void again(void)
{
	pthread_t reader;

	client_boot(2);
	OK(ob_sys_pipe2(ends, 0));
	handle(ob_instance_default(), wait_in_handler);
	CHECK(!pthread_create(&reader, NULL, read_in_first_kernel, NULL));
	client_wait_until_asleep(&reader_task);
	OK(ob_sys_tgkill((int)OK(ob_sys_getpid()), (int)reader_task, SIGUSR1));
	while (!is_handling)
		usleep(1000);
	boot_again();
	may_return = true;
	CHECK(!pthread_join(reader, NULL));
	check_nobody_has_read();
	CHECK_EQUAL(ob_halt(), 0);
}

/* The call by which the thread sends itself a signal is the one that its handler interrupts. */
static void signal_itself(struct ob_instance *instance)
{
	long self = OK(ob_sys_gettid_on(instance)), process = OK(ob_sys_getpid_on(instance));

	CHECK_EQUAL(ob_sys_tgkill_on(instance, (int)process, (int)self, SIGUSR1), -1);
	CHECK_EQUAL(errno, ENODEV);
}

static void itself(void)
{
	client_boot(2);
	handle(ob_instance_default(), boot_in_handler);
	signal_itself(ob_instance_default());
	check_nobody_has_read();
	CHECK_EQUAL(ob_halt(), 0);
}

static void *signal_in_first_kernel(void *unused)
{
	signal_itself(first);
	/* The other kernel still knows the thread. */
	CHECK_EQUAL(OK(ob_sys_gettid_on(second)), task_in_handler);
	return unused;
}

/* The second instance gets what the first one had of each thread. */
static void other(void)
{
	pthread_t thread;

	first = booted();
	handle(first, wait_in_handler);
	CHECK(!pthread_create(&thread, NULL, signal_in_first_kernel, NULL));
	while (!is_handling)
		usleep(1000);
	CHECK_EQUAL(ob_halt_on(first), 0);
	CHECK_EQUAL(ob_instance_free(first), 0);
	second = booted();
	may_return = true;
	CHECK(!pthread_join(thread, NULL));
	CHECK_EQUAL(ob_halt_on(second), 0);
	CHECK_EQUAL(ob_instance_free(second), 0);
}

int main(int count, char **arguments)
{
	CHECK_EQUAL(count, 2);
	alarm(DEADLINE);
	if (!strcmp(arguments[1], "again"))
		again();
	else if (!strcmp(arguments[1], "itself"))
		itself();
	else
		other();
	return 0;
}
