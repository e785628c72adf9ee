// SPDX-License-Identifier: GPL-2.0-only
/* Opens a directory of the host as a device: platform_host.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device.h"

_Static_assert((int)OB_DIRECTORY_CACHE_AUTO == (int)OB_FS_CACHE_AUTO &&
	       (int)OB_DIRECTORY_CACHE_NONE == (int)OB_FS_CACHE_NONE &&
	       (int)OB_DIRECTORY_CACHE_ALWAYS == (int)OB_FS_CACHE_ALWAYS, "passed on as they are");

/* The kernel's driver would refuse the second one, and not say why. */
static bool has_tag(struct ob_host *host, const char *tag)
{
	for (uint32_t place = 0; place < OB_VIRTIO_DEVICES_MOST; place++) {
		const struct ob_virtio_device *device =
			__atomic_load_n(&host->virtio.devices[place], __ATOMIC_ACQUIRE);

		if (device && ob_fs_device_has_tag(device, tag))
			return true;
	}
	return false;
}

int ob_platform_directory_open(struct ob_host *host, const struct ob_platform_directory *directory,
			       char *error, size_t size)
{
	struct ob_fs_settings settings = {
		.path = directory->path,
		.is_read_only = directory->is_read_only,
		.cache = (enum ob_fs_cache)directory->cache,
		.keeps_owners = directory->keeps_owners,
	};
	struct ob_virtio_device *device;
	struct ob_fs_share *share;
	int result, number;

	if (has_tag(host, directory->tag)) {
		snprintf(error, size, "%.256s: the kernel has a directory of the tag %.36s already",
			 directory->path, directory->tag);
		return -EEXIST;
	}
	result = ob_fs_share_open(&settings, &share, error, size);
	if (result)
		return result;
	result = ob_fs_device_new(host, share, directory->tag, &device);
	if (result) {
		snprintf(error, size, "%.256s: no memory, or no thread: %s", directory->path,
			 strerror(-result));
		return result;
	}
	number = ob_virtio_insert(host, device);
	if (number < 0) {
		snprintf(error, size, "%.256s: the kernel has %d virtio devices already, its limit",
			 directory->path, OB_VIRTIO_DEVICES_MOST);
		device->operations->close(device);
	}
	return number;
}

void ob_platform_directory_done(struct ob_host *host, uint32_t number)
{
	ob_virtio_withdraw(host, number);
}

bool ob_platform_directory_is_mounted(struct ob_host *host, uint32_t number)
{
	const struct ob_virtio_device *device = ob_virtio_find(host, number);

	return device && ob_fs_device_is_mounted(device);
}
