// SPDX-License-Identifier: GPL-2.0-only
/* A PCI device that consists of memory: memory_device.h. */
#include <linux/pci_regs.h>
#include <stdlib.h>

#include "check.h"
#include "memory_device.h"

#define MSI 0x40
/* A field of its own: the flags of the last mapping. */
#define MAP_FLAGS 0x60

static uint32_t config_read(void *state, uint32_t offset, uint32_t size)
{
	return pci_config_read(&((struct memory_device *)state)->config, offset, size);
}

static void config_write(void *state, uint32_t offset, uint32_t size, uint32_t value)
{
	struct memory_device *memory = state;
	struct pci_config *config = &memory->config;
	bool was_master = pci_is_master(config);

	pci_config_write(config, offset, size, value);
	if (was_master && !pci_is_master(config) && memory->host)
		mock_message(*memory->host, pci_get(config->bytes, MSI + PCI_MSI_ADDRESS_LO, 8),
			     (uint32_t)pci_get(config->bytes, MSI + PCI_MSI_DATA_64, 2));
}

/* Where a range of bus addresses is in the memory; NULL: not there. */
static uint8_t *place(const struct memory_device *memory, uint64_t address, uint64_t size)
{
	uint64_t offset = address - pci_bar(&memory->config);

	if (offset >= MEMORY_SIZE || size > MEMORY_SIZE - offset)
		return NULL;
	return memory->memory + offset;
}

static uint8_t *access_memory(struct memory_device *memory, uint64_t address, uint32_t size)
{
	uint8_t *bytes = place(memory, address, size);

	memory->accesses++;
	if (!bytes || address % size)
		memory->misplaced++;
	return bytes;
}

static uint64_t memory_read(void *state, uint64_t address, uint32_t size)
{
	const uint8_t *bytes = access_memory(state, address, size);

	return bytes ? pci_get(bytes, 0, size) : UINT64_MAX;
}

static void memory_write(void *state, uint64_t address, uint32_t size, uint64_t value)
{
	uint8_t *bytes = access_memory(state, address, size);

	if (bytes)
		pci_set(bytes, 0, size, value);
}

static void *map(void *state, uint64_t address, uint64_t size, uint32_t flags)
{
	struct memory_device *memory = state;

	pci_set(memory->config.bytes, MAP_FLAGS, 4, flags);
	return place(memory, address, size);
}

/* MSI, with one vector and without mask bits. */
static void add_messages(struct pci_config *config)
{
	pci_set(config->bytes, PCI_STATUS, 2, PCI_STATUS_CAP_LIST);
	pci_set(config->bytes, PCI_CAPABILITY_LIST, 1, MSI);
	pci_set(config->bytes, MSI, 1, PCI_CAP_ID_MSI);
	pci_set(config->bytes, MSI + PCI_MSI_FLAGS, 2, PCI_MSI_FLAGS_64BIT);
	pci_set(config->writable, MSI + PCI_MSI_FLAGS, 2, PCI_MSI_FLAGS_ENABLE);
	pci_set(config->writable, MSI + PCI_MSI_ADDRESS_LO, 8, ~3ull);
	pci_set(config->writable, MSI + PCI_MSI_DATA_64, 2, 0xffff);
}

void memory_device_init(struct memory_device *memory, bool mapped, uint8_t seed)
{
	*memory = (struct memory_device) {
		.device = {
			.state = memory,
			.config_read = config_read, .config_write = config_write,
			.read = memory_read, .write = memory_write,
			.map = mapped ? map : NULL,
		},
		.memory = aligned_alloc(MEMORY_SIZE, MEMORY_SIZE),
	};
	CHECK(memory->memory);
	/* The number of an experimental virtio device, which virtio-pci leaves alone. */
	pci_config_init(&memory->config, 0x1af4, 0x10f0, MEMORY_SIZE);
	add_messages(&memory->config);
	for (uint32_t i = 0; i < MEMORY_SIZE; i++)
		memory->memory[i] = (uint8_t)(seed + i * 7 + i / 256);
}
