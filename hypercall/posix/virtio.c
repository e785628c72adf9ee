// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtio: the hypercalls, and the table of devices.
 *
 * A thread finds a device by its number without a lock: an entry is set when the device is ready,
 * and cleared before the device is freed. The kernel makes no call for a device after its close.
 */
#include <errno.h>
#include <string.h>

#include "virtio.h"

static struct ob_virtio_device *find(struct ob_host *host, uint32_t number)
{
	if (number >= OB_VIRTIO_DEVICES_MOST)
		return NULL;
	return __atomic_load_n(&host->virtio.devices[number], __ATOMIC_ACQUIRE);
}

int ob_virtio_insert(struct ob_host *host, struct ob_virtio_device *device)
{
	for (int number = 0; number < OB_VIRTIO_DEVICES_MOST; number++) {
		struct ob_virtio_device *none = NULL;

		if (__atomic_compare_exchange_n(&host->virtio.devices[number], &none, device, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return number;
	}
	return -ENOSPC;
}

int ob_host_virtio_info(struct ob_host *host, uint32_t number, struct ob_virtio_info *info)
{
	struct ob_virtio_device *device = find(host, number);

	if (!device)
		return -ENODEV;
	*info = device->info;
	return 0;
}

void ob_host_virtio_read(struct ob_host *host, uint32_t number, uint32_t offset, void *bytes,
			 uint32_t size)
{
	struct ob_virtio_device *device = find(host, number);

	memset(bytes, 0, size);
	if (device && offset < device->info.config_size) {
		if (size > device->info.config_size - offset)
			size = device->info.config_size - offset;
		device->operations->read(device, offset, bytes, size);
	}
}

/* No device has a field that the driver may write. */
void ob_host_virtio_write(struct ob_host *host, uint32_t number, uint32_t offset, const void *bytes,
			  uint32_t size)
{
	(void)host;
	(void)number;
	(void)offset;
	(void)bytes;
	(void)size;
}

int ob_host_virtio_features(struct ob_host *host, uint32_t number, uint64_t features)
{
	struct ob_virtio_device *device = find(host, number);

	if (!device)
		return -ENODEV;
	if (features & ~device->info.features)
		return -EINVAL;
	return device->operations->features(device, features);
}

int ob_host_virtio_queue(struct ob_host *host, uint32_t number, uint32_t index,
			 const struct ob_virtio_queue *queue)
{
	struct ob_virtio_device *device = find(host, number);

	if (!device)
		return -ENODEV;
	if (index >= device->info.queue_count || queue->size > device->info.queue_size)
		return -EINVAL;
	return device->operations->queue(device, index, queue);
}

int ob_host_virtio_start(struct ob_host *host, uint32_t number, uint32_t interrupt)
{
	struct ob_virtio_device *device = find(host, number);

	return device ? device->operations->start(device, interrupt) : -ENODEV;
}

void ob_host_virtio_notify(struct ob_host *host, uint32_t number, uint32_t index)
{
	struct ob_virtio_device *device = find(host, number);

	if (device && index < device->info.queue_count)
		device->operations->notify(device, index);
}

int ob_host_virtio_reset(struct ob_host *host, uint32_t number)
{
	struct ob_virtio_device *device = find(host, number);

	return device ? device->operations->reset(device) : 0;
}

void ob_host_virtio_close(struct ob_host *host, uint32_t number)
{
	struct ob_virtio_device *device = find(host, number);

	if (!device)
		return;
	__atomic_store_n(&host->virtio.devices[number], NULL, __ATOMIC_RELEASE);
	device->operations->close(device);
}

void ob_posix_virtio_forked(struct ob_host *host)
{
	for (uint32_t number = 0; number < OB_VIRTIO_DEVICES_MOST; number++) {
		struct ob_virtio_device *device = find(host, number);

		if (device)
			device->operations->forked(device);
		host->virtio.devices[number] = NULL;
	}
}
