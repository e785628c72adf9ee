// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtio: the hypercalls, and the table of devices.
 *
 * A thread finds a device by its number without a lock: an entry is set when the device is ready,
 * and cleared before the device is freed. The kernel makes no call for a device after its close. A
 * number is that of the entry, plus a multiple of the table's size that no other device has had.
 *
 * Threads that wait for the kernel poll devices. Such a thread holds the entry's lock `in_poll`
 * during one look. The thread that closes a device clears the entry, then waits for the lock. A
 * debugger may stop the thread that looks (signals of the program wait): then the device and the
 * kernel's memory, which that thread uses, stay for ever.
 */
#include <errno.h>
#include <string.h>

#include "virtio.h"

struct ob_virtio_device *ob_virtio_find(struct ob_host *host, uint32_t number)
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
		if (!__atomic_compare_exchange_n(&host->virtio.devices[place], &none, device, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		if (device->is_polled)
			__atomic_or_fetch(&host->virtio.polled, 1ull << place, __ATOMIC_RELEASE);
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
	struct ob_virtio_device *device = ob_virtio_find(host, number);

	if (device && take(device))
		ob_host_virtio_close(host, number);
}

int ob_host_virtio_info(struct ob_host *host, uint32_t number, struct ob_virtio_info *info)
{
	struct ob_virtio_device *device = ob_virtio_find(host, number);

	if (!device || !take(device))
		return -ENODEV;
	*info = device->info;
	return 0;
}

void ob_host_virtio_read(struct ob_host *host, uint32_t number, uint32_t offset, void *bytes,
			 uint32_t size)
{
	struct ob_virtio_device *device = ob_virtio_find(host, number);

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
	struct ob_virtio_device *device = ob_virtio_find(host, number);

	if (!device)
		return -ENODEV;
	if (features & ~device->info.features)
		return -EINVAL;
	return device->operations->features(device, features);
}

int ob_host_virtio_queue(struct ob_host *host, uint32_t number, uint32_t index,
			 const struct ob_virtio_queue *queue)
{
	struct ob_virtio_device *device = ob_virtio_find(host, number);

	if (!device)
		return -ENODEV;
	if (index >= device->info.queue_count || queue->size > device->info.queue_size)
		return -EINVAL;
	return device->operations->queue(device, index, queue);
}

int ob_host_virtio_start(struct ob_host *host, uint32_t number, uint32_t interrupt)
{
	struct ob_virtio_device *device = ob_virtio_find(host, number);

	return device ? device->operations->start(device, interrupt) : -ENODEV;
}

void ob_host_virtio_notify(struct ob_host *host, uint32_t number, uint32_t index)
{
	struct ob_virtio_device *device = ob_virtio_find(host, number);

	if (device && index < device->info.queue_count)
		device->operations->notify(device, index);
}

int ob_host_virtio_reset(struct ob_host *host, uint32_t number)
{
	struct ob_virtio_device *device = ob_virtio_find(host, number);

	return device ? device->operations->reset(device) : 0;
}

/* ---- polling --------------------------------------------------------------- */

static bool lock(uint32_t *word)
{
	return !__atomic_load_n(word, __ATOMIC_RELAXED) &&
	       !__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE);
}

static void unlock(uint32_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

/* Lets each device look that no other thread polls now. */
static void poll_all(struct ob_host *host, bool is_last)
{
	uint64_t rest = __atomic_load_n(&host->virtio.polled, __ATOMIC_ACQUIRE);

	for (; rest; rest &= rest - 1) {
		int place = __builtin_ctzll(rest);
		struct ob_virtio_device *device;

		if (!lock(&host->virtio.in_poll[place]))
			continue;
		device = __atomic_load_n(&host->virtio.devices[place], __ATOMIC_SEQ_CST);
		if (device && device->is_polled)
			device->operations->poll(device, is_last);
		unlock(&host->virtio.in_poll[place]);
	}
}

/* Some looks at the word, without a look at the clock. */
static bool has_bits(const uint32_t *word, uint32_t bits)
{
	for (int i = 0; i < 4; i++) {
		if (__atomic_load_n(word, __ATOMIC_ACQUIRE) & bits)
			return true;
		__builtin_ia32_pause();
	}
	return false;
}

/*
 * A handler of the program that interrupts a look may wait for what only the next look would bring.
 * So the program's signals wait, for the 60 microseconds that a thread polls at most.
 */
static void hold_signals(sigset_t *before)
{
	sigset_t set;

	ob_posix_blocked_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, before);
}

int ob_host_virtio_poll(struct ob_host *host, const uint32_t *word, uint32_t bits, uint64_t end)
{
	bool found = false;
	sigset_t before;

	if (!__atomic_load_n(&host->virtio.polled, __ATOMIC_RELAXED))
		return -ENODEV;
	hold_signals(&before);
	while (!found && ob_host_clock_monotonic(host) < end) {
		poll_all(host, false);
		found = has_bits(word, bits);
	}
	poll_all(host, true);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return found;
}

/* ---- the end --------------------------------------------------------------- */

/* No thread finds the device any more. False: one polls it, and does not come back. */
static bool remove_entry(struct ob_host *host, struct ob_virtio_device *device)
{
	uint32_t place = device->number % OB_VIRTIO_DEVICES_MOST;
	struct ob_patience patience = ob_posix_patience_begin(host);

	__atomic_and_fetch(&host->virtio.polled, ~(1ull << place), __ATOMIC_RELAXED);
	__atomic_store_n(&host->virtio.devices[place], NULL, __ATOMIC_SEQ_CST);
	while (!lock(&host->virtio.in_poll[place])) {
		if (ob_posix_patience_is_over(host, &patience))
			return false;
		ob_host_thread_yield(host);
	}
	unlock(&host->virtio.in_poll[place]);
	return true;
}

void ob_host_virtio_close(struct ob_host *host, uint32_t number)
{
	struct ob_virtio_device *device = ob_virtio_find(host, number);

	if (!device)
		return;
	if (remove_entry(host, device)) {
		device->operations->close(device);
		return;
	}
	/* From here on it starts nothing new in RAM. */
	device->operations->reset(device);
	ob_posix_leave_behind(host);
}

void ob_posix_virtio_forked(struct ob_host *host)
{
	for (int place = 0; place < OB_VIRTIO_DEVICES_MOST; place++) {
		struct ob_virtio_device *device = host->virtio.devices[place];

		if (device)
			device->operations->forked(device);
		host->virtio.devices[place] = NULL;
		host->virtio.in_poll[place] = 0;
	}
	host->virtio.polled = 0;
}
