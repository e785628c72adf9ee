// SPDX-License-Identifier: GPL-2.0-only
/*
 * The virtio file system device (virtio specification 1.2, section 5.11): queue 0 for requests that
 * pass others, queue 1 for all others. There is no notification queue, and no DAX window.
 *
 * One thread serves both, because operations of the host block. It enters RAM for one request at a
 * time: it sets `in_ram`, then reads `running`. A reset clears `running`, then reads `in_ram`. So
 * either the thread stays out, or the reset sees it and is tried again.
 */
#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_fs.h>
#include <linux/virtio_ids.h>
#include <stdlib.h>
#include <string.h>

#include "../virtqueue.h"
#include "device.h"

#define QUEUES 2
/* More than the pages of the largest request: serve.c. */
#define QUEUE_SIZE 512

#define BIT(n) (1ull << (n))
#define FEATURES (BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_RING_F_INDIRECT_DESC) | \
		  BIT(VIRTIO_RING_F_EVENT_IDX))

struct fs_device {
	struct ob_virtio_device device;
	struct ob_host *host;
	struct ob_fs_share *share;
	struct virtio_fs_config config;
	struct ob_virtqueue_memory ram;
	struct ob_virtqueue queues[QUEUES];
	uint64_t features;
	uint64_t thread;
	uint32_t arrivals;		/* counts notifications, starts and stops; atomic */
	bool running;			/* from start to reset; atomic */
	bool stopping;			/* atomic */
	bool in_ram;			/* the thread is; atomic */
};

static struct fs_device *of(struct ob_virtio_device *device)
{
	return (struct fs_device *)device;
}

/* ---- the thread ----------------------------------------------------------------- */

static void leave_ram(struct fs_device *fs)
{
	__atomic_store_n(&fs->in_ram, false, __ATOMIC_SEQ_CST);
}

static bool enter_ram(struct fs_device *fs)
{
	__atomic_store_n(&fs->in_ram, true, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&fs->running, __ATOMIC_SEQ_CST))
		return true;
	leave_ram(fs);
	return false;
}

static void report_if_broken(struct fs_device *fs, struct ob_virtqueue *queue)
{
	static const char line[] = "file system device: the driver has broken a queue";

	if (!queue->broken || queue->reported)
		return;
	queue->reported = true;
	ob_host_console_write(fs->host, 3, line, sizeof(line) - 1);
}

/* True: there was a request, or there may be one now. In RAM. */
static bool serve_queue(struct fs_device *fs, struct ob_virtqueue *queue)
{
	struct ob_virtqueue_chain chain;
	uint32_t length;

	if (!ob_virtqueue_take(queue, &chain)) {
		report_if_broken(fs, queue);
		return ob_virtqueue_ask_notify(queue);
	}
	length = ob_fs_serve(fs->share, chain.pieces, chain.readable, chain.count);
	ob_virtqueue_return(queue, chain.head, length);
	ob_virtqueue_publish(queue);
	if (ob_virtqueue_wants_interrupt(queue))
		fs->host->upcalls->interrupt(queue->interrupt);
	return true;
}

/* One request of each queue. */
static bool serve(struct fs_device *fs)
{
	bool found = false;

	for (int i = 0; i < QUEUES; i++) {
		if (!enter_ram(fs))
			return false;
		found |= serve_queue(fs, &fs->queues[i]);
		leave_ram(fs);
	}
	return found;
}

static void work(void *argument)
{
	struct fs_device *fs = argument;

	for (;;) {
		uint32_t seen = __atomic_load_n(&fs->arrivals, __ATOMIC_SEQ_CST);

		if (__atomic_load_n(&fs->stopping, __ATOMIC_SEQ_CST))
			return;
		if (!serve(fs))
			ob_host_wait(fs->host, &fs->arrivals, seen, OB_FOREVER);
	}
}

static void wake(struct fs_device *fs)
{
	__atomic_add_fetch(&fs->arrivals, 1, __ATOMIC_SEQ_CST);
	ob_host_wake(fs->host, &fs->arrivals, 1);
}

/* ---- the device ------------------------------------------------------------------- */

static void fs_read(struct ob_virtio_device *device, uint32_t offset, void *bytes, uint32_t size)
{
	memcpy(bytes, (const char *)&of(device)->config + offset, size);
}

static int fs_features(struct ob_virtio_device *device, uint64_t features)
{
	of(device)->features = features;
	return features & BIT(VIRTIO_F_VERSION_1) ? 0 : -EINVAL;
}

static int fs_queue(struct ob_virtio_device *device, uint32_t index,
		    const struct ob_virtio_queue *from)
{
	struct fs_device *fs = of(device);
	int error;

	fs->ram = ob_virtqueue_ram(fs->host);
	error = ob_virtqueue_set(&fs->queues[index], &fs->ram, from);
	fs->queues[index].event_index = fs->features & BIT(VIRTIO_RING_F_EVENT_IDX);
	return error;
}

static int fs_start(struct ob_virtio_device *device, uint32_t config_interrupt)
{
	struct fs_device *fs = of(device);

	/* The configuration never changes. */
	(void)config_interrupt;
	__atomic_store_n(&fs->running, true, __ATOMIC_SEQ_CST);
	wake(fs);
	return 0;
}

static void fs_notify(struct ob_virtio_device *device, uint32_t index)
{
	(void)index;
	wake(of(device));
}

static int fs_reset(struct ob_virtio_device *device)
{
	struct fs_device *fs = of(device);

	__atomic_store_n(&fs->running, false, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&fs->in_ram, __ATOMIC_SEQ_CST) ? -EAGAIN : 0;
}

/* An operation of the host may never end: a server of NFS has gone. Then all stays. */
static void fs_close(struct ob_virtio_device *device)
{
	struct fs_device *fs = of(device);
	struct ob_patience patience = ob_posix_patience_begin(fs->host);

	__atomic_store_n(&fs->running, false, __ATOMIC_SEQ_CST);
	__atomic_store_n(&fs->stopping, true, __ATOMIC_SEQ_CST);
	wake(fs);
	if (!ob_posix_thread_join_until(fs->host, fs->thread, &patience)) {
		ob_posix_leave_behind(fs->host);
		return;
	}
	ob_fs_share_close(fs->share);
	free(fs);
}

static void fs_forked(struct ob_virtio_device *device)
{
	struct fs_device *fs = of(device);

	ob_fs_share_forked(fs->share, __atomic_load_n(&fs->in_ram, __ATOMIC_SEQ_CST));
	free(fs);
}

static const struct ob_virtio_operations fs_operations = {
	.read = fs_read,
	.features = fs_features,
	.queue = fs_queue,
	.start = fs_start,
	.notify = fs_notify,
	.reset = fs_reset,
	.close = fs_close,
	.forked = fs_forked,
};

bool ob_fs_device_is_mounted(const struct ob_virtio_device *device)
{
	const struct fs_device *fs = (const struct fs_device *)device;

	if (device->operations != &fs_operations)
		return false;
	/* A mount returns before its first request is carried out, which sets `is_mounted`. */
	return !ob_virtqueue_is_idle(&fs->queues[QUEUES - 1]) ||
	       __atomic_load_n(&fs->share->is_mounted, __ATOMIC_ACQUIRE);
}

bool ob_fs_device_has_tag(const struct ob_virtio_device *device, const char *tag)
{
	const struct fs_device *fs = (const struct fs_device *)device;

	return device->operations == &fs_operations &&
	       !strncmp((const char *)fs->config.tag, tag, sizeof(fs->config.tag));
}

int ob_fs_device_new(struct ob_host *host, struct ob_fs_share *share, const char *tag,
		     struct ob_virtio_device **device)
{
	struct fs_device *fs = calloc(1, sizeof(*fs));
	int error;

	if (!fs) {
		ob_fs_share_close(share);
		return -ENOMEM;
	}
	fs->device.operations = &fs_operations;
	fs->device.info = (struct ob_virtio_info){
		.type = VIRTIO_ID_FS,
		.features = FEATURES,
		.queue_count = QUEUES,
		.queue_size = QUEUE_SIZE,
		.config_size = sizeof(fs->config),
	};
	memcpy(fs->config.tag, tag, strnlen(tag, sizeof(fs->config.tag)));
	fs->config.num_request_queues = QUEUES - 1;
	fs->host = host;
	fs->share = share;
	*device = &fs->device;
	error = ob_host_thread_create(host, work, fs, "outboard-files", &fs->thread);
	if (error) {
		ob_fs_share_close(share);
		free(fs);
	}
	return error;
}
