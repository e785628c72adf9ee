// SPDX-License-Identifier: GPL-2.0-only
/* A PCI device that consists of ports: port_device.h. */
#include <linux/pci_regs.h>
#include <string.h>

#include "port_device.h"

#define ALL_PORTS 0x10000

static uint32_t config_read(void *state, uint32_t offset, uint32_t size)
{
	return pci_config_read(&((struct port_device *)state)->config, offset, size);
}

static void config_write(void *state, uint32_t offset, uint32_t size, uint32_t value)
{
	pci_config_write(&((struct port_device *)state)->config, offset, size, value);
}

static uint32_t register_of(const struct port_device *ports, uint32_t offset)
{
	return (uint32_t)pci_get(ports->ports, offset, 4);
}

static void run(struct port_device *ports, uint32_t command)
{
	uint32_t length = register_of(ports, PORT_LENGTH);
	void *ram = NULL;

	if (pci_is_master(&ports->config) && length <= DEVICE_BYTES)
		ram = mock_dma(*ports->host, register_of(ports, PORT_ADDRESS), length);
	pci_set(ports->ports, PORT_RESULT, 4, !ram);
	if (ram && command == COMMAND_TO_DEVICE)
		memcpy(ports->bytes, ram, length);
	else if (ram && command == COMMAND_FROM_DEVICE)
		memcpy(ram, ports->bytes, length);
}

/* Where the ports are in BAR 0; PORT_COUNT: elsewhere. */
static uint32_t place(struct port_device *ports, uint32_t port, uint32_t size)
{
	uint64_t offset = port - pci_bar(&ports->config);
	bool decodes = pci_get(ports->config.bytes, PCI_COMMAND, 2) & PCI_COMMAND_IO;

	ports->accesses++;
	if ((size != 1 && size != 2 && size != 4) || port + size > ALL_PORTS)
		ports->wrong++;
	if (decodes && offset < PORT_COUNT && size <= PORT_COUNT - offset)
		return (uint32_t)offset;
	if (port != LEGACY_PORT)
		ports->unanswered++;
	return PORT_COUNT;
}

static uint32_t take(struct port_device *ports, uint32_t size)
{
	uint32_t value = 0;

	for (uint32_t i = 0; i < size; i++)
		value |= (uint32_t)ports->queue[ports->read++ % sizeof(ports->queue)] << 8 * i;
	return value;
}

static uint32_t port_read(void *state, uint32_t port, uint32_t size)
{
	struct port_device *ports = state;
	uint32_t offset = place(ports, port, size);

	if (offset == PORT_QUEUE)
		return take(ports, size);
	if (offset < PORT_COUNT)
		return (uint32_t)pci_get(ports->ports, offset, size);
	return port == LEGACY_PORT ? ports->legacy : UINT32_MAX;
}

static void port_write(void *state, uint32_t port, uint32_t size, uint32_t value)
{
	struct port_device *ports = state;
	uint32_t offset = place(ports, port, size);

	if (offset == PORT_QUEUE)
		for (uint32_t i = 0; i < size; i++)
			ports->queue[ports->written++ % sizeof(ports->queue)] =
				(uint8_t)(value >> 8 * i);
	else if (offset == PORT_COMMAND)
		run(ports, value);
	else if (offset < PORT_COUNT)
		pci_set(ports->ports, offset, size, value);
	else if (port == LEGACY_PORT)
		ports->legacy = (uint8_t)value;
}

void port_device_init(struct port_device *ports, struct ob_host **host)
{
	*ports = (struct port_device) {
		.device = {
			.state = ports,
			.config_read = config_read, .config_write = config_write,
			.port_read = port_read, .port_write = port_write,
		},
		.host = host,
	};
	/* The number of an experimental virtio device, which virtio-pci leaves alone. */
	pci_config_init(&ports->config, 0x1af4, 0x10f1, PORT_COUNT);
	pci_set(ports->config.bytes, PCI_BASE_ADDRESS_0, 4, PCI_BASE_ADDRESS_SPACE_IO);
}
