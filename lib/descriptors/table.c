// SPDX-License-Identifier: GPL-2.0-only
/* The table of the host's descriptors that are the kernel's: see local.h. */
#define _GNU_SOURCE
#include <outboard/syscalls.h>

#include "local.h"

/* The kernel's descriptor and one; 0: the descriptor is the host's. Members are atomic. */
static int kernel_fds[OB_LOCAL_MOST];

static int highest;		/* of the descriptors that were ever the kernel's; atomic */

int ob_local_kernel_fd(int fd)
{
	if (fd < 0 || fd >= OB_LOCAL_MOST)
		return -1;
	return __atomic_load_n(&kernel_fds[fd], __ATOMIC_ACQUIRE) - 1;
}

int ob_local_set_kernel_fd(int fd, int kernel_fd)
{
	int before = __atomic_load_n(&highest, __ATOMIC_RELAXED);

	while (fd > before && !__atomic_compare_exchange_n(&highest, &before, fd, false,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return __atomic_exchange_n(&kernel_fds[fd], kernel_fd + 1, __ATOMIC_ACQ_REL) - 1;
}

void ob_local_shut_down_all(void)
{
	for (int fd = 0; fd <= __atomic_load_n(&highest, __ATOMIC_RELAXED); fd++)
		if (ob_local_kernel_fd(fd) >= 0)
			ob_sys_shutdown(ob_local_kernel_fd(fd), SHUT_WR);
}
