// SPDX-License-Identifier: GPL-2.0-only
/* A client that is out for some ticks after each call: its task is evicted, and its vCPU idles. */
#include <unistd.h>

#include "../library/client.h"

/* A debugger stops here: there is a kernel. */
__attribute__((noinline)) void booted(void)
{
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	client_boot(1);
	booted();
	for (int i = 0; i < 20; i++) {
		OK(ob_sys_getppid());
		usleep(50000);
	}
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
