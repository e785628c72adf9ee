// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtio: the hypercalls, and the table of devices.
 *
 * A thread finds a device by its number without a lock: an entry is set when the device is ready,
 * and cleared before the device is freed. The kernel makes no call for a device after its close. A
 * number is that of the entry, plus a multiple of the table's size that no other device has had.
 */
#include <errno.h>
#include <string.h>

#include "virtio.h"

static struct ob_virtio_device *find(struct ob_host *host, uint32_t number)
{
	struct ob_virtio_device *device =
		__atomic_load_n(&host->virtio.devices[number % OB_VIRTIO_DEVICES_MOST],
				__ATOMIC_ACQUIRE);

	return device && device->number == number ? device : NULL;
}

int ob_virtio_insert(struct ob_host *host, struct ob_virtio_device *device)
{
	uint32_t base = __atomic_fetch_add(&host->virtio.inserted, OB_VIRTIO_DEVICES_MOST,
					   __ATOMIC_RELAXED) & INT32_MAX;

	for (uint32_t place = 0; place < OB_VIRTIO_DEVICES_MOST; place++) {
		struct ob_virtio_device *none = NULL;

		device->number = base + place;
		if (__atomic_compare_exchange_n(&host->virtio.devices[place], &none, device, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return (int)device->number;
	}
	return -ENOSPC;
}

/* For one of two threads: the kernel that takes the device, or the one that withdraws it. */
static bool take(struct ob_virtio_device *device)
{
	return !__atomic_exchange_n(&device->taken, true, __ATOMIC_ACQ_REL);
}

void ob_virtio_withdraw(struct ob_host *host, uint32_t number)
{
	struct ob_virtio_device *device = find(host, number);

	if (device && take(device))
		ob_host_virtio_close(host, number);
}

int ob_host_virtio_info(struct ob_host *host, uint32_t number, struct ob_virtio_info *info)
{
	struct ob_virtio_device *device = find(host, number);

	if (!device || !take(device))
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
	__atomic_store_n(&host->virtio.devices[number % OB_VIRTIO_DEVICES_MOST], NULL,
			 __ATOMIC_RELEASE);
	device->operations->close(device);
}

void ob_posix_virtio_forked(struct ob_host *host)
{
	for (int place = 0; place < OB_VIRTIO_DEVICES_MOST; place++) {
		struct ob_virtio_device *device = host->virtio.devices[place];

		if (device)
			device->operations->forked(device);
		host->virtio.devices[place] = NULL;
	}
}
