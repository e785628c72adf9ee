/* SPDX-License-Identifier: GPL-2.0-only */
/* Configuration space of the PCI devices of tests: little-endian fields, some of them writable. */
#ifndef OUTBOARD_TESTS_PCI_CONFIG_H
#define OUTBOARD_TESTS_PCI_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct pci_config {
	uint8_t bytes[256];
	uint8_t writable[256];		/* which bits of `bytes` the kernel can change */
};

void pci_set(uint8_t *bytes, uint32_t offset, uint32_t size, uint64_t value);
uint64_t pci_get(const void *bytes, uint32_t offset, uint32_t size);

/* Fills the header of a device whose BAR 0 has `size` bytes, a power of two. */
void pci_config_init(struct pci_config *config, uint16_t vendor, uint16_t device, uint32_t size);

uint32_t pci_config_read(const struct pci_config *config, uint32_t offset, uint32_t size);
void pci_config_write(struct pci_config *config, uint32_t offset, uint32_t size, uint32_t value);

/* Does the kernel let the device access RAM? */
bool pci_is_master(const struct pci_config *config);

/* The bus address of BAR 0. */
uint64_t pci_bar(const struct pci_config *config);

#endif
