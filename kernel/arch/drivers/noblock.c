// SPDX-License-Identifier: GPL-2.0-only
/* A kernel without a block layer has no disks. */
#include <linux/errno.h>
#include <outboard/gate.h>

int ob_kernel_disk_add(const struct ob_disk_parameters *parameters, char name[32])
{
	return -ENODEV;
}

int ob_kernel_disk_remove(u32 disk)
{
	return -ENODEV;
}
