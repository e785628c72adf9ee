// SPDX-License-Identifier: GPL-2.0-only
/* The device's side of a split virtqueue: virtqueue.h. */
#include <errno.h>
#include <string.h>

#include "virtqueue.h"

#define DESCRIPTOR_BYTES sizeof(struct vring_desc)

struct ob_virtqueue_memory ob_virtqueue_ram(const struct ob_host *host)
{
	const struct ob_posix_region *ram = &host->regions[OB_REGION_RAM];

	return (struct ob_virtqueue_memory){
		.count = 1,
		.parts = { { OB_VIRTIO_BASE, ram->size, (char *)ram->address } },
	};
}

/* The memory behind an address of the driver. NULL: it is not in one part of the memory. */
static void *translate(const struct ob_virtqueue_memory *memory, uint64_t address, uint64_t size)
{
	for (unsigned int i = 0; i < memory->count; i++) {
		const struct ob_virtqueue_part *part = &memory->parts[i];
		uint64_t place = address - part->address;

		if (address >= part->address && place <= part->size && size <= part->size - place)
			return part->bytes + place;
	}
	return NULL;
}

int ob_virtqueue_set(struct ob_virtqueue *queue, const struct ob_virtqueue_memory *memory,
		     const struct ob_virtio_queue *from)
{
	uint64_t size = from->size;

	*queue = (struct ob_virtqueue){ .memory = NULL };
	if (!size || size > 32768 || size & (size - 1) || from->descriptors % 16 ||
	    from->available % 2 || from->used % 4)
		return -EINVAL;
	queue->descriptors = translate(memory, from->descriptors, size * DESCRIPTOR_BYTES);
	/* Both rings end with the index of an event. */
	queue->available = translate(memory, from->available, 4 + 2 * size + 2);
	queue->used = translate(memory, from->used, 4 + 8 * size + 2);
	if (!queue->descriptors || !queue->available || !queue->used)
		return -EINVAL;
	queue->size = (uint16_t)size;
	queue->interrupt = from->interrupt;
	queue->memory = memory;
	return 0;
}

static uint16_t *used_event(struct ob_virtqueue *queue)
{
	return &queue->available->ring[queue->size];
}

static uint16_t *available_event(struct ob_virtqueue *queue)
{
	return (uint16_t *)&queue->used->ring[queue->size];
}

static uint16_t available_index(const struct ob_virtqueue *queue)
{
	return __atomic_load_n(&queue->available->idx, __ATOMIC_ACQUIRE);
}

/* A table of descriptors: the queue's own, or an indirect one. */
struct table {
	const struct vring_desc *descriptors;
	uint32_t size;
	bool is_indirect;
};

static bool add_piece(const struct ob_virtqueue *queue, struct ob_virtqueue_chain *chain,
		      const struct vring_desc *descriptor)
{
	bool is_write = descriptor->flags & VRING_DESC_F_WRITE;
	void *bytes = translate(queue->memory, descriptor->addr, descriptor->len);

	if (!bytes || chain->count == OB_VIRTQUEUE_PIECES)
		return false;
	if (!is_write && chain->readable != chain->count)
		return false;
	chain->pieces[chain->count++] = (struct iovec){ bytes, descriptor->len };
	chain->readable += !is_write;
	return true;
}

/* Switches to the table that the descriptor points to. */
static bool enter_indirect(const struct ob_virtqueue *queue, struct table *table,
			   const struct vring_desc *descriptor)
{
	uint32_t size = descriptor->len / DESCRIPTOR_BYTES;

	/* Neither a table in a table, nor one that is followed by more. */
	if (table->is_indirect || descriptor->flags & VRING_DESC_F_NEXT)
		return false;
	if (!size || descriptor->len % DESCRIPTOR_BYTES)
		return false;
	table->descriptors = translate(queue->memory, descriptor->addr, descriptor->len);
	table->size = size;
	table->is_indirect = true;
	return table->descriptors;
}

/* An indirect table may have any alignment. No later read replaces what was checked. */
static void read_once(struct vring_desc *copy, const struct vring_desc *descriptor)
{
	memcpy(copy, descriptor, sizeof(*copy));
	__asm__ volatile("" ::: "memory");
}

/* A chain that never ends has more pieces than fit. */
static bool walk(const struct ob_virtqueue *queue, struct ob_virtqueue_chain *chain)
{
	struct table table = { queue->descriptors, queue->size, false };
	uint32_t index = chain->head;

	for (;;) {
		struct vring_desc descriptor;

		if (index >= table.size)
			return false;
		read_once(&descriptor, &table.descriptors[index]);
		if (descriptor.flags & VRING_DESC_F_INDIRECT) {
			if (!enter_indirect(queue, &table, &descriptor))
				return false;
			index = 0;
			continue;
		}
		if (!add_piece(queue, chain, &descriptor))
			return false;
		if (!(descriptor.flags & VRING_DESC_F_NEXT))
			return true;
		index = descriptor.next;
	}
}

bool ob_virtqueue_take(struct ob_virtqueue *queue, struct ob_virtqueue_chain *chain)
{
	uint16_t available;

	if (!queue->memory || queue->broken)
		return false;
	available = (uint16_t)(available_index(queue) - queue->taken);
	if (!available)
		return false;
	chain->count = 0;
	chain->readable = 0;
	chain->head = __atomic_load_n(&queue->available->ring[queue->taken & (queue->size - 1)],
				      __ATOMIC_RELAXED);
	if (available > queue->size || !walk(queue, chain)) {
		queue->broken = true;
		return false;
	}
	queue->taken++;
	return true;
}

void ob_virtqueue_return(struct ob_virtqueue *queue, uint16_t head, uint32_t length)
{
	struct vring_used_elem *entry = &queue->used->ring[queue->returned & (queue->size - 1)];

	entry->id = head;
	entry->len = length;
	queue->returned++;
}

void ob_virtqueue_publish(struct ob_virtqueue *queue)
{
	/* Visible before ob_virtqueue_wants_interrupt() reads the driver's wish. */
	__atomic_exchange_n(&queue->used->idx, queue->returned, __ATOMIC_SEQ_CST);
}

bool ob_virtqueue_wants_interrupt(struct ob_virtqueue *queue)
{
	uint16_t before = queue->signalled;

	if (!queue->memory || before == queue->returned)
		return false;
	queue->signalled = queue->returned;
	if (!queue->interrupt)
		return false;
	if (!queue->event_index)
		return !(__atomic_load_n(&queue->available->flags, __ATOMIC_SEQ_CST) &
			 VRING_AVAIL_F_NO_INTERRUPT);
	return vring_need_event(__atomic_load_n(used_event(queue), __ATOMIC_SEQ_CST),
				queue->returned, before);
}

bool ob_virtqueue_ask_notify(struct ob_virtqueue *queue)
{
	if (!queue->memory || queue->broken)
		return false;
	/* The wish is visible before the index is read. Without event indices it always holds. */
	if (queue->event_index)
		__atomic_exchange_n(available_event(queue), queue->taken, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&queue->available->idx, __ATOMIC_SEQ_CST) != queue->taken;
}

bool ob_virtqueue_is_idle(const struct ob_virtqueue *queue)
{
	return !queue->memory || available_index(queue) ==
				 __atomic_load_n(&queue->used->idx, __ATOMIC_ACQUIRE);
}
