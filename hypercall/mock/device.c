// SPDX-License-Identifier: GPL-2.0-only
/*
 * The groups that drivers need, for one device of a test: device memory, ports, DMA and a PCI bus;
 * interrupts are in interrupt.c. The device is function 0 of slot 0, or answers for all functions
 * of the bus.
 *
 * Unless a test states others, RAM has three extents. Their bus addresses differ from their
 * physical ones, and the second extent is below the first one on the bus.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

#define NOTHING 0xffffffffu

#define MB (1ull << 20)

static const struct ob_dma_extent usual_extents[] = {
	{ .physical = 0, .bus = 0x100000000ull, .size = MOCK_BORDER_BOOT },
	{ .physical = MOCK_BORDER_BOOT, .bus = 0x40000000ull,
	  .size = MOCK_BORDER_LATE - MOCK_BORDER_BOOT },
	{ .physical = MOCK_BORDER_LATE, .bus = 0x200000000ull, .size = 1024 * MB },
};

static const struct ob_pci_window window = {
	.address = MOCK_WINDOW_ADDRESS, .size = MOCK_WINDOW_SIZE,
};

static int note_map(struct ob_host *host, uint64_t pointer)
{
	for (int i = 0; i < MOCK_DEVICE_MAPS; i++) {
		if (host->device_maps[i])
			continue;
		host->device_maps[i] = pointer;
		host->counts.device_maps++;
		return 0;
	}
	return -ENOMEM;
}

int ob_host_iomem_map(struct ob_host *host, uint64_t address, uint64_t size, uint32_t flags,
		      uint64_t *pointer)
{
	const struct mock_device *device = host->options.device;
	void *memory;

	if (address < window.address || address - window.address > window.size ||
	    size > window.size - (address - window.address))
		return -EINVAL;
	memory = device->map ? device->map(device->state, address, size, flags) : NULL;
	if (!memory)
		return -EOPNOTSUPP;
	*pointer = (uint64_t)memory;
	return note_map(host, *pointer);
}

void ob_host_iomem_unmap(struct ob_host *host, uint64_t pointer)
{
	for (int i = 0; i < MOCK_DEVICE_MAPS; i++) {
		if (!pointer || host->device_maps[i] != pointer)
			continue;
		host->device_maps[i] = 0;
		host->counts.device_maps--;
		return;
	}
	host->counts.wrong_unmaps++;
}

uint64_t ob_host_iomem_read(struct ob_host *host, uint64_t address, uint32_t size)
{
	const struct mock_device *device = host->options.device;

	return device->read(device->state, address, size);
}

void ob_host_iomem_write(struct ob_host *host, uint64_t address, uint32_t size, uint64_t value)
{
	const struct mock_device *device = host->options.device;

	device->write(device->state, address, size, value);
}

uint32_t ob_host_port_read(struct ob_host *host, uint32_t port, uint32_t size)
{
	const struct mock_device *device = host->options.device;

	return device->port_read(device->state, port, size);
}

void ob_host_port_write(struct ob_host *host, uint32_t port, uint32_t size, uint32_t value)
{
	const struct mock_device *device = host->options.device;

	device->port_write(device->state, port, size, value);
}

static const struct ob_dma_extent *all_extents(const struct ob_host *host, uint32_t *count)
{
	bool own = host->options.extents;

	*count = own ? host->options.extent_count :
		 sizeof(usual_extents) / sizeof(usual_extents[0]);
	return own ? host->options.extents : usual_extents;
}

int ob_host_dma_extent(struct ob_host *host, uint32_t index, struct ob_dma_extent *extent)
{
	uint32_t count;
	const struct ob_dma_extent *extents = all_extents(host, &count);

	if (index >= count)
		return -ENOENT;
	*extent = extents[index];
	return 0;
}

void *mock_ram(struct ob_host *host, uint64_t physical)
{
	return (char *)host->ram + physical;
}

void *mock_dma(struct ob_host *host, uint64_t bus, uint64_t size)
{
	uint32_t count;
	const struct ob_dma_extent *extents = all_extents(host, &count);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = bus - extents[i].bus;

		if (bus < extents[i].bus || offset > extents[i].size ||
		    size > extents[i].size - offset)
			continue;
		if (extents[i].physical + offset + size > host->counts.extended)
			return NULL;
		return mock_ram(host, extents[i].physical + offset);
	}
	return NULL;
}

int ob_host_pci_window(struct ob_host *host, uint32_t index, struct ob_pci_window *found)
{
	const struct ob_pci_window *own = host->options.windows;

	if (index >= (own ? host->options.window_count : 1))
		return -ENOENT;
	*found = own ? own[index] : window;
	return 0;
}

/* The device that is this function of the bus; NULL: none. */
static const struct mock_device *device_at(struct ob_host *host, uint32_t function)
{
	const struct mock_device *device = host->options.device;

	if (device->at)
		return device->at(device->state, function);
	return function ? NULL : device;
}

uint32_t ob_host_pci_read(struct ob_host *host, uint32_t function, uint32_t offset, uint32_t size)
{
	const struct mock_device *device = device_at(host, function);

	return device ? device->config_read(device->state, offset, size) : NOTHING;
}

void ob_host_pci_write(struct ob_host *host, uint32_t function, uint32_t offset, uint32_t size,
		       uint32_t value)
{
	const struct mock_device *device = device_at(host, function);

	if (device)
		device->config_write(device->state, offset, size, value);
}

int ob_host_pci_pin(struct ob_host *host, uint32_t function, uint32_t pin, uint32_t *routed,
		    uint32_t *flags)
{
	const struct mock_device *device = host->options.device;

	return device->pin ? device->pin(device->state, function, pin, routed, flags) : -ENOENT;
}

void mock_device_vcpus_stopped(struct ob_host *host)
{
	const struct mock_device *device = host->options.device;

	if (device && device->vcpus_stopped)
		device->vcpus_stopped(device->state);
}
