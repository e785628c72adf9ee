// SPDX-License-Identifier: GPL-2.0-only
/* A component whose kernel thread is always busy: the kernel boots, is used and halts. */
#include <unistd.h>

#include "client.h"

int main(void)
{
	alarm(120);
	client_boot(1);
	puts(ob_snapshot_status());
	CHECK(ob_sys_getpid() > 0);
	client_tmpfs("/ram");
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
