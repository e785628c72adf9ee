// SPDX-License-Identifier: GPL-2.0-only
/* Configuration space of the PCI devices of tests: pci_config.h. */
#include <linux/pci_regs.h>
#include <string.h>

#include "pci_config.h"

void pci_set(uint8_t *bytes, uint32_t offset, uint32_t size, uint64_t value)
{
	memcpy(bytes + offset, &value, size);
}

uint64_t pci_get(const void *bytes, uint32_t offset, uint32_t size)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)bytes + offset, size);
	return value;
}

void pci_config_init(struct pci_config *config, uint16_t vendor, uint16_t device, uint32_t size)
{
	*config = (struct pci_config){ 0 };
	pci_set(config->bytes, PCI_VENDOR_ID, 2, vendor);
	pci_set(config->bytes, PCI_DEVICE_ID, 2, device);
	pci_set(config->bytes, PCI_CLASS_DEVICE, 2, 0x00ff);
	pci_set(config->writable, PCI_COMMAND, 2, 0xffff);
	pci_set(config->writable, PCI_BASE_ADDRESS_0, 4, ~(size - 1));
}

uint32_t pci_config_read(const struct pci_config *config, uint32_t offset, uint32_t size)
{
	/* There is no extended configuration space. */
	if (offset + size > sizeof(config->bytes))
		return 0;
	return (uint32_t)pci_get(config->bytes, offset, size);
}

void pci_config_write(struct pci_config *config, uint32_t offset, uint32_t size, uint32_t value)
{
	uint64_t mask;

	if (offset + size > sizeof(config->bytes))
		return;
	mask = pci_get(config->writable, offset, size);
	value = (uint32_t)((pci_get(config->bytes, offset, size) & ~mask) | (value & mask));
	pci_set(config->bytes, offset, size, value);
}

bool pci_is_master(const struct pci_config *config)
{
	return pci_get(config->bytes, PCI_COMMAND, 2) & PCI_COMMAND_MASTER;
}

uint64_t pci_bar(const struct pci_config *config)
{
	return pci_get(config->bytes, PCI_BASE_ADDRESS_0, 4) & ~15ull;
}
