// SPDX-License-Identifier: GPL-2.0-only
/* A kernel without TCP/IP does not offer the host's sockets. */
#include <linux/errno.h>
#include <outboard/gate.h>

int ob_kernel_sockets(u32 of_host)
{
	return -ENOSYS;
}
