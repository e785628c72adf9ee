/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where devices find RAM, by the host's extents (core/dma.c). An address that is in no extent gives
 * DMA_MAPPING_ERROR, or all ones.
 */
#ifndef _ASM_OUTBOARD_DMA_DIRECT_H
#define _ASM_OUTBOARD_DMA_DIRECT_H

dma_addr_t phys_to_dma(struct device *device, phys_addr_t address);
phys_addr_t dma_to_phys(struct device *device, dma_addr_t address);

#endif
