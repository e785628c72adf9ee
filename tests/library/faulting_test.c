// SPDX-License-Identifier: GPL-2.0-only
/*
 * A halt leaves a kernel thread behind that takes faults. They are the kernel's, also after the
 * halt, and end nobody's program. The argument is the module `faulting`.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "client.h"

static int lines;		/* of the log; atomic */

static void count_line(void *context, int level, const char *line, size_t length)
{
	(void)context;
	(void)level;
	(void)line;
	(void)length;
	__atomic_add_fetch(&lines, 1, __ATOMIC_SEQ_CST);
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .log = count_line, .log_level = 7,
	};
	struct ob_instance *other;
	struct sigaction action;
	unsigned long mask;
	int before;

	CHECK_EQUAL(count, 2);
	alarm(120);
	CHECK_EQUAL(ob_boot(&config), 0);
	/* Waits until both vCPUs are up. */
	OK(ob_sys_sched_getaffinity(0, sizeof(mask), &mask));
	client_load(arguments[1], "");
	CHECK_EQUAL(ob_halt(), 0);
	before = __atomic_load_n(&lines, __ATOMIC_SEQ_CST);
	CHECK(before > 0);
	usleep(300000);
	CHECK_EQUAL(ob_boot(NULL), -EBUSY);
	/* Another kernel comes and goes. */
	CHECK_EQUAL(ob_instance_new(&other), 0);
	CHECK_EQUAL(ob_boot_on(other, NULL), 0);
	CHECK(ob_sys_getpid_on(other) > 0);
	CHECK_EQUAL(ob_halt_on(other), 0);
	usleep(300000);
	CHECK(!sigaction(SIGSEGV, NULL, &action) && action.sa_handler != SIG_DFL);
	CHECK_EQUAL(__atomic_load_n(&lines, __ATOMIC_SEQ_CST), before);
	return 0;
}
