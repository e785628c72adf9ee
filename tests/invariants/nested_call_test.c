// SPDX-License-Identifier: GPL-2.0-only
/*
 * A signal handler that makes a call: nested_call.py has it come while its thread is on its way
 * into another one.
 */
#include <signal.h>

#include "../library/client.h"

static volatile int handled;

static void handler(int number)
{
	(void)number;
	OK(ob_sys_getppid());
	handled = 1;
}

/* nested_call.py stops here. */
__attribute__((noinline)) void about_to_call(void)
{
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	CHECK(signal(SIGUSR1, handler) != SIG_ERR);
	client_boot(1);
	while (!handled) {
		about_to_call();
		OK(ob_sys_getppid());
	}
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
