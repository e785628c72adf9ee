// SPDX-License-Identifier: GPL-2.0-only
/* A PCI bus with interrupts by pins: pin_bus.h. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stddef.h>

#include "pin_bus.h"

#define MSI 0x40
#define BRIDGE_FUNCTION (1 << 3)

static bool sends_messages(const struct pin_device *device)
{
	return pci_get(device->config.bytes, MSI + PCI_MSI_FLAGS, 2) & PCI_MSI_FLAGS_ENABLE;
}

static bool asserts_line(const struct pin_device *device)
{
	uint64_t command = pci_get(device->config.bytes, PCI_COMMAND, 2);

	return !(command & PCI_COMMAND_INTX_DISABLE) && !sends_messages(device) &&
	       (device->stuck || device->config.bytes[PIN_EVENTS]);
}

void pin_lines(struct pin_bus *bus)
{
	bool asserted[MOCK_PINS] = { false };

	for (int i = 0; i < PIN_DEVICES; i++)
		if (asserts_line(&bus->devices[i]))
			asserted[bus->devices[i].number] = true;
	for (uint32_t i = 0; i < MOCK_PINS; i++)
		mock_line(*bus->host, i, asserted[i]);
}

/* The index of the message is in the lowest bits of its data, as many as the kernel permits. */
static void send_message(const struct pin_device *device, uint32_t event)
{
	const uint8_t *bytes = device->config.bytes;
	uint64_t flags = pci_get(bytes, MSI + PCI_MSI_FLAGS, 2);
	uint32_t mask = (1u << ((flags & PCI_MSI_FLAGS_QSIZE) >> 4)) - 1;
	uint32_t data = (uint32_t)pci_get(bytes, MSI + PCI_MSI_DATA_64, 2);

	mock_message(*device->bus->host, pci_get(bytes, MSI + PCI_MSI_ADDRESS_LO, 8),
		     (data & ~mask) | (event & mask));
}

void pin_event(struct pin_device *device, uint32_t event)
{
	if (sends_messages(device)) {
		send_message(device, event);
		return;
	}
	device->config.bytes[PIN_EVENTS] |= (uint8_t)(1u << event);
	pin_lines(device->bus);
}

static uint32_t config_read(void *state, uint32_t offset, uint32_t size)
{
	return pci_config_read(&((struct pin_device *)state)->config, offset, size);
}

static void clear_events(struct pin_device *device, uint8_t events)
{
	uint8_t *now = &device->config.bytes[PIN_EVENTS];

	if (*now & events && device->again) {
		device->again--;
		return;
	}
	*now &= (uint8_t)~events;
}

static void config_write(void *state, uint32_t offset, uint32_t size, uint32_t value)
{
	struct pin_device *device = state;
	bool was_master = pci_is_master(&device->config);

	if (offset == PIN_EVENTS)
		clear_events(device, (uint8_t)value);
	else
		pci_config_write(&device->config, offset, size, value);
	if (device->at_halt && was_master && !pci_is_master(&device->config))
		pin_event(device, 0);
	pin_lines(device->bus);
}

static const struct mock_device *device_at(void *state, uint32_t function)
{
	static const uint32_t slots[PIN_DEVICES] = { 0, 2, 3 };
	const struct pin_bus *bus = state;
	uint32_t behind = bus->bridge.config.bytes[PCI_SECONDARY_BUS];

	if (function == BRIDGE_FUNCTION)
		return &bus->bridge.device;
	for (uint32_t i = 0; i < PIN_DEVICES; i++)
		if (function == (slots[i] << 3 | (i && behind ? behind << 8 : 0)))
			return !i || behind ? &bus->devices[i].device : NULL;
	return NULL;
}

static int route(void *state, uint32_t function, uint32_t pin, uint32_t *routed, uint32_t *flags)
{
	struct pin_bus *bus = state;

	for (int i = 0; i < 2; i++) {
		if (bus->routes[i].function != function || bus->routes[i].pin != pin)
			continue;
		*routed = bus->routes[i].number;
		*flags = bus->routes[i].flags;
		return 0;
	}
	bus->questions++;
	return -ENOENT;
}

/* MSI with mask bits, and 8 messages. */
static void add_messages(struct pci_config *config)
{
	pci_set(config->bytes, PCI_STATUS, 2, PCI_STATUS_CAP_LIST);
	pci_set(config->bytes, PCI_CAPABILITY_LIST, 1, MSI);
	pci_set(config->bytes, MSI, 1, PCI_CAP_ID_MSI);
	pci_set(config->bytes, MSI + PCI_MSI_FLAGS, 2,
		PCI_MSI_FLAGS_64BIT | PCI_MSI_FLAGS_MASKBIT | 3 << 1);
	pci_set(config->writable, MSI + PCI_MSI_FLAGS, 2,
		PCI_MSI_FLAGS_ENABLE | PCI_MSI_FLAGS_QSIZE);
	pci_set(config->writable, MSI + PCI_MSI_ADDRESS_LO, 8, ~3ull);
	pci_set(config->writable, MSI + PCI_MSI_DATA_64, 2, 0xffff);
	pci_set(config->writable, MSI + PCI_MSI_MASK_64, 4, 0xff);
}

static void init_device(struct pin_bus *bus, struct pin_device *device, uint16_t id)
{
	*device = (struct pin_device) {
		.device = {
			.state = device, .config_read = config_read, .config_write = config_write,
		},
		.bus = bus,
	};
	pci_config_init(&device->config, 0x1af4, id, 0);
}

static void init_bridge(struct pin_bus *bus)
{
	struct pci_config *config = &bus->bridge.config;

	init_device(bus, &bus->bridge, 0x10f2);
	pci_set(config->bytes, PCI_CLASS_DEVICE, 2, 0x0604);
	pci_set(config->bytes, PCI_HEADER_TYPE, 1, PCI_HEADER_TYPE_BRIDGE);
	pci_set(config->writable, PCI_PRIMARY_BUS, 4, 0xffffff);
	pci_set(config->writable, PCI_MEMORY_BASE, 4, 0xfff0fff0);
}

void pin_bus_init(struct pin_bus *bus, struct ob_host **host, uint32_t flags)
{
	*bus = (struct pin_bus) {
		.host = host,
		.device = { .state = bus, .at = device_at, .pin = route },
		.routes = {
			{ .function = 0, .pin = 1, .number = PIN_OF_DEVICE_0, .flags = flags },
			{ .function = BRIDGE_FUNCTION, .pin = 3, .number = PIN_OF_BRIDGE,
			  .flags = flags },
		},
	};
	init_bridge(bus);
	for (int i = 0; i < PIN_DEVICES; i++) {
		struct pin_device *device = &bus->devices[i];
		struct pci_config *config = &device->config;

		init_device(bus, device, 0x10f1);
		device->number = i ? PIN_OF_BRIDGE : PIN_OF_DEVICE_0;
		add_messages(config);
		pci_set(config->bytes, PCI_INTERRUPT_PIN, 1, i == 2 ? 4 : 1);
		config->bytes[PIN_WANTED] = PIN_MESSAGES_MOST;
		for (uint32_t at = PIN_VECTORS; at < PIN_REGISTERS_END; at++)
			config->writable[at] = 0xff;
	}
}

uint32_t pin_register(const struct pin_device *device, uint32_t number)
{
	return device->config.bytes[number];
}
