/* SPDX-License-Identifier: GPL-2.0-only */
/* Where devices find RAM: dma.c. */
#ifndef OUTBOARD_CORE_DMA_H
#define OUTBOARD_CORE_DMA_H

#include <linux/types.h>

/* Reads the host's extents. Called once, when memblock knows RAM and nothing uses it yet. */
void ob_dma_setup(void);

/* Up to this physical address, memory belongs to ZONE_DMA32. 0: none does. */
u64 ob_dma_low_end(void);

/* Has the host stated valid extents? */
bool ob_dma_reaches_ram(void);

/* Has an extent any of these bus addresses? */
bool ob_dma_overlaps(u64 bus, u64 size);

#endif
