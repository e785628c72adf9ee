// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's virtio devices: a transport for Linux's own virtio drivers over the virtio group.
 *
 * The program adds a device, whose driver is then loaded and bound, unless a spare device takes it
 * (virtio_spare.c). Queues are Linux's split virtqueues, with physical addresses. Each queue has an
 * interrupt of its own, so that several vCPUs can serve several queues. A notification is a
 * hypercall, in which the device may work on the caller's thread.
 */
#include <linux/delay.h>
#include <linux/device/class.h>
#include <linux/if.h>
#include <linux/interrupt.h>
#include <linux/kmod.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_ring.h>
#include <asm/host.h>
#include <outboard/gate.h>
#include "../core/driver.h"
#include "../core/gate.h"
#include "../core/irq.h"
#include "../core/patience.h"
#include "virtio_device.h"

static_assert(OB_VIRTIO_BASE == OB_PHYS_OFFSET);

/* A reset waits this long, in milliseconds, before it asks the host again. */
#define OB_RESET_PAUSE 1

LIST_HEAD(ob_virtios);
DEFINE_MUTEX(ob_virtios_lock);
static u32 ob_virtios_in_use;

static void ob_virtio_get(struct virtio_device *device, unsigned int offset, void *bytes,
			  unsigned int size)
{
	ob_host_virtio_read(ob_host, ob_virtio_of(device)->number, offset, bytes, size);
}

static void ob_virtio_set(struct virtio_device *device, unsigned int offset, const void *bytes,
			  unsigned int size)
{
	ob_host_virtio_write(ob_host, ob_virtio_of(device)->number, offset, bytes, size);
}

static u8 ob_virtio_get_status(struct virtio_device *device)
{
	return ob_virtio_of(device)->status;
}

static void ob_virtio_fail(struct ob_virtio *virtio, int error)
{
	dev_err(&virtio->device.dev, "the host does not start the device: error %d\n", error);
	virtio->status |= VIRTIO_CONFIG_S_NEEDS_RESET;
}

static void ob_virtio_set_status(struct virtio_device *device, u8 status)
{
	struct ob_virtio *virtio = ob_virtio_of(device);
	u8 set = status & ~virtio->status;
	int error;

	virtio->status = status;
	if (!(set & VIRTIO_CONFIG_S_DRIVER_OK))
		return;
	error = ob_host_virtio_start(ob_host, virtio->number, virtio->config_interrupt);
	if (error)
		ob_virtio_fail(virtio, error);
}

static void ob_virtio_reset(struct virtio_device *device)
{
	struct ob_virtio *virtio = ob_virtio_of(device);

	while (ob_host_virtio_reset(ob_host, virtio->number) == -EAGAIN)
		msleep(OB_RESET_PAUSE);
	virtio->status = 0;
}

static u64 ob_virtio_get_features(struct virtio_device *device)
{
	return ob_virtio_of(device)->info.features;
}

static int ob_virtio_finalize_features(struct virtio_device *device)
{
	vring_transport_features(device);
	return ob_host_virtio_features(ob_host, ob_virtio_of(device)->number, device->features);
}

static const char *ob_virtio_bus_name(struct virtio_device *device)
{
	return "outboard";
}

static bool ob_virtio_notify(struct virtqueue *queue)
{
	ob_host_virtio_notify(ob_host, ob_virtio_of(queue->vdev)->number, queue->index);
	return true;
}

static irqreturn_t ob_virtio_config_changed(int irq, void *device)
{
	virtio_config_changed(device);
	return IRQ_HANDLED;
}

/* Returns the interrupt's number in the hypercall interface. */
static int ob_virtio_request_interrupt(irq_handler_t handler, const char *name, void *argument)
{
	int interrupt = ob_irq_numbers_alloc(1);
	unsigned int irq;
	int error;

	if (interrupt < 0)
		return interrupt;
	irq = irq_create_mapping(ob_irq_domain, interrupt);
	error = irq ? request_irq(irq, handler, 0, name, argument) : -ENOMEM;
	if (!error)
		return interrupt;
	if (irq)
		irq_dispose_mapping(irq);
	else
		ob_irq_numbers_free(interrupt, 1);
	return error;
}

static void ob_virtio_free_interrupt(u32 interrupt, void *argument)
{
	unsigned int irq = irq_find_mapping(ob_irq_domain, interrupt);

	free_irq(irq, argument);
	irq_dispose_mapping(irq);
}

static void ob_virtio_del_vq(struct virtqueue *queue)
{
	struct ob_virtio_vq *vq = queue->priv;

	if (vq->interrupt)
		ob_virtio_free_interrupt(vq->interrupt, queue);
	vring_del_virtqueue(queue);
	kfree(vq);
}

static void ob_virtio_del_vqs(struct virtio_device *device)
{
	struct ob_virtio *virtio = ob_virtio_of(device);
	struct virtqueue *queue, *next;

	list_for_each_entry_safe(queue, next, &device->vqs, list)
		ob_virtio_del_vq(queue);
	if (virtio->config_interrupt)
		ob_virtio_free_interrupt(virtio->config_interrupt, device);
	virtio->config_interrupt = 0;
}

int ob_virtio_offer_vq(struct ob_virtio *virtio, struct virtqueue *queue)
{
	const struct ob_virtio_vq *vq = queue->priv;
	struct ob_virtio_queue host_queue = {
		.descriptors = virtqueue_get_desc_addr(queue),
		.available = virtqueue_get_avail_addr(queue),
		.used = virtqueue_get_used_addr(queue),
		.size = virtqueue_get_vring_size(queue),
		.interrupt = vq->interrupt,
	};

	return ob_host_virtio_queue(ob_host, virtio->number, queue->index, &host_queue);
}

static int ob_virtio_start_vq(struct ob_virtio *virtio, struct virtqueue *queue, bool has_callback)
{
	struct ob_virtio_vq *vq = queue->priv;
	int interrupt = 0;

	if (has_callback)
		interrupt = ob_virtio_request_interrupt(vring_interrupt, queue->name, queue);
	if (interrupt < 0)
		return interrupt;
	vq->interrupt = interrupt;
	return ob_virtio_offer_vq(virtio, queue);
}

static struct virtqueue *ob_virtio_make_vq(struct ob_virtio *virtio, unsigned int index,
					   const struct virtqueue_info *info)
{
	struct ob_virtio_vq *vq = kzalloc(sizeof(*vq), GFP_KERNEL);
	struct virtqueue *queue;
	int error;

	if (!vq)
		return ERR_PTR(-ENOMEM);
	queue = vring_create_virtqueue(index, virtio->info.queue_size, PAGE_SIZE, &virtio->device,
				       true, true, info->ctx, ob_virtio_notify, info->callback,
				       info->name);
	if (!queue) {
		kfree(vq);
		return ERR_PTR(-ENOMEM);
	}
	queue->priv = vq;
	queue->num_max = virtio->info.queue_size;
	error = ob_virtio_start_vq(virtio, queue, info->callback);
	if (error) {
		ob_virtio_del_vq(queue);
		return ERR_PTR(error);
	}
	return queue;
}

static int ob_virtio_find_vqs(struct virtio_device *device, unsigned int count,
			      struct virtqueue *queues[], struct virtqueue_info infos[],
			      struct irq_affinity *affinity)
{
	struct ob_virtio *virtio = ob_virtio_of(device);
	unsigned int i, index = 0;
	int result;

	result = ob_virtio_request_interrupt(ob_virtio_config_changed, dev_name(&device->dev),
					     device);
	if (result < 0)
		return result;
	virtio->config_interrupt = result;
	for (i = 0; i < count; i++) {
		queues[i] = NULL;
		if (!infos[i].name)
			continue;
		queues[i] = ob_virtio_make_vq(virtio, index++, &infos[i]);
		if (IS_ERR(queues[i])) {
			ob_virtio_del_vqs(device);
			return PTR_ERR(queues[i]);
		}
	}
	return 0;
}

static int ob_virtio_set_vq_affinity(struct virtqueue *queue, const struct cpumask *mask)
{
	const struct ob_virtio_vq *vq = queue->priv;

	if (!vq->interrupt)
		return 0;
	return irq_set_affinity(irq_find_mapping(ob_irq_domain, vq->interrupt),
				mask ?: cpu_possible_mask);
}

const struct virtio_config_ops ob_virtio_operations = {
	.get = ob_virtio_get,
	.set = ob_virtio_set,
	.get_status = ob_virtio_get_status,
	.set_status = ob_virtio_set_status,
	.reset = ob_virtio_reset,
	.find_vqs = ob_virtio_find_vqs,
	.del_vqs = ob_virtio_del_vqs,
	.get_features = ob_virtio_get_features,
	.finalize_features = ob_virtio_finalize_features,
	.bus_name = ob_virtio_bus_name,
	.set_vq_affinity = ob_virtio_set_vq_affinity,
};

static void ob_virtio_release(struct device *device)
{
	kfree(ob_virtio_of(dev_to_virtio(device)));
}

/* The component that drives devices of this type; NULL: none is known. */
static const char *ob_virtio_component(u32 type)
{
	switch (type) {
	case VIRTIO_ID_NET:
		return "virtio_net";
	case VIRTIO_ID_RNG:
		return "virtio_rng";
	case VIRTIO_ID_9P:
		return "9pnet_virtio";
	case VIRTIO_ID_VSOCK:
		return "vmw_vsock_virtio_transport";
	case VIRTIO_ID_FS:
		return "virtiofs";
	default:
		return NULL;
	}
}

/* The name of the network interface that the driver has made of the device. */
static int ob_virtio_name(struct device *child, void *name)
{
	if (!child->class || strcmp(child->class->name, "net"))
		return 0;
	strscpy(name, dev_name(child), IFNAMSIZ);
	return 1;
}

/*
 * Registers the device. Drivers probe on the thread that registers, or, if the component is loaded
 * now, on the thread that loads. A component that is loaded already is not asked for again: that
 * would wake a worker, and touch every component of a snapshot.
 */
static int ob_virtio_register(struct ob_virtio *virtio, char *name)
{
	const char *component = ob_virtio_component(virtio->info.type);
	struct virtio_device *device = &virtio->device;
	int error;

	device->config = &ob_virtio_operations;
	device->id.device = virtio->info.type;
	device->id.vendor = VIRTIO_DEV_ANY_ID;
	device->dev.release = ob_virtio_release;
	error = register_virtio_device(device);
	if (error) {
		put_device(&device->dev);
		return error;
	}
	if (component && !device->dev.driver)
		request_module("%s", component);
	if (!device->dev.driver) {
		unregister_virtio_device(device);
		return -ENODEV;
	}
	*name = '\0';
	device_for_each_child(&device->dev, name, ob_virtio_name);
	return 0;
}

/* `ran`: `result` is valid, even if a signal ends the thread after the call. */
struct ob_virtio_call {
	u32 number;
	char *name;
	bool ran;
	long result;
};

static long ob_virtio_do(long (*function)(void *argument), struct ob_virtio_call *call)
{
	long error = ob_call(function, call);

	return call->ran ? call->result : error;
}

void ob_virtio_count(int change)
{
	WRITE_ONCE(ob_virtios_in_use, ob_virtios_in_use + change);
}

static void ob_virtio_list_add(struct ob_virtio *virtio)
{
	mutex_lock(&ob_virtios_lock);
	list_add_tail(&virtio->list, &ob_virtios);
	ob_virtio_count(1);
	mutex_unlock(&ob_virtios_lock);
}

struct ob_virtio *ob_virtio_add(u32 number, const struct ob_virtio_info *info, char *name)
{
	struct ob_virtio *virtio = kzalloc(sizeof(*virtio), GFP_KERNEL);
	int error;

	if (!virtio)
		return ERR_PTR(-ENOMEM);
	virtio->number = number;
	virtio->info = *info;
	error = ob_virtio_register(virtio, name);
	if (error)
		return ERR_PTR(error);
	ob_virtio_list_add(virtio);
	return virtio;
}

static long ob_virtio_add_any(u32 number, char *name)
{
	struct ob_virtio_info info;
	struct ob_virtio *virtio;
	long error = ob_host_virtio_info(ob_host, number, &info);

	if (error)
		return error;
	error = ob_virtio_spare_use(number, &info, name);
	if (error != -ENOENT)
		return error;
	virtio = ob_virtio_add(number, &info, name);
	return PTR_ERR_OR_ZERO(virtio);
}

static long ob_virtio_add_call(void *argument)
{
	struct ob_virtio_call *add = argument;

	add->result = ob_virtio_add_any(add->number, add->name);
	add->ran = true;
	return 0;
}

int ob_kernel_virtio_add(u32 number, char name[32])
{
	struct ob_virtio_call add = { .number = number, .name = name };
	long error = ob_virtio_do(ob_virtio_add_call, &add);

	if (error)
		ob_host_virtio_close(ob_host, number);
	return error;
}

static struct ob_virtio *ob_virtio_take(u32 number)
{
	struct ob_virtio *virtio, *found = NULL;

	mutex_lock(&ob_virtios_lock);
	list_for_each_entry(virtio, &ob_virtios, list)
		if (virtio->number == number)
			found = virtio;
	if (found) {
		list_del(&found->list);
		ob_virtio_count(-1);
	}
	mutex_unlock(&ob_virtios_lock);
	return found;
}

/*
 * False: a thread of the host that was stopped is in the middle of a frame. A back-end in another
 * process has ten seconds to answer that its queues have stopped. Blocks.
 */
static bool ob_virtio_stops(struct ob_virtio *virtio)
{
	struct ob_patience patience = ob_patience_begin(4 * OB_PATIENCE);

	while (ob_host_virtio_reset(ob_host, virtio->number) == -EAGAIN) {
		if (ob_patience_is_over(&patience))
			return false;
		msleep(OB_RESET_PAUSE);
	}
	return true;
}

/* From now on the device answers no more: a driver that waits for it, under locks, must not. */
static bool ob_virtio_break(struct ob_virtio *virtio)
{
	if (!ob_virtio_stops(virtio)) {
		ob_virtio_list_add(virtio);
		if (virtio->status & VIRTIO_CONFIG_S_DRIVER_OK)
			ob_host_virtio_start(ob_host, virtio->number, virtio->config_interrupt);
		return false;
	}
	virtio_break_device(&virtio->device);
	return true;
}

/*
 * The driver's own reset waits until the device is out of the buffers, which it then frees. Only
 * virtiofs waits for replies first, to the requests of a mount in this moment: its device, which is
 * in this process, answers until then.
 */
int ob_virtio_remove(u32 number)
{
	struct ob_virtio *virtio = ob_virtio_take(number);

	if (!virtio)
		return -ENOENT;
	if (virtio->device.id.device != VIRTIO_ID_FS && !ob_virtio_break(virtio))
		return -EBUSY;
	unregister_virtio_device(&virtio->device);
	return 0;
}

static long ob_virtio_remove_call(void *argument)
{
	struct ob_virtio_call *remove = argument;

	remove->result = ob_virtio_remove(remove->number);
	remove->ran = true;
	return 0;
}

int ob_kernel_virtio_remove(u32 number)
{
	struct ob_virtio_call remove = { .number = number };
	long error = ob_virtio_do(ob_virtio_remove_call, &remove);

	if (!error)
		ob_host_virtio_close(ob_host, number);
	return error;
}

static int ob_virtio_poll(const u32 *word, u32 bits, u64 end)
{
	return READ_ONCE(ob_virtios_in_use) ? ob_host_virtio_poll(ob_host, word, bits, end) :
					      -ENODEV;
}

static void ob_virtio_close(void)
{
	struct ob_virtio *virtio;

	list_for_each_entry(virtio, &ob_virtios, list)
		ob_host_virtio_close(ob_host, virtio->number);
}

static struct ob_driver ob_virtio_driver = {
	.poll = ob_virtio_poll,
	.close = ob_virtio_close,
};

static int __init ob_virtio_init(void)
{
	ob_driver_register(&ob_virtio_driver);
	return 0;
}
subsys_initcall(ob_virtio_init);
