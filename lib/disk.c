// SPDX-License-Identifier: GPL-2.0-only
/* Disks: checks what the program asks for before the kernel sees it. */
#include <errno.h>

#include <outboard/gate.h>
#include <outboard/outboard.h>

_Static_assert(OB_DISK_READ_ONLY == OB_BLOCK_READ_ONLY, "flags are passed on as they are");
_Static_assert(OB_DISK_NO_LOCK == OB_BLOCK_NO_LOCK, "flags are passed on as they are");

static int check(const struct ob_disk_config *config)
{
	if (!config || config->size != sizeof(*config) || !config->path)
		return -EINVAL;
	if (config->flags & ~(OB_DISK_READ_ONLY | OB_DISK_NO_LOCK))
		return -EINVAL;
	if (config->sector_size && config->sector_size != 512 && config->sector_size != 4096)
		return -EINVAL;
	return 0;
}

int ob_disk_add(const struct ob_disk_config *config, char name[32])
{
	struct ob_disk_parameters parameters;
	char unwanted[32];
	int error = check(config);

	if (error)
		return error;
	parameters = (struct ob_disk_parameters){
		.path = config->path,
		.flags = config->flags,
		.sector_size = config->sector_size,
	};
	return ob_kernel_disk_add(&parameters, name ? name : unwanted);
}

int ob_disk_remove(int disk)
{
	return disk < 0 ? -ENOENT : ob_kernel_disk_remove((uint32_t)disk);
}
