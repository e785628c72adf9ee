// SPDX-License-Identifier: GPL-2.0-only
/*
 * A virtio entropy device: virtio_rng.h. Numbers are those of the virtio 1.2 and PCI
 * specifications.
 */
#include <linux/pci_regs.h>
#include <linux/virtio_config.h>
#include <linux/virtio_pci.h>
#include <linux/virtio_ring.h>
#include <stddef.h>
#include <string.h>

#include "virtio_rng.h"

/* Parts of the only BAR. */
enum {
	COMMON = 0x0000, ISR = 0x1000, NOTIFY = 0x2000, TABLE = 0x3000, PENDING = 0x4000,
	BAR_SIZE = 0x8000,
};

#define CAPABILITIES 0x40
#define MSIX 0x80	/* where virtio's capabilities end */
#define NO_VECTOR 0xffff

/* One of virtio's capabilities. Returns where the next one goes. */
static uint32_t add_capability(struct rng *rng, uint32_t at, uint8_t type, uint32_t offset,
			       uint8_t size)
{
	struct virtio_pci_cap cap = {
		.cap_vndr = PCI_CAP_ID_VNDR, .cap_next = (uint8_t)(at + size), .cap_len = size,
		.cfg_type = type, .offset = offset, .length = 0x1000,
	};

	memcpy(rng->config.bytes + at, &cap, sizeof(cap));
	return at + size;
}

static void fill_config(struct rng *rng)
{
	uint32_t at = CAPABILITIES;

	pci_config_init(&rng->config, 0x1af4, 0x1044, BAR_SIZE);
	pci_set(rng->config.bytes, PCI_REVISION_ID, 1, 1);
	pci_set(rng->config.bytes, PCI_SUBSYSTEM_VENDOR_ID, 2, 0x1af4);
	pci_set(rng->config.bytes, PCI_STATUS, 2, PCI_STATUS_CAP_LIST);
	pci_set(rng->config.bytes, PCI_CAPABILITY_LIST, 1, CAPABILITIES);
	/* As firmware leaves it: 1 is the number of another Linux interrupt. */
	pci_set(rng->config.bytes, PCI_INTERRUPT_LINE, 1, 1);
	pci_set(rng->config.bytes, PCI_INTERRUPT_PIN, 1, 1);
	pci_set(rng->config.writable, PCI_INTERRUPT_LINE, 1, 0xff);
	at = add_capability(rng, at, VIRTIO_PCI_CAP_COMMON_CFG, COMMON, 16);
	at = add_capability(rng, at, VIRTIO_PCI_CAP_ISR_CFG, ISR, 16);
	/* The multiplier of the queues' offsets comes after it: 0, since there is one queue. */
	add_capability(rng, at, VIRTIO_PCI_CAP_NOTIFY_CFG, NOTIFY, 32);
	pci_set(rng->config.bytes, MSIX, 1, PCI_CAP_ID_MSIX);
	pci_set(rng->config.bytes, MSIX + PCI_MSIX_FLAGS, 2, RNG_VECTORS - 1);
	pci_set(rng->config.writable, MSIX + PCI_MSIX_FLAGS, 2,
	    PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
	pci_set(rng->config.bytes, MSIX + PCI_MSIX_TABLE, 4, TABLE);
	pci_set(rng->config.bytes, MSIX + PCI_MSIX_PBA, 4, PENDING);
}

static uint32_t config_read(void *state, uint32_t offset, uint32_t size)
{
	return pci_config_read(&((struct rng *)state)->config, offset, size);
}

static void config_write(void *state, uint32_t offset, uint32_t size, uint32_t value)
{
	pci_config_write(&((struct rng *)state)->config, offset, size, value);
}

/* RAM as the device sees it. */
static void *reach(struct rng *rng, uint64_t bus, uint64_t size)
{
	void *found = NULL;

	if (pci_is_master(&rng->config))
		found = mock_dma(*rng->host, bus, size);
	if (!found)
		rng->unreachable++;
	if (bus < rng->lowest)
		rng->lowest = bus;
	return found;
}

static void send(struct rng *rng, uint16_t number)
{
	const struct rng_vector *vector = &rng->vectors[number % RNG_VECTORS];
	uint32_t flags = pci_config_read(&rng->config, MSIX + PCI_MSIX_FLAGS, 2);

	if (number >= RNG_VECTORS || !(flags & PCI_MSIX_FLAGS_ENABLE) ||
	    flags & PCI_MSIX_FLAGS_MASKALL || vector->control & PCI_MSIX_ENTRY_CTRL_MASKBIT) {
		rng->withheld++;
		return;
	}
	rng->messages++;
	mock_message(*rng->host, (uint64_t)vector->address_high << 32 | vector->address_low,
		     vector->data);
}

/* Fills one buffer. */
static void fill(struct rng *rng, const struct vring_desc *descriptor)
{
	uint8_t *bytes = reach(rng, descriptor->addr, descriptor->len);

	if (!bytes || !(descriptor->flags & VRING_DESC_F_WRITE))
		return;
	for (uint32_t i = 0; i < descriptor->len; i++)
		bytes[i] = (uint8_t)(rng->high | (rng->bytes++ & 15));
	rng->buffers++;
}

static void run_queue(struct rng *rng)
{
	struct rng_queue *queue = &rng->queue;
	struct vring_desc *descriptors = reach(rng, queue->descriptors,
					       queue->size * sizeof(*descriptors));
	struct vring_avail *driver = reach(rng, queue->driver, 4 + 2u * queue->size);
	struct vring_used *device = reach(rng, queue->device, 4 + 8u * queue->size);

	if (!descriptors || !driver || !device)
		return;
	while (queue->seen != driver->idx) {
		uint16_t head = driver->ring[queue->seen++ % queue->size];
		const struct vring_desc *descriptor = &descriptors[head % queue->size];

		fill(rng, descriptor);
		device->ring[device->idx % queue->size] = (struct vring_used_elem) {
			.id = head, .len = descriptor->len,
		};
		__atomic_store_n(&device->idx, (uint16_t)(device->idx + 1), __ATOMIC_RELEASE);
	}
	send(rng, queue->vector);
}

static uint64_t features(uint32_t select)
{
	/* Addresses are those of the bus. */
	const uint64_t all = 1ull << VIRTIO_F_VERSION_1 | 1ull << VIRTIO_F_ACCESS_PLATFORM;

	return select == 1 ? all >> 32 : 0;
}

static uint64_t common_read(struct rng *rng, uint32_t offset)
{
	switch (offset) {
	case VIRTIO_PCI_COMMON_DF:
		return features(rng->feature_select);
	case VIRTIO_PCI_COMMON_MSIX:
		return rng->config_vector;
	case VIRTIO_PCI_COMMON_NUMQ:
		return 1;
	case VIRTIO_PCI_COMMON_STATUS:
		return rng->status;
	case VIRTIO_PCI_COMMON_Q_SIZE:
		return rng->queue.size;
	case VIRTIO_PCI_COMMON_Q_MSIX:
		return rng->queue.vector;
	case VIRTIO_PCI_COMMON_Q_ENABLE:
		return rng->queue.enabled;
	default:
		return 0;
	}
}

/* One half of an address. */
static void set_half(uint64_t *address, bool high, uint64_t value)
{
	uint64_t shift = high ? 32 : 0;

	*address = (*address & ~(0xffffffffull << shift)) | (value & 0xffffffff) << shift;
}

static void reset(struct rng *rng)
{
	rng->queue = (struct rng_queue){ .size = RNG_QUEUE_SIZE, .vector = NO_VECTOR };
	rng->config_vector = NO_VECTOR;
	rng->driver_features = 0;
}

static void set_status(struct rng *rng, uint8_t status)
{
	/* A driver must reset the device while the device still has the bus and its interrupts. */
	if (!status && rng->status) {
		rng->reset_as_master = pci_is_master(&rng->config);
		rng->live_at_reset = mock_counts(*rng->host)->interrupts_live;
	}
	rng->status = status;
	if (!status)
		reset(rng);
}

static void common_write(struct rng *rng, uint32_t offset, uint64_t value)
{
	struct rng_queue *queue = &rng->queue;

	switch (offset) {
	case VIRTIO_PCI_COMMON_DFSELECT:
		rng->feature_select = (uint32_t)value;
		break;
	case VIRTIO_PCI_COMMON_GFSELECT:
		rng->driver_feature_select = (uint32_t)value;
		break;
	case VIRTIO_PCI_COMMON_GF:
		set_half(&rng->driver_features, rng->driver_feature_select == 1, value);
		break;
	case VIRTIO_PCI_COMMON_MSIX:
		rng->config_vector = (uint16_t)value;
		break;
	case VIRTIO_PCI_COMMON_STATUS:
		set_status(rng, (uint8_t)value);
		break;
	case VIRTIO_PCI_COMMON_Q_SIZE:
		if (value && value <= RNG_QUEUE_SIZE)
			queue->size = (uint16_t)value;
		break;
	case VIRTIO_PCI_COMMON_Q_MSIX:
		queue->vector = (uint16_t)value;
		break;
	case VIRTIO_PCI_COMMON_Q_ENABLE:
		queue->enabled = value & 1;
		break;
	case VIRTIO_PCI_COMMON_Q_DESCLO:
	case VIRTIO_PCI_COMMON_Q_DESCHI:
		set_half(&queue->descriptors, offset == VIRTIO_PCI_COMMON_Q_DESCHI, value);
		break;
	case VIRTIO_PCI_COMMON_Q_AVAILLO:
	case VIRTIO_PCI_COMMON_Q_AVAILHI:
		set_half(&queue->driver, offset == VIRTIO_PCI_COMMON_Q_AVAILHI, value);
		break;
	case VIRTIO_PCI_COMMON_Q_USEDLO:
	case VIRTIO_PCI_COMMON_Q_USEDHI:
		set_half(&queue->device, offset == VIRTIO_PCI_COMMON_Q_USEDHI, value);
		break;
	}
}

/* Where in the BAR an address is; BAR_SIZE or more: not there. */
static uint64_t place(const struct rng *rng, uint64_t address)
{
	return address - pci_bar(&rng->config);
}

static uint64_t memory_read(void *state, uint64_t address, uint32_t size)
{
	struct rng *rng = state;
	uint64_t at = place(rng, address);

	if (at < ISR)
		return common_read(rng, (uint32_t)at);
	if (at >= TABLE && at + size <= TABLE + sizeof(rng->vectors))
		return pci_get(rng->vectors, (uint32_t)(at - TABLE), size);
	return 0;
}

static void table_write(struct rng *rng, uint32_t at, uint32_t size, uint64_t value)
{
	const struct rng_vector *vector = &rng->vectors[at / sizeof(*vector)];
	bool fills = at % sizeof(*vector) == offsetof(struct rng_vector, data) && !vector->data &&
		     value;

	pci_set((uint8_t *)rng->vectors, at, size, value);
	if (rng->hasty && fills)
		mock_message(*rng->host, vector->address_low, vector->data);
}

static void memory_write(void *state, uint64_t address, uint32_t size, uint64_t value)
{
	struct rng *rng = state;
	uint64_t at = place(rng, address);

	if (at < ISR)
		common_write(rng, (uint32_t)at, value);
	else if (at == NOTIFY && rng->queue.enabled)
		run_queue(rng);
	else if (at >= TABLE && at + size <= TABLE + sizeof(rng->vectors))
		table_write(rng, (uint32_t)(at - TABLE), size, value);
}

static void vcpus_stopped(void *state)
{
	struct rng *rng = state;

	rng->stops++;
	rng->master_at_stop = pci_is_master(&rng->config);
	rng->live_at_stop = mock_counts(*rng->host)->interrupts_live;
}

void rng_init(struct rng *rng, struct ob_host **host)
{
	*rng = (struct rng) {
		.host = host,
		.device = {
			.state = rng,
			.config_read = config_read, .config_write = config_write,
			.read = memory_read, .write = memory_write,
			.vcpus_stopped = vcpus_stopped,
		},
		.high = 0xa0,
		.lowest = UINT64_MAX,
	};
	for (int i = 0; i < RNG_VECTORS; i++)
		rng->vectors[i].control = PCI_MSIX_ENTRY_CTRL_MASKBIT;
	fill_config(rng);
	reset(rng);
}
